"""Trade-offs and qualitative examples come out of rows as they are named (§5.1; Appendix)."""

import re

import pytest
from test_results import shelf  # noqa: F401

from companion.pages import qualitative, results, tradeoffs
from companion.pages.tables import DASH
from companion.record import rows
from companion.runs import datasets, methods
from revs.measures import instead, perturbations


def test_efficacy_falls_with_the_number_of_candidates(shelf):  # noqa: F811
    shelf(seed=1, ranks=(50, 10))
    shelf(seed=2, ranks=(150, 10))
    frame = tradeoffs.by_candidates(tradeoffs.measured("smollm2-135m", "ssn")).set_index("|C|")
    assert (
        frame.loc[10, "efficacy"] == 100
        and frame.loc[100, "efficacy"] == pytest.approx(75)
        and frame.loc[200, "efficacy"] == pytest.approx(50)
    )
    assert frame.loc[100, "std"] == pytest.approx(35.355, abs=1e-3)


def test_a_knob_has_its_runs_and_the_tuned_one_in_order(shelf):  # noqa: F811
    for tag, r_h, efficacy in (
        ("curve-r_h0.05", 0.05, 0.9),
        ("base", 0.02, 0.5),
        ("curve-r_h0.006", 0.006, 0.1),
        ("curve-n_max10", 0.02, 0.2),
        ("targets-forget5", 0.02, 0.3),
    ):
        shelf(tag=tag, hyperparameters={"r_h": r_h}, efficacy=efficacy)
    shelf(tag="strength", method="ft_l", hyperparameters={"norm_constraint": 0.1})
    found = tradeoffs.by_strength("smollm2-135m", "ssn")
    assert list(found) == ["revs"] and list(found["revs"]["tag"]) == [
        "curve-r_h0.006",
        "base",
        "curve-r_h0.05",
    ]
    shelf(
        tag="strength-norm_constraint0.0001",
        method="ft_l",
        hyperparameters={"norm_constraint": 0.0001},
    )
    shelf(tag="strength-norm_constraint0.4", method="ft_l", failed="FT-L diverged.")
    assert list(tradeoffs.by_strength("smollm2-135m", "ssn")["ft_l"]["norm_constraint"]) == [
        0.0001,
        0.1,
    ]
    assert set(tradeoffs.by_targets("smollm2-135m", "ssn")["revs"]["tag"]) == {
        "base",
        "targets-forget5",
    }
    lines = tradeoffs.table(found, "knob")
    assert list(lines["knob"]) == ["0.006", "0.02", "0.05"] and list(lines["Efficacy"]) == [
        "10.0",
        "50.0",
        "90.0",
    ]


def test_a_point_far_better_than_the_tuned_one_is_named(shelf):  # noqa: F811
    """By more than ten points; a method without its tuned run among them is left out."""
    found = lambda: tradeoffs.missed(
        {("smollm2-135m", "ssn"): tradeoffs.by_strength("smollm2-135m", "ssn")}
    )
    for method, tag, value, score in (
        ("revs", "base", 0.1, 0.5),
        ("revs", "curve-r_h0.2", 0.2, 0.59),
        ("memit", "strength-clamp_norm_factor0.75", 0.75, 0.1),
        ("memit", "strength-clamp_norm_factor4.0", 4.0, 0.9),
    ):
        shelf(
            method=method,
            tag=tag,
            hyperparameters={tradeoffs.KNOBS[method]: value},
            efficacy=score,
            specificity=score,
        )
    assert found() == ""
    shelf(
        method="memit",
        tag="strength",
        hyperparameters={"clamp_norm_factor": 2.0},
        efficacy=0.2,
        specificity=0.2,
    )
    assert (
        "SSN, SmolLM2: MEMIT with `clamp_norm_factor` 4 scores 90.0, as it was tuned 20.0."
        in found().replace(results.short("smollm2-135m"), "SmolLM2")
        and "REVS" not in found()
    )


def test_a_panel_has_a_short_title_and_a_caption_what_its_points_were_made_on(shelf):  # noqa: F811
    assert (
        tradeoffs.panel("gptj-small", "ssn") == "SSN, small GPT-J"
        and tradeoffs.panel("smollm2-135m", "urls") == "URLs, SmolLM2-135M-Instruct"
    )
    for model, data in (("gptj-small", "ssn"), ("gptj-small", "emails"), ("smollm2-135m", "ssn")):
        for tag in ("base", "targets-forget5"):
            shelf(tag=tag, data=data, model=model)
    assert (
        tradeoffs.on(tradeoffs.of_models(tradeoffs.by_targets, "gptj-small", "smollm2-135m"))
        == f"{results.title('gptj-small')}. SSN, Emails: seed 0, weights x. {results.title('smollm2-135m')}. SSN: seed 0, weights x"
    )


