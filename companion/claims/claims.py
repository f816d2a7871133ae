"""The ledger: every printed number of the paper's result tables beside ours, and every claim of
its prose with a verdict.

A number of another model is no test of the paper, and gets no verdict. params/claims.yml holds the
claims, their checks and all sentences. Nothing is judged by hand: a verdict is what the check says
of our rows; beside it stand whose they are, how little they are (``weak``), and how often the claim
would hold with the methods' names shuffled (``chance``).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import yaml

from companion.analysis import (
    abilities,
    ablations,
    contest,
    errata,
    extraction,
    results,
    statistics,
)
from companion.analysis.tables import DASH, filtered_address
from companion.claims import checks
from companion.experiments import methods
from companion.store import paper, rows
from companion.store.paths import ROOT

HOLDS, FAILS, ANY, BUILT_IN, REFUTED, UNMEASURED = VERDICTS = (
    "holds",
    "does not hold",
    "holds of any labels",
    "nearly built in",
    "false in its own table",
    "not measured here",
)
MEASURED = "measured here"  # of a number, on which there is no verdict
WEAK = ONE_SEED, ONE_TUNE, SMALL, UNSURE, UNSETTLED = (
    "one seed",
    "one fine-tune",
    "small GPT-J",
    "unsure over secrets",
    "unsure over fine-tunes",
)
ASIDE = "°"  # beside the data set of a main claim about which more is to be said
VERDICT = {True: HOLDS, False: FAILS, None: UNMEASURED}
DATA = {title: name for name, title in methods.PAPER_DATA.items()}
ABLATIONS = dict(ablations.ALL.values())  # label → its rows
METRICS = {column: name for name, column in results.PAPER_COLUMNS.items()}
BENCHMARKS = {column: name for name, column in abilities.BENCHMARKS.items()}
NORMAL = 1.96  # standard errors to either side that hold 95 per cent
Place = tuple[str, str, str]  # data set, row, column, in the paper's words


@dataclass(frozen=True)
class Ours:
    """A number of ours in per cent, or a sentence; the names of its rows, its deviation over them
    (nan for one), and its interval, as shares, if it has one: over secrets or, of a contest, over
    fine-tunes and splits, by which ``each`` has the value."""

    value: float | str
    rows: tuple[str, ...]
    std: float = math.nan
    interval: tuple[float, float] = (0, 0)
    each: pd.Series | None = None

    @classmethod
    def of(cls, done: pd.DataFrame, metric: str, summary: tuple[float, float], sure: dict) -> Ours:
        """The number of some runs: ``summary`` has its mean and deviation; ``sure`` the intervals
        over secrets of runs that are no contest."""
        mean, std = (100 * value for value in summary)
        interval, each = sure.get(metric, (0, 0)), None
        if "learned" in done:
            each = done.set_index(["learned", "seed"])[metric]
            interval = contest.interval(each)
        return cls(mean, tuple(done["name"]), std, interval, each)

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return self.value
        return f"{self.value:.1f}" + ("" if math.isnan(self.std) else f" ± {self.std:.1f}")


@dataclass(frozen=True, eq=False)
class Judge:
    """Whose rows decide: a model, its data set for each of the paper's, the kind of its secrets."""

    model: str
    data: dict[str, str]
    secrets: str = "synthetic"
    small: bool = False  # a model that was made for this, of which the paper's is the namesake

    def __str__(self) -> str:
        return f"{results.title(self.model)}, {self.secrets}"

    def cells(self, label: str) -> dict[Place, Ours]:
        """Our numbers in the places of a table and, of results, of the others of its model."""
        if label == "tab:pii-distribution":  # counts of other texts
            return {}
        return self.ablation(label) if label in ABLATIONS else self.results

    @functools.cached_property
    def runs(self) -> dict[str, pd.DataFrame]:
        """The runs that judge each of the paper's data sets."""
        return {dataset: contest.judged(self.model, data) for dataset, data in self.data.items()}

    def contested(self, dataset: str) -> bool:
        """Is a data set judged by a whole contest?"""
        return "learned" in self.runs.get(dataset, ())

    @functools.cached_property
    def guessed(self) -> set[tuple[str, str]]:
        """The benchmarks, by data set of ours, at which the unedited model is at chance."""
        return abilities.guessed(self.model, self.data.values())

    @functools.cached_property
    def results(self) -> dict[Place, Ours]:
        found, titles = {}, {name: one["title"] for name, one in methods.registry().items()}
        for dataset, data in self.data.items():
            runs, attacked = (
                self.runs[dataset],
                extraction.resistance(self.runs[dataset], "released"),
            )
            for columns, frame, means in (
                (results.PAPER_COLUMNS, runs, results.means(runs)),
                (extraction.PAPER_COLUMNS, attacked, extraction.means(runs, "released")),
            ):
                for name, values in means.items():
                    done = frame[(frame["method"] == name) & frame["failed"].isna()]
                    drawn = frame is runs and not self.contested(dataset)
                    sure = statistics.intervals(list(done["row"])) if drawn else {}
                    for metric, column in columns.items():
                        if len(done) and not math.isnan(values[metric][0]):
                            ours = Ours.of(done, metric, values[metric], sure)
                            found[dataset, titles[name], column] = ours
            for name, row in abilities.runs(self.model, data).items():
                for column, benchmark in BENCHMARKS.items():
                    if (data, column) not in self.guessed:
                        asked = row["result"]["integrity"][benchmark]
                        share = asked["accuracy"]
                        spread = NORMAL * abilities.error(share, asked["items"])
                        sure = (share - spread, share + spread)
                        ours = Ours(100 * share, (row["name"],), interval=sure)
                        found[dataset, titles[name], column] = ours
        return found

    def ablation(self, label: str) -> dict[Place, Ours]:
        """Of seed 0; with the unedited model, which the paper's ablations leave out."""
        found = {}
        for dataset, data in self.data.items():
            frame = results.measured(self.model, data)
            runs = frame[frame["seed"] == 0].set_index("tag")["row"]
            tags = {tag: title for tag, _, title in ABLATIONS[label] if tag in runs.index}
            for tag, title in tags.items() if "base" in runs.index else ():
                result, names = runs[tag]["result"], (runs[tag]["name"],)
                sure = statistics.intervals([runs[tag]])
                before, after = (results.numbers(result[when]) for when in ("before", "after"))
                for metric, column in results.PAPER_COLUMNS.items():
                    ours = Ours(100 * after[metric], names, interval=sure.get(metric, (0, 0)))
                    found[dataset, title, column] = ours
                    found[dataset, "Unedited", column] = Ours(100 * before[metric], names)
                if "attacks" in result:
                    score = 100 * result["attacks"]["resistance_score"]["released"]
                    found[dataset, title, "Resistance Score"] = Ours(score, names)
        return found


