"""The ledger: every printed number of the paper's result tables and every claim of its prose, with
ours and a verdict.

params/claims.yml holds the tolerance, the claims and their checks. Nothing is judged by hand: a
verdict is what the check says of our rows. Ours are of another model than the paper's, and each
line says of which.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import pandas as pd
import yaml

from companion.ledger import checks
from companion.pages import abilities, ablations, errata, extraction, results, statistics, tradeoffs
from companion.pages.organic import public
from companion.pages.tables import DASH, showing
from companion.record import paper, rows
from companion.record.paths import ROOT
from companion.runs import methods

REPRODUCED, DIRECTION, DIFFERENT, NOTHING_DONE, UNMEASURED = VERDICTS = (
    "reproduced",
    "same direction",
    "different",
    "unedited too",
    "not measured here",
)
NUMBER, CLAIM = "number", "claim"
DATA = {title: name for name, title in methods.PAPER_DATA.items()}
TWINS = {paper.CORE[model]: paper.EXTRACTION[model] for model in paper.CORE}
TWINS |= {attacked: core for core, attacked in TWINS.items()}  # of one model, data and rows
ABLATIONS = {label: entries for label, entries in ablations.ALL.values()}
PII = "tab:pii-distribution"
THE_METHOD = ("REVS", "Rank & Activations (hybrid)", "Rarest")  # its name in each kind of table
OF_CURVES = ("above", "begins", "declines", "dominates", "keeps", "leads", "reaches", "stays")
ON_ROWS = {name: getattr(tradeoffs, name) for name in (*OF_CURVES, "steadier", "weakest")}
ON_ROWS |= {name: getattr(checks, name) for name in ("costs", "narrower", "small", "traded")}
ON_ROWS |= {"public": public, "significant": statistics.significant}
NORMAL = 1.96  # standard errors to either side that hold 95 per cent
Place = tuple[str, str, str]  # data set, row, column, in the paper's words


@dataclass(frozen=True)
class Ours:
    """A number of ours in per cent: mean, standard deviation (nan for one run), the names of its
    rows, and its interval over secrets, as shares, if it has one."""

    value: float
    std: float
    rows: tuple[str, ...]
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.value:.1f}" + ("" if math.isnan(self.std) else f" ± {self.std:.1f}")


@dataclass(frozen=True, eq=False)
class Judge:
    """Whose rows decide: a model, its data set for each of the paper's, the kind of its secrets."""

    model: str
    data: dict[str, str]
    secrets: str

    def __str__(self) -> str:
        return f"{results.title(self.model)}, {self.secrets}"

    @functools.cached_property
    def guessed(self) -> set[tuple[str, str]]:
        """The benchmarks, by data set of ours, at which the unedited model is at chance."""
        return abilities.guessed(self.model, self.data.values())

    @functools.cache  # noqa: B019 (there are three judges)
    def cells(self, label: str) -> dict[Place, Ours]:
        """Our numbers in the places of a table, where there are rows."""
        found = {}
        for dataset, data in self.data.items() if label != PII else ():  # counts of other texts
            of_table = of_ablation if label in ABLATIONS else of_results
            found |= {
                (dataset, *place): ours
                for place, ours in of_table(label, self.model, data).items()
                if (data, place[1]) not in self.guessed
            }
        return found


@functools.cache
def terms() -> dict:
    """params/claims.yml. Read once and shared: do not change it."""
    return yaml.safe_load((ROOT / "params" / "claims.yml").read_text(encoding="utf-8"))


@functools.cache
def printed(label: str) -> dict[Place, dict]:
    """A table's cells that hold a number; ``doubt`` is why one cannot be right."""
    doubts = errata.doubtful()
    return {
        (*place, column): cell | {"doubt": doubts.get((label, *place, column), "")}
        for place, cells in errata.lines(label).items()
        for column, cell in cells.items()
    }