def test_claims_about_pictures_are_judged_from_rows(shelf):  # noqa: F811
    judged = lambda kind, *given: getattr(tradeoffs, kind)("smollm2-135m", "ssn", *given)
    assert (
        judged("dominates", "revs", "ft_l")
        is judged("above", "revs", "ft_l")
        is judged("steadier", "revs", "ft_l", 10)
        is judged("weakest", "none")
        is None
    )
    for tag, r_h, efficacy, specificity in (
        ("base", 0.02, 0.5, 0.9),
        ("curve-r_h0.05", 0.05, 0.9, 0.5),
    ):
        shelf(tag=tag, hyperparameters={"r_h": r_h}, efficacy=efficacy, specificity=specificity)
    for tag, bound, efficacy, specificity in (
        ("strength", 0.1, 0.5, 0.8),
        ("strength-norm_constraint0.4", 0.4, 0.6, 0.6),
    ):
        shelf(
            tag=tag,
            method="ft_l",
            hyperparameters={"norm_constraint": bound},
            efficacy=efficacy,
            specificity=specificity,
        )
    assert (
        judged("dominates", "revs", "ft_l")[:2] == (False, "1 of 2 points")
        and len(judged("dominates", "revs", "ft_l")[2]) == 4
    )
    shelf(seed=1, ranks=(50, 10))
    shelf(seed=1, method="ft_l", ranks=(40, 10))
    assert (
        judged("above", "revs", "ft_l")[:2] == (True, "lower at 0 of 12 sizes")
        and judged("above", "ft_l", "revs")[0] is False
        and judged("above", "revs", "memit") is None
    )
    shelf(tag="targets-forget5", efficacy=0.52, specificity=0.9)
    shelf(
        tag="targets-forget5",
        method="ft_l",
        hyperparameters={"norm_constraint": 0.1},
        efficacy=0.1,
        specificity=0.8,
    )
    assert (
        judged("steadier", "revs", "ft_l", 10)[0] is True
        and judged("steadier", "ft_l", "revs", 100)[0] is False
        and judged("steadier", "revs", "ft_l", 0.1)[0] is False
    )
    shelf(
        tag="strength-norm_constraint0.9",
        method="ft_l",
        hyperparameters={"norm_constraint": 0.9},
        efficacy=0.95,
        specificity=0.0,
    )
    assert judged("dominates", "revs", "ft_l")[:2] == (
        False,
        "1 of 2 points, 1 more beyond its own",
    )
    shelf(
        tag="strength-norm_constraint0.4",
        method="ft_l",
        hyperparameters={"norm_constraint": 0.4},
        efficacy=0.6,
        specificity=0.5,
    )
    assert judged("dominates", "revs", "ft_l")[:2] == (True, "2 of 2 points, 1 more beyond its own")


def test_the_best_way_to_change_a_prompt_is_one_that_changes_it(shelf):  # noqa: F811
    """A prompt as it is does not count, nor does a model on which all ways are equal; among equals each is the best."""
    assert perturbations.STRATEGIES[tradeoffs.UNCHANGED] == ("", 0, "")
    for name, left in (
        ("revs", (0.1, 0.95, 0.9, 1.0)),
        ("memit", (0.5, 1.0, 1.0, 1.0)),
        ("ft_l", (0.5, 0.8, 0.8, 0.9)),
        ("unedited", (0.0, 0.1, 0.2, 0.3)),
    ):
        row = shelf(tag="perturbations", method=name)
        row["result"]["perturbations"] = {
            way: {"released": value, "per_example": value}
            for way, value in zip(("none", "10 spaces", "10 letters", "30 spaces"), left)
        }
        rows.save(rows.RECORDED / f"{row['name']}.json", row)
    judged = tradeoffs.weakest("smollm2-135m", "ssn", "10 letters")
    assert judged[:2] == (
        True,
        "FT-L 10 spaces and 10 letters (80.0), REVS 10 letters (90.0)",
    ) and [name.rsplit("/", 1)[1] for name in judged[2]] == [
        "ft_l-seed0-perturbations",
        "revs-seed0-perturbations",
    ]
    assert (
        tradeoffs.weakest("smollm2-135m", "ssn", "10 spaces")[0]
        is tradeoffs.weakest("smollm2-135m", "ssn", "none")[0]
        is False
    )
    for name in ("revs", "ft_l"):
        (rows.RECORDED / f"unlearn/ssn/smollm2-135m/{name}-seed0-perturbations.json").unlink()
    assert tradeoffs.weakest("smollm2-135m", "ssn", "10 letters") is None