@functools.cache
def terms() -> dict:
    """params/claims.yml. Read once and shared: do not change it."""
    return yaml.safe_load((ROOT / "params" / "claims.yml").read_text(encoding="utf-8"))


@functools.cache
def printed(*labels: str) -> dict[Place, dict]:
    """The cells of tables that hold a number; ``doubt`` is why one cannot be right."""
    doubts = errata.doubtful()
    return {
        (*place, column): cell | {"doubt": doubts.get((label, *place, column), "")}
        for label in labels
        for place, cells in errata.lines(label).items()
        for column, cell in cells.items()
    }


# --- the ledger ----------------------------------------------------------------------------------


def ledger(model: str, gptj: str = "gptj-small") -> pd.DataFrame:
    """One line for each printed number and each claim (one a data set, if it is about several).

    The tables of results with GPT-J are judged by runs of ``gptj`` alone, everything else by those
    of ``model``. What the paper says of e-mails and URLs, which its models had memorised by
    themselves, has a second line, judged by those that a model here had memorised by itself.
    """
    rules, lines = terms(), []
    synthetic, small = Judge(model, DATA), Judge(gptj, DATA, small=True)
    natural = Judge(rules["organic"]["model"], rules["organic"]["data"], "organic")
    for label in rules["pages"]:
        lines += numbers(label, small if label.endswith("_gptj") else synthetic)
    for claim in rules["claims"]:
        if "reason" in claim:
            said = {"where": claim["place"], "what": claim["says"], "why": claim["reason"]}
            lines.append({"kind": "claim", "id": claim["id"]} | said)
            continue
        judges = [synthetic] if claim.get("table") in ABLATIONS else [synthetic, natural]
        judges = [natural] if claim.get("secrets") == "organic" else judges
        for judge in [small] if "GPT-J" in claim["place"] else judges:
            judge_of = of_rows if "curve" in claim else of_cells
            for dataset in (dataset for dataset in claim["data"] if dataset in judge.data):
                said = {"where": claim["place"], "what": f"{dataset}: {claim['says']}"}
                said |= {"id": claim["id"], "secrets": judge.secrets, "data": dataset}
                lines.append({"kind": "claim"} | said | judge_of(claim, dataset, judge))
    hardware = paper.tables()["hardware"]
    for what, column in (("GPUs", "gpus"), ("minutes", "runtime_minutes")):
        for row, value in hardware[column].items():
            said = {"where": "App. Hardware", "what": f"{hardware['dataset']}, {row}: {what}"}
            said |= {"paper": str(value), "why": rules["why"][what], "page": "cost.html"}
            lines.append({"kind": "number"} | said)
    frame = pd.DataFrame([BLANK | line for line in lines])
    return frame.rename(columns={"doubt": "doubtful as printed"})


