"""The pages of ablations, curves and tuning: made-up runs with known numbers, and recorded ones."""

import pytest

from companion.analysis import ablations, errata, tuning
from companion.experiments.notebook import Refused
from companion.store import paper

MODEL = "smollm2-135m"


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


# --- tuning --------------------------------------------------------------------------------------


def test_trials_of_every_method(add_row):
    for number, efficacy in ((2, 1.0), (0, 0.0), (1, 0.5)):
        add_row(f"trial{number:02d}", "ft_l", data="ssn-tune", efficacy=efficacy)
        add_row(f"raw-trial{number:02d}", data="ssn-tune")
    add_row("trial03", "ft_l", data="ssn-tune", failed="FT-L diverged.")
    add_row("trial00", "least_squares", data="ssn-tune")
    add_row("other", "ft_l", data="ssn-tune")
    frame = tuning.trials(MODEL, "ssn-tune")
    assert list(frame["number"]) == [0, 1, 2, 3, 0] and frame["failed"].notna().sum() == 1
    assert list(frame["printed"]) == [True, True, False, False, False]  # not in the paper
    assert list(frame["method"].cat.categories) == ["ft_l", "least_squares"]
    assert set(tuning.trials(MODEL, "ssn-tune", tag="raw")["method"]) == {"revs"}
    with pytest.raises(Refused, match="make run SWEEP=tune"):
        tuning.trials(MODEL, "ssn")


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