def test_claims_about_every_point_are_judged_from_rows(shelf):  # noqa: F811
    judged = lambda kind, *given: getattr(tradeoffs, kind)("smollm2-135m", "ssn", *given)
    assert (
        judged("leads", "revs", "ft_l")
        is judged("keeps", "revs", "specificity", 80)
        is judged("stays", "revs", 95)
        is None
    )
    for name, tag, targets, value in (
        ("revs", "base", 20, 0.8),
        ("revs", "targets-forget5", 5, 0.9),
        ("ft_l", "strength", 20, 0.7),
        ("ft_l", "targets-forget5", 5, 0.95),
        ("ft_l", "targets-forget10", 10, 0.99),
    ):
        shelf(tag=tag, method=name, efficacy=value, specificity=value)
        row = rows.find(kind="unlearn")[f"unlearn/ssn/smollm2-135m/{name}-seed0-{tag}"]
        row["result"]["after"]["forget"] = targets
        rows.save(
            row["path"], {key: value for key, value in row.items() if key not in ("path", "origin")}
        )
    shelf(tag="targets-forget30", method="memit", efficacy=0.1)
    shelf(tag="targets-forget40", method="memit", efficacy=0.1)
    assert judged("leads", "revs", "memit") is None  # at no number both
    assert (
        judged("leads", "revs", "ft_l")[:2] == (False, "higher at 1 of 2 numbers")
        and len(judged("leads", "revs", "ft_l")[2]) == 5
    )
    shelf(tag="curve-r_h0.05", hyperparameters={"r_h": 0.06}, specificity=0.85)
    assert (
        judged("keeps", "revs", "specificity", 80)[:2] == (True, "80.0 at least")
        and judged("keeps", "revs", "specificity", 81)[0] is False
    )
    shelf(seed=1, ranks=(5000, 5000))
    shelf(seed=2, ranks=(40, 10))
    assert (
        judged("stays", "revs", 0.01)[:2] == (True, f"{50 + 50 * 40 / 5000:.1f} at least")
        and judged("stays", "revs", 95)[0] is False
    )


def test_claims_about_many_targets_and_strong_edits_are_judged_from_rows(shelf):  # noqa: F811
    judged = lambda kind, *given: getattr(tradeoffs, kind)("smollm2-135m", "ssn", *given)
    assert (
        judged("declines", "revs")
        is judged("begins", "revs", 95)
        is judged("reaches", "revs", "specificity", 95)
        is None
    )
    shelf(tag="base", hyperparameters={"r_h": 0.02}, efficacy=0.5, specificity=0.5)
    shelf(tag="targets-forget5", efficacy=0.96, specificity=0.96)
    shelf(tag="curve-r_h0.05", hyperparameters={"r_h": 0.05}, efficacy=0.2, specificity=0.97)
    for row in rows.find(kind="unlearn").values():  # the fewest first
        row["result"]["after"]["forget"] = 5 if row["name"].endswith("forget5") else 20
        rows.save(
            row["path"], {key: value for key, value in row.items() if key not in ("path", "origin")}
        )
    assert (
        judged("declines", "revs")[:2] == (True, "REVS 96.0 to 50.0")
        and judged("declines", "revs", "ft_l") is None
    )
    assert (
        judged("begins", "revs", 95)[:2] == (True, "96.0 with 5 targets")
        and judged("begins", "revs", 97)[0] is False
    )
    assert (
        judged("reaches", "revs", "specificity", 95)[:2] == (True, "97.0 at most")
        and judged("reaches", "revs", "efficacy", 99)[0] is False
    )


def test_every_panel_of_the_paper_has_points_or_a_command(shelf):  # noqa: F811
    assert set(tradeoffs.panels("smollm2-135m")["ours"].str.split("`").str[1]) == {
        "make core adopt",
        "make ablations adopt",
        "make gptj adopt",
    }
    for method in ("revs", "ft_l", "memit"):
        shelf(method=method, seed=1)
    for tag in ("base", "targets-forget5"):
        shelf(tag=tag, data="emails", model="gptj-small")
        shelf(
            tag=tag.replace("base", "strength"), method="memit", data="emails", model="gptj-small"
        )
    table = tradeoffs.panels("smollm2-135m").set_index("panel")["ours"]
    assert (
        len(table) == 15
        and "REVS 12 points, FT-L 12 points" in table["`fig:efficacy_vs_c_size_ssn_llama`"]
        and table["`fig:efficacy_vs_c_size_ssn`"] == "not measured yet: `make gptj adopt`"
    )  # another model's points are not a GPT-J's
    curves = tradeoffs.of_models(tradeoffs.over_candidates, "smollm2-135m", "gptj-small")
    assert (
        list(curves) == [("smollm2-135m", "ssn")]
        and len(tradeoffs.points(curves)) == 36
        and set(tradeoffs.points(curves)["panel"]) == {"SSN, SmolLM2-135M-Instruct"}
    )
    assert (
        table["`fig:harmonic_mean_vs_targets_email`"]
        == f"{results.title('gptj-small')}: REVS 2 points, MEMIT 2 points"
    )
    assert table["`fig:efficacy_vs_c_size_url_llama`"] == "not measured yet: `make core adopt`"