DASHED = ["paper", "ours", "difference", "interval", "on", "expected"]
COLUMNS = ["kind", "id", "data", "secrets", "where", "what", *DASHED, "rule", "chance", "verdict"]
COLUMNS += ["weak", "doubt", "why", "page", "rows", "behind"]
BLANK = dict.fromkeys(COLUMNS, "") | dict.fromkeys(DASHED, DASH)
BLANK |= {"verdict": UNMEASURED, "chance": math.nan}


def behind(found: Ours | None, judge: Judge, bar: float = math.nan) -> dict:
    """The columns of a line that say what we found, on what, and in which rows; ``weak`` is why it
    is little, also that its interval has the ``bar``, in points, which decides a claim."""
    if not found:
        return {}
    record = rows.find(kind="unlearn")
    some = [record[name] for name in found.rows]
    of_method: dict[tuple[str, str], set[int]] = {}
    for row in some:
        of_method.setdefault((row["data"], row["method"]), set()).add(row["seed"])
    seeds = min(map(len, of_method.values()))
    tunes = len({row["inputs"]["model"] for row in some})
    tuned = any(row["settings"].get("finetune") is not False for row in some)
    low, high = (100 * end for end in found.interval)
    weak = {ONE_SEED: seeds == 1, ONE_TUNE: tuned and tunes == 1, SMALL: judge.small}
    weak |= {UNSURE: tunes == 1 and low < bar < high, UNSETTLED: tunes > 1 and low < bar < high}
    return {
        "ours": str(found),
        "interval": DASH if low == high else f"{low:.1f} to {high:.1f}",
        "on": f"{judge}, {f'{tunes} fine-tunes, ' * (tunes > 1)}{seeds} seed{'s' * (seeds > 1)}",
        "weak": ", ".join(one for one in WEAK if weak[one]),
        "rows": ", ".join(found.rows),
        "behind": filtered_address("provenance", "tab-rows", found.rows),
    }


def page_of(name: str, column: str, judge: Judge) -> str:
    """The page of a table's column, or of a check, that has our numbers."""
    if column in BENCHMARKS:
        return "integrity.html"
    name = "organic" if judge.secrets == "organic" else terms()["pages"].get(name, name)
    return f"{'gptj' if judge.small and name in ('core', 'extraction') else name}.html"


