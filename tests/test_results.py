"""From rows to frames: runs with known numbers, and the recorded searches as they claim to be."""

import base64
import collections
import math
import re

import pandas as pd
import pytest

from companion.analysis import extraction, results, tables
from companion.experiments import methods
from companion.experiments.notebook import Refused
from companion.experiments.settings import DRAWS, emails_for_urls
from companion.store import paper, rows

MODEL = "smollm2-135m"


def mean(frame: pd.DataFrame, **at):
    """The one mean of a frame of scores, and its deviation."""
    for column, value in at.items():
        frame = frame[frame[column] == value]
    (line,) = frame[["mean", "std"]].to_numpy().tolist()
    return pytest.approx(line, nan_ok=True)


# --- frames --------------------------------------------------------------------------------------


def test_scores_are_over_seeds_and_a_tag_keeps_a_run_out(add_row):
    add_row(seed=1, efficacy=0.4)
    add_row(seed=2, efficacy=0.6)
    add_row(seed=3, efficacy=0.0, tag="try")
    add_row(method="memit", seed=1, efficacy=0.7)
    runs = results.runs(MODEL, "ssn")
    scores = results.scores(runs)
    assert mean(scores, method="REVS", metric="Efficacy") == [50, 100 * math.sqrt(0.02)]
    assert mean(scores, method="MEMIT", metric="Efficacy") == [70, math.nan]
    assert list(results.measured(MODEL, "ssn").query("tag == 'try'")["seed"]) == [3]
    with pytest.raises(Refused, match="no rows of smollm2-135m on urls: run `make run SWEEP=main`"):
        results.runs(MODEL, "urls")


def test_a_table_has_the_registrys_order_and_a_dash_for_what_is_missing(add_row):
    """Of data sets, of methods, and of who measured; no generalization from a single sentence."""
    for method in ("revs", "memit", "ft_l"):
        add_row(method=method, seed=1, data="emails", unseen=False)
        add_row(method=method, seed=1, data="ssn")
    runs = results.runs(MODEL, "ssn", "emails")
    assert list(runs["data"]) == ["ssn"] * 3 + ["emails"] * 3
    both = pd.concat([results.scores(runs), results.printed()])
    table = tables.wide(both[both["method"] != "RMU"], "data", "method", "measured")
    assert list(table.columns[3:]) == list(tables.METRICS.values())
    assert list(dict.fromkeys(table["data"])) == ["SSN", "Emails", "URLs"]
    line = table.set_index(["data", "method", "measured"]).loc["Emails", "REVS", "ours"]
    assert line["Generalization"] == tables.DASH and line["Efficacy"] == "50.0"
    of_ssn = table[(table["data"] == "SSN") & (table["measured"] == "ours")]
    assert list(of_ssn["method"]) == ["FT-L", "MEMIT", "REVS"]
    of_revs = table[(table["data"] == "SSN") & (table["method"] == "REVS")]
    assert list(of_revs["measured"]) == ["ours", "paper, Llama-3-8B", "paper, GPT-J-6B"]
    assert list(of_revs["Unlearning Score"])[1:] == ["89.6 ± 2.0", "81.5 ± 3.6"]


def test_a_method_of_which_a_run_failed_has_no_mean(add_row):
    add_row(seed=1)
    add_row(method="ft_l", seed=1, efficacy=0.9)
    add_row(method="ft_l", seed=2, failed="FT-L diverged.")
    runs = results.runs(MODEL, "ssn")
    scores = results.scores(runs)
    assert mean(scores, method="FT-L", metric="Efficacy") == [math.nan, math.nan]
    assert results.best_first(scores[scores["metric"] == "Unlearning Score"]) == "REVS"


def test_the_order_leaves_out_the_controls_and_keeps_equals_together(add_row):
    for method, efficacy in {"revs": 0.3, "memit": 0.8, "rmu": 0.8, "random": 0.9}.items():
        add_row(method=method, seed=1, efficacy=efficacy)
    scores = results.scores(results.runs(MODEL, "ssn"))
    assert results.best_first(scores[scores["metric"] == "Efficacy"]) == "MEMIT = RMU, REVS"


def test_ranks_are_of_target_tokens(add_row):
    add_row(seed=1, ranks=(200, 0))
    add_row(seed=2, ranks=(50, 5))
    assert list(results.ranks(results.runs(MODEL, "ssn"))["rank"]) == [200, 0, 50, 5]


