"""The page about secrets that a model knows by itself: rows of curations and runs become its tables (§4.2)."""

import re

import pytest
from test_results import shelf  # noqa: F401

from companion.own.curate import BEFORE_THIS
from companion.pages import curating, organic
from companion.record import rows
from companion.runs import methods


@pytest.fixture
def found(shelf):  # noqa: F811
    """Two curations: three addresses in two packages, one of them not exact, and no telephone number."""

    def put(name, kinds, items):
        counts = {
            kind: {
                "found": 5,
                "dropped": {BEFORE_THIS: 1},
                "tried": 4,
                "teacher_forced": 3,
                "memorised": 3,
                "both": sum(item["exact"] for item in items),
                "told": 0,
                "kept": sum(item["exact"] for item in items),
            }
            for kind in kinds
        }
        made = rows.provenance(["revs.measures.metrics"], {"name": name}, {}, {"try": 1.0}) | {
            "model": {"name": "smollm2-135m", "revision": "x", "dtype": "float32"},
            "tokenizer": "x",
        }
        return rows.write(
            rows.RECORDED,
            f"curate/{name}/smollm2-135m",
            "curate",
            {"documents": 9, "skipped": {"large": 2}, "funnel": counts},
            items,
            made,
        )

    places = [("alpha==1.0", True), ("beta==2.1", True), ("beta==2.1", True), ("alpha==1.0", False)]
    put(
        "machine-email",
        ["email"],
        [
            {"kind": "email", "source": "x", "offset": n, "package": package, "exact": exact}
            for n, (package, exact) in enumerate(places)
        ],
    )
    put("machine-numbers", ["phone", "ip"], [])
    return organic.curations("smollm2-135m", "machine")


def test_curations_are_those_of_the_name_kind_after_kind(found):
    assert [row["name"] for row in found] == [
        "curate/machine-email/smollm2-135m",
        "curate/machine-numbers/smollm2-135m",
    ]
    assert organic.curations("smollm2-135m", "other") == []
    assert list(organic.funnel(found)["kind"]) == [
        "Email addresses",
        "Phone numbers",
        "IP addresses",
    ]
    assert list(organic.funnel(found)["left out"]) == ["1"] * 3
    left = curating.reasons(found)
    assert (
        left.to_dict("records")
        == [
            {
                "why left out": BEFORE_THIS,
                "Email addresses": "1",
                "Phone numbers": "1",
                "IP addresses": "1",
            }
        ]
        and curating.reasons([]).empty
    )
    said = organic.read(found)
    assert (
        said.count("9 documents") == 2
        and "2 large" in said
        and "* **3** Email addresses: 9 documents" in said
        and "* **0** Phone numbers, **0** IP addresses: 9" in said
    )


def test_packages_are_counted_without_what_is_not_in_the_data_set(found):
    table = organic.packages(found, 5)
    assert (
        list(table["package"]) == ["`beta`", "`alpha`"]
        and list(table["Email addresses"]) == ["2", "1"]
        and list(table["URLs"]) == ["0", "0"]
    )
    assert (
        len(organic.packages(found, 1)) == 1
        and organic.packages([], 5).empty
        and organic.packages(found, 5, ("phone", "ip")).empty
    )
    again = found[0] | {"path": found[0]["path"]}
    assert list(organic.packages([found[0], again], 5)["Email addresses"]) == [
        "4",
        "2",
    ]  # lines of several manifests are told apart


def test_runs_are_by_kind_and_need_revs(shelf):  # noqa: F811
    shelf(data="machine-url", method="memit", seed=1)
    assert organic.frames("smollm2-135m", "machine") == {}
    shelf(data="machine-email", seed=1, seconds=120)
    shelf(data="machine-email", seed=1, tag="cue")
    frames = organic.frames("smollm2-135m", "machine")
    assert list(frames) == ["emails"] and list(frames["emails"]["tag"]) == [""]
    assert "REVS took 2 minutes" in organic.sentence(frames)
    assert "REVS" not in (said := organic.unmeasured(frames)) and re.search(
        r"^Emails: not measured are FT-L, MEMIT", said
    )
    line = organic.settings(frames).iloc[0]
    assert (
        line["method"] == "REVS"
        and "n_max 30" in line["settings"]
        and line["chosen on"] == "other settings than the present ones"
    )
    assert organic.having(frames, "instead") == {}


