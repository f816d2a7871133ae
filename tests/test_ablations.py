"""Ablations, curves of trade-offs, settings: made-up runs with known numbers, and recorded ones."""

import pytest

from companion.analysis import ablations, errata, tradeoffs, tuning
from companion.experiments.notebook import Refused
from companion.store import paper

MODEL, KNOBS = "smollm2-135m", tradeoffs.KNOBS


# --- ablations -----------------------------------------------------------------------------------


def test_an_ablation_stands_beside_the_papers_rows(add_row):
    add_row("base", efficacy=0.8, depths=[[70, 70]], unseen=False)
    add_row("neurons-random", efficacy=0.1)
    add_row("base", data="emails")  # alone: nothing to compare it with
    table = ablations.beside("neurons", MODEL).set_index(["alternative", "measured"])
    ours = [index for index in table.index if index[1] != "paper, Emails"]
    assert ours == [("random", "ours, SSN"), ("hybrid", "ours, SSN")] and len(table) == 7
    hybrid, printed = table.loc[("hybrid", "ours, SSN")], table.loc[("hybrid", "paper, Emails")]
    assert (hybrid["Efficacy"], hybrid["columns"]) == (80, 3)
    assert hybrid["Resistance"] == pytest.approx(70)
    assert printed["Unlearning Score"] == "75.2"  # as printed
    assert table.loc[("gradient", "paper, Emails"), "Resistance"] == "78.2"
    assert table["Resistance"].isna()[("random", "ours, SSN")] and hybrid.isna()["Generalization"]
    add_row("neurons-rank", data="emails")
    table = ablations.beside("neurons", MODEL)
    assert ("rank", "ours, Emails") in set(zip(table["alternative"], table["measured"]))


@pytest.mark.parametrize("which", ablations.ALL)
def test_every_row_of_an_ablation_is_in_the_papers_table_and_asked_for(which):
    from companion.workflow.sweep import read

    label, entries = ablations.ALL[which]
    assert {theirs for _, _, theirs in entries} == set(paper.table(label)["row"])
    tags = {getattr(job.settings, "tag", "") for job in read("ablations").jobs.values()}
    assert {tag for tag, _, _ in entries} <= tags


def test_an_ablation_without_its_base_is_the_papers_alone(add_row):
    add_row("neurons-random")
    assert set(ablations.beside("neurons", MODEL)["measured"]) == {"paper, Emails"}
    with pytest.raises(Refused, match="rows of the base of .*make run SWEEP=ablations"):
        ablations.scores(MODEL, "ssn")


def test_a_curve_holds_everything_else_fixed(add_row):
    add_row("base", efficacy=0.3)
    add_row("curve-n_max90", hyperparameters={"n_max": 90}, efficacy=0.9)
    add_row("curve-n_max10", hyperparameters={"n_max": 10}, efficacy=0.1)
    add_row("curve-n_max50", hyperparameters={"n_max": 50, "r_n": 0.9})  # something else moved too
    add_row("curve-k200", hyperparameters={"k": 200})
    add_row("other", hyperparameters={"n_max": 70})
    runs = ablations.scores(MODEL, "ssn")
    assert runs.loc["curve-n_max50", "changed"] == {"n_max": 50, "r_n": 0.9}
    found = ablations.curve(runs, "n_max")
    assert list(found["n_max"]) == [10, 30, 90] and list(found["efficacy"].round()) == [10, 30, 90]
    assert list(ablations.curve(runs, "k")["k"]) == [100, 200]


# --- curves --------------------------------------------------------------------------------------


@pytest.fixture
def put(add_row):
    """put(method, tag, value, …): a run of seed 0 with this value of its knob, or of others."""

    def one(method, tag, value=None, **given):
        end = tag.partition("-")[2]
        if end and value is None:
            given |= {"overrides": {"forget": int(end)}, "targets": int(end)}
        elif end:
            given |= {"overrides": {KNOBS[method]: value}}
        given = {"targets": 20} | given
        add_row(tag, method, hyperparameters={KNOBS[method]: value or 0.02}, **given)

    return one


def test_efficacy_falls_with_the_number_of_candidates(put):
    put("revs", "", seed=1, ranks=(50, 10))
    put("revs", "", seed=2, ranks=(150, 10))
    curve = tradeoffs.by_candidates(MODEL, "ssn")["revs"].set_index("|C|")
    assert list(curve.loc[[10, 100, 200], "efficacy"].round(6)) == [100, 75, 50]
    assert curve.loc[100, "std"] == pytest.approx(35.355, abs=1e-3)


def test_a_knob_has_its_runs_and_the_tuned_one_in_order(put):
    put("revs", "curve-r_h0.05", 0.05)
    put("revs", "base")
    put("revs", "curve-r_h0.006", 0.006)
    put("revs", "targets-5")
    put("revs", "qualitative")
    put("ft_l", "strength", 0.1)
    found = tradeoffs.by_strength(MODEL, "ssn")
    assert list(found) == ["revs"] and list(found["revs"]["knob"]) == [0.006, 0.02, 0.05]
    assert list(found["revs"]["tuned"]) == [False, True, False]
    put("ft_l", "strength-norm_constraint0.0001", 0.0001)
    put("ft_l", "strength-norm_constraint0.4", 0.4, failed="FT-L diverged.")
    assert list(tradeoffs.by_strength(MODEL, "ssn")["ft_l"]["knob"]) == [0.0001, 0.1]
    assert list(tradeoffs.by_targets(MODEL, "ssn")["revs"]["targets"]) == [5, 20]
    points = tradeoffs.points(tradeoffs.by_strength, MODEL)
    assert len(points) == 5 and set(points["panel"]) == {"SSN, SmolLM2-135M-Instruct"}


# --- tuning --------------------------------------------------------------------------------------


def test_the_papers_settings_in_a_cell():
    """† stands where errata finds a value outside the sweep, and nowhere else."""
    shown = {
        (one["method"], f"`{one['name']}`", one["model"], one["dataset"]): tuning.printed(one)
        for one in paper.tables()["hyperparameters"]
    }
    outside = errata.outside_their_sweep()[["method", "setting", "model", "data"]].to_numpy()
    assert {key for key, cell in shown.items() if "†" in cell} == set(map(tuple, outside)) != set()
    assert shown["REVS", "`r_n`", "GPT-J-6B", "SSN"] == "37500 (0.74)"
    assert shown["MEMIT", "`loss_break`", "Llama-3-8B", "Emails"] == "as SSN"
    assert shown["FT-L", "`layers`", "GPT-J-6B", "SSN"] == "0–27"