def test_a_caption_names_seeds_and_fine_tunes(add_row):
    for seed in (1, 2, 3, 5):
        add_row(seed=seed, failed="diverged" if seed == 5 else None)
    runs = results.runs(MODEL, "ssn")
    said = f"{results.title(MODEL)}, seeds 1–3, weights x"
    assert results.measured_on(MODEL, runs) == said
    many = pd.concat([runs.assign(finetune=name) for name in "abc"])
    assert results.measured_on(MODEL, many) == said.replace("weights x", "3 weights")


# --- extraction ----------------------------------------------------------------------------------


def test_resistance_is_averaged_over_seeds_in_every_aggregation(add_row):
    """Found in layer 0 and safe in layer 1, or the other way round for its two tokens: per example
    safe, in union found. The last layer alone is the black box."""
    add_row(seed=1, depths=[[0, 100], [100, 0]])
    add_row(seed=2, depths=[[50, 50], [100, 100]])
    add_row(method="random", seed=1)
    runs = results.runs(MODEL, "ssn")
    scores = extraction.scores(runs)
    assert set(scores["method"]) == {"REVS"} and len(scores) == 4 * 4 + 1
    spread = [75, 100 * math.sqrt(0.125)]
    assert mean(scores, metric="Logit-Lens", aggregation="per example") == spread
    assert mean(scores, metric="black box") == [100, 0]
    assert list(extraction.by_layer(runs, "logit_lens")["efficacy"]) == pytest.approx([0.75, 1])


def test_layers_are_drawn_from_two_below_the_first_in_which_a_secret_shows():
    layers = pd.DataFrame({"layer": [*range(6)] * 2, "efficacy": [1.0] * 9 + [0.5, 1.0, 0.2]})
    assert list(extraction.upper(layers)["layer"]) == [1, 2, 3, 4, 5] * 2


def test_the_papers_attacks_have_the_shape_of_ours():
    printed = results.printed(paper.EXTRACTION)
    assert set(printed["metric"]) == set(extraction.TITLES.values())
    at = {"data": "SSN", "measured": "paper, Llama-3-8B", "metric": "Resistance Score"}
    assert mean(printed, method="FT-L", **at) == [82.77, 5.73]
    assert set(printed.loc[printed["data"] == "URLs", "measured"]) == {"paper, Llama-3-8B"}


# --- tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [tables.Table, tables.Data])
def test_a_table_carries_its_data(kind):
    frame = pd.DataFrame({"a": ["1", "x,y"], "b": ["±", "–"]})
    shown = kind(frame, "A table.", "tab-x")._repr_markdown_()
    found = re.search(r'download="tab-x.csv" href="data:text/csv;base64,([^"]+)"', shown)
    assert base64.b64decode(found[1]).decode() == frame.to_csv(index=False)
    assert (":name: tab-x" in shown) == (kind is tables.Table)


# --- what is committed ---------------------------------------------------------------------------

SEARCHES = rows.find(rows.RECORDED, kind="tune")


def top_trials(row: dict, scores: dict[int, float], runs: dict[str, dict]) -> dict[int, float]:
    """What the trials of a search were chosen by: their scores, or, of the best that ran on further
    splits, the mean; all that the row says of those is held against their own rows."""
    if "top_trials" not in row["result"]:
        return scores
    asked, means, found = row["settings"], {}, row["result"]["top_trials"]
    place = row["name"].replace("tune/", "unlearn/", 1)
    best = sorted(scores, key=scores.get, reverse=True)[: asked["top_trials"]]
    assert list(found) == [str(number) for number in best]
    for number in best:
        of_splits = [scores[number]]
        for seed in asked["splits"]:
            there = place.replace(f"-seed{asked['seed']}", f"-seed{seed}")
            after = runs[f"{there}-trial{number:02d}"]["result"].get("after")
            of_splits.append(after["unlearning_score"] if after else 0.0)
        assert found[str(number)] == of_splits
        means[number] = sum(of_splits) / len(of_splits)
    return means


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_has_all_its_trials_and_chose_the_best(name):
    row, runs = SEARCHES[name], rows.find(rows.RECORDED, kind="unlearn")
    result, place = row["result"], name.replace("tune/", "unlearn/", 1)
    trials = [runs[f"{place}-trial{number:02d}"] for number in range(result["trials"])]
    tried = [trial["settings"]["hyperparameters"] for trial in trials]
    assert len({trial["inputs"]["model"] for trial in trials}) == 1
    results = dict(enumerate(trial["result"] for trial in trials))
    after = {number: done["after"] for number, done in results.items() if "after" in done}
    scores = {number: done["unlearning_score"] for number, done in after.items()}
    assert len(trials) - len(scores) == result["failed"]
    means = top_trials(row, scores, runs)
    assert result["best"] == max(means, key=means.get)
    score = means[result["best"]]  # as some version of Python rounds a sum
    assert result["unlearning_score"] == pytest.approx(score, rel=1e-15, abs=0)
    made_by = methods.fixed_settings(row["method"])
    assert made_by | result["hyperparameters"] == made_by | tried[result["best"]]