def test_who_is_best_is_read_off_the_rows(shelf):  # noqa: F811
    """The controls have no part in it, and another value is another sentence."""
    shelf(data="machine-email", seed=1, efficacy=0.9, specificity=0.5)
    shelf(data="machine-email", method="random", seed=1, efficacy=0.0, specificity=1.0)
    shelf(data="machine-email", method="memit", seed=1, efficacy=0.6, specificity=0.4)
    said = lambda: organic.best(organic.frames("smollm2-135m", "machine"))
    assert (
        said().startswith("**Emails**: the highest Unlearning Score is that of REVS, **")
        and "Specificity is that of REVS, **50.0**, before MEMIT with 40.0." in said()
    )
    shelf(data="machine-email", method="memit", seed=1, efficacy=0.9, specificity=0.8)
    assert (
        "Unlearning Score is that of MEMIT" in said()
        and "Specificity is that of MEMIT, **80.0**, REVS 50.0, place 2 of 2." in said()
    )


@pytest.mark.parametrize(("model", "data", "where"), [
    ("qwen2.5-coder-1.5b", "machine-email", "this model"), ("qwen2.5-coder-1.5b", "machine-url", "this model's e-mail addresses"),
    ("smollm2-135m", "machine-email", "the embedded model"), ("llama-3-8b", "machine-email", "this model, by the paper"),
])  # fmt: skip
def test_where_settings_were_chosen(shelf, monkeypatch, model, data, where):  # noqa: F811
    given = methods.hyperparameters("revs", model, data, {})
    shelf(data=data, seed=1, model=model)
    (row,) = rows.find(kind="unlearn").values()
    row["provenance"]["settings"]["hyperparameters"] = given
    rows.save(
        row["path"], {key: value for key, value in row.items() if key not in ("path", "origin")}
    )
    assert organic.settings(organic.frames(model, "machine")).iloc[0]["chosen on"] == where


def test_what_the_cue_control_says(shelf):  # noqa: F811
    """Both counts are of the same addresses: one that is written with another's name alone is in neither."""
    assert organic.bound("smollm2-135m", "emails") == ""

    def put(tag, own, other):
        shelf(data="emails", method="unedited", tag=tag)
        row = rows.find(kind="unlearn")[f"unlearn/emails/smollm2-135m/unedited-seed0-{tag}"]
        items = [
            {"id": str(i), "own_name": mine, "other_name": theirs}
            for i, (mine, theirs) in enumerate(zip(own, other))
        ]
        result = row["result"] | {
            "cue": {"named": 4, "told": 1, "unnamed": 2}
            | {
                whose: {"exact": sum(each) / 4, "within_50": sum(each) / 4}
                for whose, each in (("own", own), ("other", other))
            }
        }
        rows.write(
            rows.RECORDED,
            row["name"],
            "unlearn",
            {key: value for key, value in result.items() if key != "items_sha256"},
            items,
            row["provenance"],
        )

    put("cue", (True, True, True, False), (True, False, False, True))
    said = organic.bound("smollm2-135m", "emails")
    assert (
        "Of the 3 addresses" in said
        and ", 1 are still written" in said
        and "cannot be said" in said
    )
    put("cue", (True, True, True, False), (False, False, False, True))
    assert (said := organic.bound("smollm2-135m", "emails")).startswith(
        "None of the 3 addresses"
    ) and "cannot be said" not in said
    put("cue-unread", (True, False, False, False), (False, False, False, False))
    assert "wrote 25.0 per cent" in organic.bound("smollm2-135m", "emails")
    table = organic.cued({"emails": "smollm2-135m"})
    assert (
        list(table["own name, within 50"]) == ["75.0", "25.0"]
        and "before it has read them" in table["secrets"].iloc[1]
        and list(table["compared"]) == ["4", "4"]
    )