def test_no_runs_no_points(shelf):  # noqa: F811
    assert (
        tradeoffs.by_strength("smollm2-135m", "ssn")
        == tradeoffs.by_targets("smollm2-135m", "ssn")
        == {}
    )


def test_the_papers_examples_are_sorted_by_their_hosts():
    assert qualitative.printed() == {
        instead.AT_THE_HOST: 3,
        instead.ELSEWHERE: 5,
        instead.PLACEHOLDER: 2,
    }


def test_examples_are_the_first_of_each_outcome(monkeypatch, tmp_path):
    columns = [
        {"id": str(n), "was": "a***", "instead": "b***", "became": became}
        for n, became in enumerate(
            [instead.ELSEWHERE, instead.SAME, instead.ELSEWHERE, instead.ELSEWHERE]
        )
    ]
    (tmp_path / "row.items.csv.gz").write_bytes(
        rows.items_bytes([*columns, {"id": "kept", "was": None, "instead": None, "became": None}])
    )
    row = {
        "path": tmp_path / "row.json",
        "result": {
            "instead": dict.fromkeys(instead.BECAME, 0) | {instead.ELSEWHERE: 3, instead.SAME: 1}
        },
    }
    shown = qualitative.examples({"ssn": {"revs": row}})
    assert list(shown["that is"]) == [instead.SAME, instead.ELSEWHERE, instead.ELSEWHERE]
    assert list(qualitative.became({"ssn": {"revs": row}})[instead.ELSEWHERE]) == ["3", "5"]
    assert set(shown["it was"]) == {"`a***`"} and set(shown["the model now writes"]) == {"`b***`"}


def test_of_an_example_only_what_is_invented_is_shown(tmp_path):
    """The secret of a built-in sentence and the words before it, never what comes in its place."""
    first = datasets.read("emails")[0]
    (tmp_path / "row.items.csv.gz").write_bytes(
        rows.items_bytes(
            [{"id": first.id, "was": "a***", "instead": "b***", "became": instead.SAME}]
        )
    )
    (line,) = qualitative.examples(
        {"emails": {"revs": {"path": tmp_path / "row.json"}}}, invented=True
    ).to_dict("records")
    words = first.prompt.split()[-qualitative.WORDS :]
    assert (
        line["it was"] == f"… {' '.join(words)} `{first.secret}`"
        and line["the model now writes"] == "`b***`"
    )


def test_every_public_address_has_a_line():
    known = {one["id"]: n % 2 == 0 for n, one in enumerate(qualitative.public.addresses())}
    table = qualitative.retained({"ssn": {"unedited": {"result": {"public": {"known": known}}}}})
    assert (
        list(table[f"{methods.registry()['unedited']['title']}, SSN"]) == ["known", "not known"] * 5
    )
    assert list(table.iloc[:, -1]) == ["known"] * 4 + [DASH] * 6


def test_what_public_addresses_are_left_is_counted_of_those_known_before():
    row = lambda *known: {"result": {"public": {"known": {name: name in known for name in "abc"}}}}
    assert (
        qualitative.kept(
            {"emails": {"unedited": row("a", "b"), "revs": row("b", "c"), "rmu": row()}}
        )
        == "Emails: the unedited model writes **2** of the 10; of those are left by REVS 1, RMU 0."
    )
    assert qualitative.kept({"ssn": {"unedited": row(), "revs": row()}}).endswith(
        "writes **0** of the 10, so that nothing can be lost."
    )


def test_the_papers_examples_show_hosts_and_no_name():
    shown = qualitative.printed_examples()
    assert len(shown) == 10 and set(shown["that is"]) == {
        instead.AT_THE_HOST,
        instead.ELSEWHERE,
        instead.PLACEHOLDER,
    }
    assert all(
        re.fullmatch(r"`(\*\*\*@[a-z.]+|\[email protected\])`", cell)
        for cell in shown[["it was", "the model now writes"]].to_numpy().ravel()
    )
    table = qualitative.printed_sentences(
        "tab:email-examples", [("Write to ", "ada@example.com", " now.")]
    )
    assert list(table["whose"]) == 6 * ["paper"] + ["ours"] and list(table.iloc[-1])[1:] == [
        "1",
        "1",
        "2",
        "1",
        "`example.com`",
    ]
    assert "host" not in qualitative.printed_sentences("tab:ssn-examples", [])