def unmeasured(label: str, place: Place, judge: Judge) -> str:
    """Why there is no number of ours."""
    (dataset, row, column), reasons = place, terms()["why"]
    if label == "tab:pii-distribution":
        return reasons["pile"]
    if column not in BENCHMARKS:
        return reasons["no run"].format(row=row, dataset=dataset)
    at_chance = (judge.data[dataset], column) in judge.guessed
    return reasons["chance"] if at_chance else reasons["not asked"].format(column=column, row=row)


# --- numbers -------------------------------------------------------------------------------------


def numbers(label: str, judge: Judge) -> list[dict]:
    """The lines of one table's cells."""
    cells, lines = judge.cells(label), []
    for place, cell in printed(label).items():
        (dataset, row, column), ours = place, cells.get(place)
        known = {"kind": "number", "where": f"`{label}`", "paper": cell["printed"]}
        known |= {"what": f"{f'{dataset}, ' if dataset else ''}{row}: {column}"}
        known |= {"doubt": cell["doubt"], "page": page_of(label, column, judge)}
        if ours:
            apart = f"{ours.value - cell['value']:+.1f}"
            known |= {"verdict": MEASURED, "difference": apart}
        else:
            known |= {"why": unmeasured(label, place, judge)}
        lines.append(known | behind(ours, judge))
    return lines


# --- claims --------------------------------------------------------------------------------------


def of_cells(claim: dict, dataset: str, judge: Judge) -> dict:
    """What cells of a table say of a claim."""
    expect, columns, label = claim["expect"], columns_of(claim), claim["table"]
    theirs, cells = beside(claim), judge.cells(label)
    ours = of_columns({place: cell.value for place, cell in cells.items()}, claim, dataset)
    holds, told, every = in_its_table(claim, dataset)
    held = terms()["held"][holds] + (f": {told}" if told else "")
    places = [(dataset, row, column) for row in checks.named(expect) for column in columns]
    if holds is not None and any(theirs[place]["doubt"] for place in places):
        held += terms()["held"]["doubtful"]
    verdict, why = VERDICT[checks.judged(expect, ours, every)], too_coarse(claim, dataset, judge)
    chance = math.nan if verdict == UNMEASURED or why else checks.chance(expect, ours)
    if verdict == UNMEASURED:
        everybody = checks.needed(expect, every) or set(every) - {"Unedited"}
        missing = ", ".join(sorted(everybody - set(ours)))
        why = unmeasured(label, (dataset, missing, columns[0]), judge)
    ((kind, given),) = expect.items()
    row = next((row for row in checks.strings(given) if row in every), "REVS")
    found = cells.get((dataset, row, columns[0]))
    if kind in terms()["told"]:
        names = [name for row in ours for c in columns for name in cells[dataset, row, c].rows]
        sentence, found = told_of(expect, ours) if verdict != UNMEASURED else "", None
        if sentence:
            sure = apart(checks.comes_to(expect, ours), cells, dataset, columns[0])
            found = Ours(sentence, tuple(dict.fromkeys(names)), interval=sure)
    return behind(found, judge, checks.bar(expect)) | {
        "paper": held,
        "expected": f"{', '.join(columns)}: {words(expect)}",
        "rule": late(claim, dataset, judge) if found else "",
        "chance": chance,
        "verdict": UNMEASURED if why else classed(verdict, chance, holds, claim),
        "why": why,
        "page": page_of(label, columns[0], judge),
    }


def apart(
    numbers: dict, cells: dict[Place, Ours], dataset: str, column: str
) -> tuple[float, float]:
    """The interval of a gap over secrets, the same ones for both of its rows, or over the
    fine-tunes and splits of a contest; none of what is no gap, or no mean over secrets."""
    if "lead" not in numbers:
        return 0, 0
    pair = [cells[dataset, numbers[row], column] for row in ("row", "other")]
    if pair[0].each is not None:
        return contest.interval(pair[0].each - pair[1].each)
    if column not in METRICS:
        return 0, 0
    one, other = (list(ours.rows) for ours in pair)
    record = rows.find(kind="unlearn")
    drawn = statistics.samples([statistics.by_secret(record[name]) for name in one + other])
    if not all(METRICS[column] in run for run in drawn):
        return 0, 0
    sample = [run[METRICS[column]] for run in drawn]
    mine, theirs = (np.mean(part, axis=0) for part in (sample[: len(one)], sample[len(one) :]))
    return statistics.interval(mine - theirs)