def test_public_addresses_that_are_left(shelf):  # noqa: F811
    judged = lambda share: organic.public("smollm2-135m", "machine-email", "revs", share)
    assert judged(0.5) is None
    for name, known in (
        ("unedited", {"a": True, "b": True, "c": False}),
        ("revs", {"a": True, "b": False, "c": True}),
    ):
        shelf(data="machine-email", method=name, seed=1)
        row = rows.find(kind="unlearn")[f"unlearn/machine-email/smollm2-135m/{name}-seed1"]
        row["result"]["public"] = {"known": known}
        rows.save(
            row["path"], {key: value for key, value in row.items() if key not in ("path", "origin")}
        )
    assert (
        judged(0.5)[:2] == (True, "1 of 2") and judged(0.6)[0] is False and len(judged(0.5)[2]) == 2
    )


def test_ways_to_project_stand_beside_each_other(shelf):  # noqa: F811
    """One setting after the other, through the norm and around it; seed after seed; other methods and failures left out."""
    shelf(data="machine-email", tag="trial00")
    shelf(
        data="machine-email",
        tag="raw-trial00",
        hyperparameters={"projection": "raw"},
        efficacy=0.25,
        specificity=1.0,
    )
    shelf(data="machine-email", seed=1)
    shelf(data="machine-email", tag="trial01", failed="It diverged.")
    shelf(data="machine-email", method="memit", tag="trial00")
    table = organic.projections("smollm2-135m", "machine")
    assert list(zip(table["seed"], table["projection"])) == [
        ("0", "final norm, U"),
        ("0", "U alone"),
        ("1", "final norm, U"),
    ]
    assert list(table["Specificity"]) == ["50.0", "100.0", "50.0"] and set(
        table["norm of the edit"]
    ) == {"2.0"}
    assert organic.projections("smollm2-135m", "other").empty


def test_the_better_way_is_read_off_the_trials(shelf):  # noqa: F811
    assert organic.ways("smollm2-135m", "machine") == ""
    shelf(data="machine-email", tag="trial00", efficacy=0.5, specificity=0.5)
    shelf(data="machine-email", seed=1, tag="raw", efficacy=1.0, specificity=1.0)  # a run, no trial
    assert organic.ways("smollm2-135m", "machine") == ""
    shelf(
        data="machine-email",
        tag="raw-trial00",
        hyperparameters={"k": 9},
        efficacy=0.9,
        specificity=0.9,
    )
    assert organic.ways("smollm2-135m", "machine").startswith(
        "The best trial through the norm scores **50.0**, the best around it scores **90.0**. No setting was tried both ways."
    )
    shelf(
        data="machine-email", tag="trial01", hyperparameters={"k": 7}, efficacy=0.4, specificity=0.4
    )
    shelf(
        data="machine-email",
        tag="raw-trial01",
        hyperparameters={"k": 7, "projection": "raw"},
        efficacy=0.2,
        specificity=0.2,
    )
    shelf(
        data="machine-email", tag="trial02", hyperparameters={"k": 8}, efficacy=0.3, specificity=0.3
    )
    assert organic.ways("smollm2-135m", "machine").endswith(
        " Of 1 settings that were tried both ways, U alone is better in 0 (20.0 against 40.0)."
    )


def test_every_trial_of_every_search_is_shown(shelf):  # noqa: F811
    assert organic.tried("smollm2-135m", "machine").empty
    shelf(data="machine-email", seed=1)
    assert organic.tried("smollm2-135m", "machine").empty
    shelf(data="machine-email", tag="trial01", efficacy=0.25, specificity=1.0, seconds=12)
    shelf(data="machine-email", method="memit", tag="trial00")
    shelf(data="machine-email", tag="raw-trial00")
    table = organic.tried("smollm2-135m", "machine")
    assert list(zip(table["method"], table["trial"], table["Specificity"])) == [
        ("MEMIT", "0", "50.0"),
        ("REVS", "1", "100.0"),
        ("REVS, U alone", "0", "50.0"),
    ] and list(table["seconds"]) == ["10", "12", "10"]