def of_results(label: str, model: str, data: str) -> dict[tuple[str, str], Ours]:
    """Our numbers of a core or an extraction table on one data set, by row and column."""
    frame, found = results.tagged(model, data, ""), {}
    if frame.empty:
        return found
    attacked = label in paper.EXTRACTION.values()
    ours, columns = results.means(frame), results.PAPER_COLUMNS
    if attacked:
        ours, columns = extraction.means(frame, "released"), extraction.PAPER_COLUMNS
    for name, values in ours.items():
        done, title = list(results.finished(frame, name)), methods.registry()[name]["title"]
        sure = {} if attacked else statistics.intervals(done)
        names = tuple(row["name"] for row in done)
        for metric, column in columns.items():
            mean, std = (100 * value for value in values[metric])
            if done and not math.isnan(mean):
                found[title, column] = Ours(mean, std, names, sure.get(metric))
    for name, row in ({} if attacked else abilities.runs(model, data)).items():
        for benchmark, column in abilities.BENCHMARKS.items():
            asked = row["result"]["integrity"][benchmark]
            share = asked["accuracy"]
            spread = NORMAL * abilities.error(share, asked["items"])
            interval = (share - spread, share + spread)
            place = methods.registry()[name]["title"], column
            found[place] = Ours(100 * share, math.nan, (row["name"],), interval)
    return found


def of_ablation(label: str, model: str, data: str) -> dict[tuple[str, str], Ours]:
    """Our numbers of an ablation on one data set, seed 0; the paper's have no unedited model."""
    frame, found = results.measured(model, data), {}
    runs = frame[frame["seed"] == 0].set_index("tag")["row"]
    for tag, _, title in ABLATIONS[label] if "base" in runs.index else ():
        if tag not in runs.index:
            continue
        result, names = runs[tag]["result"], (runs[tag]["name"],)
        sure = statistics.intervals([runs[tag]])
        before, after = (results.numbers(result[when]) for when in ("before", "after"))
        for metric, column in results.PAPER_COLUMNS.items():
            found[title, column] = Ours(100 * after[metric], math.nan, names, sure.get(metric))
            found["Unedited", column] = Ours(100 * before[metric], math.nan, names)
        if "attacks" in result:
            score = result["attacks"]["resistance_score"]["released"]
            found[title, "Resistance Score"] = Ours(100 * score, math.nan, names)
    return found


# --- the ledger ----------------------------------------------------------------------------------


def ledger(model: str, gptj: str = "gptj-small") -> pd.DataFrame:
    """One line for each printed number and each claim (one a data set, if it is about several).

    The tables of results with GPT-J are judged by runs of ``gptj`` alone, everything else by those
    of ``model``. What the paper says of e-mails and URLs, which its models had memorised by
    themselves, has a second line, judged by those that a model here had memorised by itself.
    """
    rules = terms()
    synthetic, small = Judge(model, DATA, "synthetic"), Judge(gptj, DATA, "synthetic")
    natural = Judge(rules["organic"]["model"], rules["organic"]["data"], "organic")
    lines = []
    for label in rules["pages"]:
        lines += numbers(label, small if label.endswith("_gptj") else synthetic)
    for claim in rules["claims"]:
        if "GPT-J" in claim["place"]:
            judges = [small]
        elif claim.get("secrets") == "organic":
            judges = [natural]
        else:
            alone = claim.get("table") in ABLATIONS or "reason" in claim
            judges = [synthetic] if alone else [synthetic, natural]
        lines += [line for judge in judges for line in verdicts(claim, judge)]
    return pd.DataFrame([*lines, *hardware()])


def numbers(label: str, judge: Judge) -> list[dict]:
    """The lines of one table's cells."""
    tolerance = terms()["numbers"]["tolerance"]
    theirs = {place: cell["value"] for place, cell in printed(label).items()}
    cells = judge.cells(label)
    ours, lines = {place: cell.value for place, cell in cells.items()}, []
    for place, cell in printed(label).items():
        dataset, row, column = place
        verdict, why = number(place, theirs, ours, tolerance), ""
        if verdict == UNMEASURED:
            why = unmeasured(label, dataset, column, row, judge)
        elif verdict == NOTHING_DONE or verdict == DIRECTION and idle(place, ours, tolerance):
            why = over_unedited(place, theirs, ours)
        found = cells.get(place)
        lines.append(
            line(NUMBER, f"`{label}`", ", ".join(filter(None, (dataset, row))) + f": {column}")
            | {"paper": cell["printed"], "doubtful as printed": cell["doubt"]}
            | {"expected": DASH if label == PII else f"within {tolerance} points"}
            | {"verdict": verdict, "why": why, "page": page_of(label, column, judge)}
            | (behind(found, judge) if found else {})
        )
    return lines