def of_rows(claim: dict, dataset: str, judge: Judge) -> dict:
    """What rows say of a claim about a picture or a test, which no printed number decides."""
    ((kind, given),), says = claim["curve"].items(), terms()
    given, of = given if isinstance(given, list) else [given], (judge.model, judge.data[dataset])
    told = None if results.tagged(*of, "").empty else checks.ON_ROWS[kind](*of, *given)
    holds, said, names = told or (None, "", ())
    chance = checks.chance_on_rows(kind, given, *of) if told else math.nan
    why = says["why"].get(kind) or says["why"]["no runs"].format(dataset=dataset)
    return behind(Ours(said, tuple(names)) if told else None, judge) | {
        "expected": f"{kind}: {', '.join(map(str, given))}",
        "rule": late(claim, dataset, judge) if told else "",
        "chance": chance,
        "verdict": classed(VERDICT[holds], chance, None, claim),
        "why": "" if told else why,
        "page": page_of(says["places"].get(kind, "tradeoffs"), "", judge),
    }


def classed(verdict: str, chance: float, there: bool | None, claim: dict) -> str:
    """A verdict, or why it says nothing of the paper: the claim is false in the paper's own table,
    or it holds and is nearly true by construction, or would hold with any labels."""
    if verdict == UNMEASURED:
        return verdict
    if there is False:
        return REFUTED
    if verdict == FAILS:
        return verdict
    return BUILT_IN if "built_in" in claim else ANY if chance == 1 else verdict


def beside(claim: dict) -> dict[Place, dict]:
    """The cells of a claim's table and, of results, of the other one of the same model."""
    pairs = zip(paper.CORE.values(), paper.EXTRACTION.values(), strict=True)
    return printed(*next((pair for pair in pairs if claim["table"] in pair), [claim["table"]]))


def in_its_table(claim: dict, dataset: str) -> tuple[bool | None, str, dict]:
    """Does a claim hold of the paper's own numbers (None: not all are printed), what it comes to
    if that is not one row's number, and the numbers by row."""
    cells = {place: cell["value"] for place, cell in beside(claim).items()}
    values = of_columns(cells, claim, dataset)
    holds = checks.judged(claim["expect"], values, values)
    return holds, "" if holds is None else told_of(claim["expect"], values), values


def of_columns(cells: dict[Place, float], claim: dict, dataset: str) -> checks.Values:
    """The values of a claim's column by row, tuples of several; of rows that the paper has too."""
    found, columns = {}, columns_of(claim)
    for row in sorted({row for _, row, _ in beside(claim)}):
        if all((dataset, row, column) in cells for column in columns):
            values = tuple(cells[dataset, row, column] for column in columns)
            found[row] = values if len(columns) > 1 else values[0]
    return found


def columns_of(claim: dict) -> list[str]:
    return claim.get("columns") or [claim["column"]]


def told_of(expect: dict, values: checks.Values) -> str:
    """What a claim comes to that is about more than one row's number; empty for the others."""
    numbers = checks.comes_to(expect, values)
    return terms()["told"][next(iter(expect))].format(**numbers) if numbers else ""


def words(expect: dict) -> str:
    """A check in a few words."""
    ((kind, given),) = expect.items()
    listed = [", ".join(one) if isinstance(one, list) else one for one in given]
    listed = ["all others" if one == checks.ALL else one for one in listed]
    return terms()["checks"][kind].format(*listed, others=", ".join(map(str, listed[1:])))


def too_coarse(claim: dict, dataset: str, judge: Judge) -> str:
    """Why a benchmark cannot tell whether a claim holds: one answer is more than its tolerance."""
    found = abilities.runs(judge.model, judge.data[dataset])
    if not found or claim.get("column") not in BENCHMARKS or "near" not in claim["expect"]:
        return ""
    items = found["unedited"]["result"]["integrity"][BENCHMARKS[claim["column"]]]["items"]
    coarse = 100 / items > claim["expect"]["near"][0]
    return terms()["why"]["coarse"].format(100 / items) if coarse else ""