def test_every_method_had_the_same_budget():
    """As many trials of each method that ran, on a model and a data set, in one search or several,
    on equally many secrets, sentence positions and seeds; as many that move, once these count. On
    secrets that a model knows by itself NPO-KL alone has fewer, half as many. Second searches count
    by themselves."""
    trials, sizes = collections.defaultdict(collections.Counter), collections.defaultdict(set)
    for row in SEARCHES.values():
        asked, result = row["settings"], row["result"]
        place = (row["model"], row["data"], "effective" in result, row["tag"] == DRAWS)
        ran = asked["trials"] if "effective" in result else result["trials"] - result["failed"]
        trials[place][row["method"]] += ran
        sizes[place].add((asked["forget"], asked["sentences"], asked["seed"]))
    assert len(trials) >= 5 and all(len(each) == 1 for each in sizes.values())
    for place, budgets in trials.items():
        assert min(budgets.values()) >= 6, place
        half = {budgets.pop("npo_kl")} if place[1] == "known-email-tune" else set()
        assert len(set(budgets.values())) == 1, place
        assert half <= {value // 2 for value in budgets.values()}, place


def test_every_method_that_was_run_was_tuned():
    run = {row["method"] for row in rows.find(rows.RECORDED, kind="unlearn").values()}
    run -= {"unedited", "output_ban"}  # which have nothing to tune
    owners = {methods.registry()[name].get("settings_of", name) for name in run}
    assert owners and owners <= {row["method"] for row in SEARCHES.values()}


@pytest.mark.parametrize("model", ["llama-3-8b", "gpt-j-6b"])
@pytest.mark.parametrize(
    "name", [name for name, entry in methods.registry().items() if "module" in entry]
)
def test_every_method_has_settings_for_the_papers_models(name, model):
    for data in methods.PAPER_DATA:
        found = methods.hyperparameters(name, model, data, {})
        assert methods.method(name).Hyperparameters(**found)


def test_secrets_of_a_kind_have_the_papers_settings_whatever_their_set_is_called():
    found = {
        data: methods.hyperparameters("revs", "llama-3-8b", data, {})
        for data in ("emails", "emails-tune", "llama-3-8b-pile-email", "pile-url", "ssn", "mine")
    }
    of_emails = [data for data in found if found[data] == found["emails"]]
    assert of_emails == ["emails", "emails-tune", "llama-3-8b-pile-email", "pile-url"]
    assert found["mine"] == methods.hyperparameters("revs", "another", "mine", {})
    assert [methods.paper_data(name) for name in ("HR_Emails", "nossn")] == ["Emails", None]
    assert [emails_for_urls(name) for name in ("urls", "ssn-shared")] == ["emails", "ssn"]


def test_a_caption_counts_the_runs_that_are_older_than_the_code(monkeypatch):
    monkeypatch.setattr(results.versions, "older", lambda row: row["older"])
    some = [{"older": ["revs"]}, {"older": []}]
    assert results.older_mark(some) == ", 1 of 2 runs made before code or data last changed"
    assert results.older_mark(some[1:]) == ""


def test_times_are_shown_of_the_processor_that_ran_every_method_most_often():
    lines = [("a", "revs"), ("a", "rmu"), ("b", "revs"), ("b", "revs")]
    frame = pd.DataFrame(lines, columns=["processor", "method"])
    assert set(results.on_full_processor(frame)["processor"]) == {"a"}
    frame.loc[len(frame)] = ["b", "rmu"]
    assert set(results.on_full_processor(frame)["processor"]) == {"b"}
    assert len(results.on_full_processor(frame.iloc[1:3])) == 2  # none ran both: all are shown