def number(
    place: Place, theirs: dict[Place, float], ours: dict[Place, float], tolerance: float
) -> str:
    """The verdict on one printed number."""
    if place not in ours:
        return UNMEASURED
    dataset, row, column = place
    if abs(ours[place] - theirs[place]) <= tolerance:
        unedited = ours.get((dataset, "Unedited", column), math.inf)
        return NOTHING_DONE if abs(unedited - theirs[place]) <= tolerance else REPRODUCED
    others = [
        (dataset, other, column)
        for other in dict.fromkeys(name for _, name, _ in theirs)
        if other not in (row, "Unedited")
        and (dataset, other, column) in theirs.keys() & ours.keys()
    ]
    against = [other for other in others if other[1] in THE_METHOD] or others
    if not against or row == "Unedited":
        return DIFFERENT
    there, here = (
        values[place] - max(values[other] for other in against) for values in (theirs, ours)
    )
    same = (there > 0) == (here > 0) and (there < 0) == (here < 0)
    return DIRECTION if same else DIFFERENT


def idle(place: Place, ours: dict[Place, float], tolerance: float) -> bool:
    """Is our number of a method next to that of our unedited model?"""
    dataset, row, column = place
    unedited = ours.get((dataset, "Unedited", column), math.inf)
    return row != "Unedited" and abs(ours[place] - unedited) <= tolerance


def over_unedited(place: Place, theirs: dict[Place, float], ours: dict[Place, float]) -> str:
    """How far a number is above the unedited model's, here and, where printed, in the paper."""
    dataset, row, column = place
    before = (dataset, "Unedited", column)
    if row == "Unedited":
        return ""
    here = ours[place] - ours[before]
    if before not in theirs:
        return terms()["why"]["over"].format(here)
    return terms()["why"]["over both"].format(theirs[place] - theirs[before], here)


def hardware() -> list[dict]:
    """The lines of the GPUs and minutes that the Appendix prints; ours are not to be compared."""
    of_paper, says = paper.tables()["hardware"], terms()["why"]
    return [
        line(NUMBER, "App. Hardware", f"{of_paper['dataset']}, {row}: {what}")
        | {"paper": str(value), "why": says[what], "page": "cost.html"}
        for what, column in (("GPUs", "gpus"), ("minutes", "runtime_minutes"))
        for row, value in of_paper[column].items()
    ]


def verdicts(claim: dict, judge: Judge) -> list[dict]:
    """The lines of one claim: its check on the paper's own numbers, and on ours."""
    if "reason" in claim:
        return [line(CLAIM, claim["place"], claim["says"]) | {"why": claim["reason"]}]
    judge_of = of_rows if "curve" in claim else of_cells
    return [
        line(CLAIM, claim["place"], f"{dataset}: {claim['says']}") | judge_of(claim, dataset, judge)
        for dataset in claim["data"]
        if dataset in judge.data
    ]