def late(claim: dict, dataset: str, judge: Judge) -> str:
    """Is a rule younger than rows that it judges? On organic secrets all but a benchmark's are; no
    rule is younger than a contest."""
    asked = claim.get("columns") or [claim.get("column")]
    of_contest = set(claim.get("curve", ())) <= {"small", "significant"} and not (
        claim.get("table") in ABLATIONS or set(asked) & set(BENCHMARKS)
    )
    if of_contest and judge.contested(dataset):
        return ""
    organic = judge.secrets == "organic" and claim.get("column") not in BENCHMARKS
    return "younger" if organic or dataset in claim.get("late", ()) else ""


def against_the_paper() -> pd.DataFrame:
    """Claims of the paper's prose that do not hold of the numbers which it prints."""
    found = []
    for claim in (claim for claim in terms()["claims"] if "expect" in claim):
        for dataset in claim["data"]:
            holds, told, values = in_its_table(claim, dataset)
            if holds is False:
                ordered = not told or set(claim["expect"]) & {"first", "place", "close", "above"}
                some = checks.needed(claim["expect"], values) & set(values) if ordered else ()
                order = sorted(some, key=lambda row: (-values[row], row))
                looked = f"{', '.join(columns_of(claim))}: {words(claim['expect'])}"
                shown = ", ".join(f"{row} {values[row]:g}" for row in order) or told
                found.append([claim["place"], f"{dataset}: {claim['says']}", looked, shown])
    return pd.DataFrame(found, columns=["where", "the text", "looked at", "printed"])


def counted(frame: pd.DataFrame) -> pd.DataFrame:
    """How many claims have each verdict: in all, with nothing weak, and by what is weak of them (a
    claim may be in several); then of how many the chance is known, and how many of these would
    hold with shuffled names."""
    some = frame[frame["kind"] == "claim"].groupby("verdict")
    counts = pd.DataFrame(index=list(VERDICTS))
    counts["in all"] = some.size()
    counts["not weak"] = some["weak"].agg(lambda weak: weak.eq("").sum())
    for one in WEAK:
        counts[one] = some["weak"].agg(lambda weak, one=one: weak.str.contains(one).sum())
    counts["with a chance"], counts["by chance"] = some["chance"].count(), some["chance"].sum()
    counts.loc[UNMEASURED, ["not weak", *WEAK]] = 0
    whole = counts.columns.drop("by chance")
    return counts.fillna(0).astype(dict.fromkeys(whole, int))


def main(frame: pd.DataFrame) -> pd.DataFrame:
    """The paper's main claims, a line a data set: whether each holds, does not hold or cannot be
    asked; ``aside`` is what is weak of that, or why an answer would say nothing."""
    known = {claim["id"]: claim["main"] for claim in terms()["claims"] if "main" in claim}
    lines = frame[frame["id"].isin(known)]
    decided = lines["verdict"].isin((HOLDS, FAILS))
    about = {
        "claim": lines["id"].map(known),
        "data": np.where(lines["secrets"] == "organic", "organic ", "") + lines["data"],
        "verdict": lines["verdict"].where(decided, UNMEASURED),
        "aside": lines["weak"].where(decided, lines["verdict"].replace(UNMEASURED, "")),
    }
    return pd.DataFrame(about)


def listed(lines: pd.DataFrame) -> dict[str, str]:
    """By verdict, the main claims that have it, each with its data sets; ASIDE marks those with an
    aside."""
    lines = lines.assign(data=lines["data"] + np.where(lines["aside"] == "", "", ASIDE))
    found = {verdict: "none" for verdict in (HOLDS, FAILS, UNMEASURED)}
    for verdict, part in lines.groupby("verdict", sort=False):
        data = part.groupby("claim", sort=False)["data"].agg(", ".join)
        found[verdict] = "; ".join(f"{claim}: {some}" for claim, some in data.items())
    return found