def of_cells(claim: dict, dataset: str, judge: Judge) -> dict:
    """What cells of a table say of a claim."""
    expect, columns, label = claim["expect"], columns_of(claim), claim["table"]
    cells = judge.cells(label) | (judge.cells(TWINS[label]) if label in TWINS else {})
    mine = of_columns({place: cell.value for place, cell in cells.items()}, claim, dataset)
    holds, told, every = in_its_table(claim, dataset)
    held = terms()["held"][holds] + (f": {told}" if told else "")
    places = [(dataset, row, column) for row in checks.named(expect) for column in columns]
    if holds is not None and any(printed_of(claim)[place]["doubt"] for place in places):
        held += terms()["held"]["doubtful"]
    verdict = verdict_of(checks.judged(expect, mine, every))
    everybody = checks.needed(expect, every) or set(every) - {"Unedited"}
    why = ""
    if verdict == UNMEASURED:
        missing = ", ".join(sorted(everybody - set(mine)))
        why = unmeasured(label, dataset, columns[0], missing, judge)
    elif why := too_coarse(claim, dataset, judge):
        verdict = UNMEASURED
    found = {}
    subject = next((row for row in checks.strings(next(iter(expect.values()))) if row in every), "")
    if next(iter(expect)) in terms()["told"]:
        if verdict != UNMEASURED:
            ours = [cells[dataset, row, column] for row in mine for column in columns]
            names = dict.fromkeys(name for cell in ours for name in cell.rows)
            found = behind(told_of(expect, mine), judge, names)
    elif cell := cells.get((dataset, subject or "REVS", columns[0])):
        found = behind(cell, judge)
    return found | {
        "paper": held,
        "expected": f"{', '.join(columns)}: {words(expect)}",
        "rule": late(claim, dataset, judge) if found else "",
        "verdict": verdict,
        "why": why,
        "page": page_of(label, columns[0], judge),
    }


def of_rows(claim: dict, dataset: str, judge: Judge) -> dict:
    """What rows say of a claim about a picture or a test, which no printed number decides."""
    ((kind, given),) = claim["curve"].items()
    given = given if isinstance(given, list) else [given]
    of = judge.model, judge.data[dataset]
    told = None if results.tagged(*of, "").empty else ON_ROWS[kind](*of, *given)
    reasons = terms()["why"]
    why = reasons.get(kind) or reasons["no runs"].format(dataset=dataset)
    places = terms()["places"]
    return (behind(told[1], judge, told[2]) if told else {}) | {
        "expected": f"{kind}: {', '.join(map(str, given))}",
        "rule": late(claim, dataset, judge) if told else "",
        "verdict": verdict_of(told and told[0]),
        "why": "" if told else why,
        "page": page_of(places.get(kind, "tradeoffs"), "", judge),
    }


def verdict_of(holds: bool | None) -> str:
    return UNMEASURED if holds is None else REPRODUCED if holds else DIFFERENT


def printed_of(claim: dict) -> dict[Place, dict]:
    """The cells of a claim's table and of the other one of the same model."""
    label = claim["table"]
    return printed(label) | (printed(TWINS[label]) if label in TWINS else {})


def in_its_table(claim: dict, dataset: str) -> tuple[bool | None, str, dict]:
    """Does a claim hold of the paper's own numbers (None: not all are printed), what it comes to
    if that is not one row's number, and the numbers by row."""
    cells = {place: cell["value"] for place, cell in printed_of(claim).items()}
    values = of_columns(cells, claim, dataset)
    holds = checks.judged(claim["expect"], values, values)
    return holds, "" if holds is None else told_of(claim["expect"], values), values


def of_columns(cells: dict[Place, float], claim: dict, dataset: str) -> dict:
    """The values of a claim's column by row, tuples of several; of rows that the paper has too."""
    columns = columns_of(claim)
    found = {
        row: tuple(cells[dataset, row, column] for column in columns)
        for row in sorted({row for _, row, _ in printed_of(claim)})
        if all((dataset, row, column) in cells for column in columns)
    }
    return found if len(columns) > 1 else {row: values[0] for row, values in found.items()}


def columns_of(claim: dict) -> list[str]:
    return claim.get("columns") or [claim["column"]]


def told_of(expect: dict, values: dict) -> str:
    """What a claim comes to that is about more than one row's number; empty for the others."""
    numbers = checks.comes_to(expect, values)
    return terms()["told"][next(iter(expect))].format(**numbers) if numbers else ""


def words(expect: dict) -> str:
    """A check in a few words."""
    ((kind, given),) = expect.items()
    one_word = lambda one: ", ".join(one) if isinstance(one, list) else one
    listed = ["all others" if one == checks.ALL else one_word(one) for one in given]
    return terms()["checks"][kind].format(*listed, others=", ".join(map(str, listed[1:])))


def too_coarse(claim: dict, dataset: str, judge: Judge) -> str:
    """Why a benchmark cannot tell whether a claim holds: one answer is more than its tolerance."""
    for benchmark, column in abilities.BENCHMARKS.items():
        if claim.get("column") == column and "near" in claim["expect"]:
            if found := abilities.runs(judge.model, judge.data[dataset]):
                one = 100 / found["unedited"]["result"]["integrity"][benchmark]["items"]
                return terms()["why"]["coarse"].format(one) * (one > claim["expect"]["near"][0])
    return ""


def late(claim: dict, dataset: str, judge: Judge) -> str:
    """Is a rule younger than rows that it judges? On organic secrets all are, but for those about
    benchmarks."""
    organic = (
        judge.secrets == "organic" and claim.get("column") not in abilities.BENCHMARKS.values()
    )
    return "younger" if organic or dataset in claim.get("late", ()) else ""


def unmeasured(label: str, dataset: str, column: str, row: str, judge: Judge) -> str:
    """Why there is no number of ours."""
    reasons = terms()["why"]
    if label == PII:
        return reasons["pile"]
    if column not in abilities.BENCHMARKS.values():
        return reasons["no run"].format(row=row, dataset=dataset)
    at_chance = (judge.data[dataset], column) in judge.guessed
    return reasons["chance"] if at_chance else reasons["not asked"].format(column=column, row=row)


def page_of(label: str, column: str, judge: Judge) -> str:
    """The page that has our numbers of a column of a table."""
    if column in abilities.BENCHMARKS.values():
        return "integrity.html"
    return f"{'organic' if judge.secrets == 'organic' else terms()['pages'].get(label, label)}.html"


def line(kind: str, where: str, what: str) -> dict:
    """A line of the ledger about something that is not measured; what is known is laid over it."""
    dashes = dict.fromkeys(("paper", "ours", "interval", "on", "expected"), DASH)
    blanks = dict.fromkeys(("why", "doubtful as printed", "page", "rows", "behind"), "")
    first = {"kind": kind, "where": where, "what": what}
    return first | dashes | {"rule": "", "verdict": UNMEASURED} | blanks


def behind(found: Ours | str, judge: Judge, names: list[str] | None = None) -> dict:
    """The columns of a line that say what we found, on what, and in which rows."""
    names = list(names or found.rows)
    record = rows.find(kind="unlearn")
    seeds = len({record[name]["seed"] for name in names})
    low, high = getattr(found, "interval", None) or (0, 0)
    return {
        "ours": str(found),
        "interval": DASH if low == high else f"{100 * low:.1f} to {100 * high:.1f}",
        "on": f"{judge}, {seeds} seed" + ("s" if seeds > 1 else ""),
        "rows": ", ".join(names),
        "behind": showing("provenance", "tab-rows", names),
    }


def against_the_paper() -> pd.DataFrame:
    """Claims of the paper's prose that do not hold of the numbers which it prints."""
    found = []
    for claim in (claim for claim in terms()["claims"] if "expect" in claim):
        for dataset in claim["data"]:
            holds, told, values = in_its_table(claim, dataset)
            if holds is False:
                some = checks.needed(claim["expect"], values) & set(values)
                order = [] if told else sorted(some, key=lambda row: (-values[row], row))
                looked = f"{', '.join(columns_of(claim))}: {words(claim['expect'])}"
                shown = told or ", ".join(f"{row} {values[row]:g}" for row in order)
                text = f"{dataset}: {claim['says']}"
                found.append([claim["place"], text, looked, shown])
    return pd.DataFrame(found, columns=["where", "the text", "looked at", "printed"])


def counted(frame: pd.DataFrame) -> dict[str, int]:
    """How many lines have each verdict; what cannot be right as printed is not counted."""
    counts = frame.loc[frame["doubtful as printed"] == "", "verdict"].value_counts()
    return {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS}
