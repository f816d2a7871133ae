"""The ledger: every printed number of the paper's result tables and every claim of its prose, with ours and a verdict.

``params/claims.yml`` holds the tolerance and the claims' checks. Nothing is judged by hand: a verdict is what the check
says of our rows. Ours are of another model than the paper's, and each line says of which.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import yaml

from revs import abilities, ablations, errata, extraction, methods, organic, paper, results, statistics, tradeoffs
from revs.paths import ROOT
from revs.tables import DASH, showing

REPRODUCED, DIRECTION, DIFFERENT, NOTHING_DONE, UNMEASURED = VERDICTS = ("reproduced", "same direction", "different", "unedited too", "not measured here")
NUMBER, CLAIM = "number", "claim"
DATA = {"SSN": "ssn", "Emails": "emails", "URLs": "urls"}
PII = "tab:pii-distribution"
PAGES = {**dict.fromkeys(paper.CORE.values(), "core"), **dict.fromkeys(paper.EXTRACTION.values(), "extraction"), "tab:ablation_neuron_selection": "neurons", "tab:method_results": "zeroing", "tab:ablation_token_method": "tokens", PII: "organic"}
THE_METHOD = ("REVS", "Rank & Activations (hybrid)", "Rarest")  # what tables of results, of neurons and of tokens call the method itself
CURVES = {"significant": (statistics.significant, "core", "fewer than six seeds are recorded, and no p can be below 0.05"), "public": (organic.public, "organic", "no recorded run of these secrets yet (`make organic`)")}
CURVES |= {kind: (getattr(tradeoffs, kind), page, "") for page, kinds in {"extraction": ("linked", "weakest"), "tradeoffs": ("above", "begins", "declines", "dominates", "keeps", "leads", "reaches", "stays", "steadier")}.items() for kind in kinds}
ABLATIONS = {label: entries for label, entries in ablations.ALL.values()}
GPTJ = " (`make gptj-tune adopt`, then `make gptj adopt`)"
NORMAL = 1.96  # standard errors to either side that hold 95 per cent
Place = tuple[str, str, str]  # data set, row, column, in the paper's words


@dataclass(frozen=True)
class Ours:
    """One of our numbers, in per cent: mean and standard deviation (nan for one run), the rows behind it, and its interval over secrets, if it has one."""

    value: float
    std: float
    rows: tuple[str, ...]
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        return f"{self.value:.1f}" + ("" if math.isnan(self.std) else f" ± {self.std:.1f}")


@dataclass(frozen=True)
class Told:
    """What rows of ours say where the paper prints no number, in words, and the rows."""

    text: str
    rows: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


def terms() -> dict:
    """params/claims.yml."""
    return yaml.safe_load((ROOT / "params" / "claims.yml").read_text(encoding="utf-8"))


def printed(label: str) -> dict[Place, dict]:
    """A table's cells that hold a number."""
    return {(*place, column): cell for place, cells in errata.lines(label).items() for column, cell in cells.items()}


def measured(label: str, model: str, guessed: set[tuple[str, str]] = frozenset()) -> dict[Place, Ours]:
    """Our numbers in the places of a table, where there are rows; not those of columns, by data set, that the model has guessed."""
    found: dict[Place, Ours] = {}
    if label == PII:  # counts of other texts
        return found
    for dataset, data in DATA.items():
        if label in ABLATIONS:
            found |= of_ablation(label, dataset, data, model)
            continue
        try:
            frame = results.runs(model, data)
        except ValueError:  # no rows of this data set
            continue
        attacked = label in paper.EXTRACTION.values()
        ours, columns = (extraction.means(frame, "released"), extraction.PAPER_COLUMNS) if attacked else (results.means(frame), results.PAPER_COLUMNS)
        for name, values in ours.items():
            done = list(results.finished(frame, name))
            sure = {} if attacked else statistics.intervals(done)
            for metric, column in columns.items():
                mean, std = values[metric]
                if done and not math.isnan(mean):
                    found[dataset, methods.registry()[name]["title"], column] = Ours(100 * mean, 100 * std, tuple(row["name"] for row in done), sure.get(metric))
        for name, row in ({} if attacked else abilities.runs(model, data)).items():
            for benchmark, column in abilities.BENCHMARKS.items():
                if (data, column) in guessed:
                    continue
                accuracy, items = (row["result"]["integrity"][benchmark][part] for part in ("accuracy", "items"))
                spread = NORMAL * abilities.error(accuracy, items)
                found[dataset, methods.registry()[name]["title"], column] = Ours(100 * accuracy, math.nan, (row["name"],), (accuracy - spread, accuracy + spread))
    return found


def of_ablation(label: str, dataset: str, data: str, model: str) -> dict[Place, Ours]:
    """Our numbers of an ablation on one data set, seed 0."""
    try:
        frame = ablations.scores(model, data)
    except ValueError:
        return {}
    found = {}
    for tag, _, row in ABLATIONS[label]:
        if tag in frame.index:
            run = frame.loc[tag]
            sure = statistics.intervals([run["row"]])
            for metric, column in results.PAPER_COLUMNS.items():
                found[dataset, row, column] = Ours(float(run[metric]), math.nan, (run["name"],), sure.get(metric))
            if "attacks" in run["row"]["result"]:
                found[dataset, row, "Resistance Score"] = Ours(100 * run["row"]["result"]["attacks"]["resistance_score"]["released"], math.nan, (run["name"],))
    return found


# --- verdicts --------------------------------------------------------------------------------------------------------


def number(place: Place, theirs: dict[Place, float], ours: dict[Place, float], tolerance: float) -> str:
    """The verdict on one printed number."""
    if place not in ours:
        return UNMEASURED
    dataset, row, column = place
    if abs(ours[place] - theirs[place]) <= tolerance:
        return NOTHING_DONE if abs(ours.get((dataset, "Unedited", column), math.inf) - theirs[place]) <= tolerance else REPRODUCED
    others = [(dataset, other, column) for _, other, _ in theirs if other not in (row, "Unedited") and (dataset, other, column) in theirs and (dataset, other, column) in ours]
    revs = [other for other in others if other[1] in THE_METHOD]
    against = revs or others
    if not against or row == "Unedited":
        return DIFFERENT
    sides = [side(values[place] - max(values[other] for other in against)) for values in (theirs, ours)]
    return DIRECTION if sides[0] == sides[1] else DIFFERENT


def side(difference: float) -> int:
    return (difference > 0) - (difference < 0)


def needed(expect: dict, every: list[str]) -> set[str]:
    """The rows of a table without which a check cannot be made; ``every`` are those that the paper prints in its column."""
    (kind, given), = expect.items()
    named = {row for row in given if isinstance(row, str) and row != "all"}
    if kind in ("first", "place") or "all" in given:
        named |= {row for row in every if row != "Unedited"}
    return named | ({"Unedited"} if kind == "near" else set())


def holds(expect: dict, values: dict[str, float]) -> bool:
    """Does a check hold of one column's values, by row?"""
    (kind, given), = expect.items()
    of_methods = {row: value for row, value in values.items() if row != "Unedited"}
    if kind == "at_least":
        return values[given[0]] >= given[1]
    if kind == "at_most":
        return values[given[0]] <= given[1]
    if kind in ("first", "place"):
        return sum(value > values[given[0]] for value in of_methods.values()) < (given[1] if kind == "place" else 1)
    if kind == "above":
        return all(values[given[0]] > values[other] for other in given[1:])
    if kind == "times":
        return values[given[0]] >= given[2] * values[given[1]]
    if kind == "near":
        return all(abs(values[row] - values["Unedited"]) <= given[0] for row in (of_methods if given[1:] == ["all"] else given[1:]))
    raise ValueError(f"'{kind}' is not a check: use first, place, above, at_least, at_most, times or near.")


def of_column(cells: dict[Place, float], dataset: str, column: str, rows_of: set[str]) -> dict[str, float]:
    """One column's values by row, of the rows that the paper has."""
    return {row: value for (data, row, name), value in cells.items() if (data, name) == (dataset, column) and row in rows_of}


# --- the ledger ------------------------------------------------------------------------------------------------------


def ledger(model: str, gptj: str = "gptj-small") -> pd.DataFrame:
    """One line for each printed number and each claim (a claim about several data sets has one for each).

    The tables of results with GPT-J are judged by runs of ``gptj`` alone, the ablations and everything else by those of
    ``model``, where a claim does not name another.
    """
    rules = terms()
    judges = {label: gptj if label.endswith("_gptj") else model for label in PAGES}
    guessed = {judge: abilities.guessed(judge) for judge in set(judges.values())}
    tables = {label: (printed(label), measured(label, judge, guessed[judge]), judge, guessed[judge]) for label, judge in judges.items()}
    lines = [line for label, of_table in tables.items() for line in numbers(label, *of_table, rules["numbers"]["tolerance"])]
    said = [line for claim in rules["claims"] for line in verdicts(claim, tables, gptj if "GPT-J" in claim["place"] else claim.get("model", model))]
    return pd.DataFrame(lines + said + hardware())


def numbers(label: str, theirs: dict[Place, dict], ours: dict[Place, Ours], model: str, guessed: set[tuple[str, str]], tolerance: float) -> list[dict]:
    """The lines of one table's cells. An ablation that is not recorded on the paper's data set is not judged by another's."""
    their_values, our_values = {place: cell["value"] for place, cell in theirs.items()}, {place: cell.value for place, cell in ours.items()}
    lines, doubts = [], errata.doubtful()
    for place, cell in theirs.items():
        dataset, row, column = place
        verdict = number(place, their_values, our_values, tolerance)
        expected = DASH if label == PII else f"within {tolerance} points"
        why = over_unedited(place, their_values, our_values) if verdict == NOTHING_DONE else unmeasured(label, dataset, column, row, guessed)
        lines.append(line(f"`{label}`", f"{f'{dataset}, ' if dataset else ''}{row}: {column}", cell["printed"], ours.get(place), model, expected, verdict, why, PAGES[label], NUMBER, doubts.get((label, *place), "")))
    return lines


def over_unedited(place: Place, theirs: dict[Place, float], ours: dict[Place, float]) -> str:
    """How far a number is above the unedited model's, in the paper and here; empty for the unedited model itself, or where the paper does not print it."""
    dataset, row, column = place
    before = (dataset, "Unedited", column)
    return f"over unedited: {theirs[place] - theirs[before]:+.1f} in the paper, {ours[place] - ours[before]:+.1f} here" if row != "Unedited" and before in theirs else ""


def hardware() -> list[dict]:
    """The lines of the GPUs and minutes that the Appendix prints: they are of its machine."""
    of_paper = paper.tables()["hardware"]
    why = "a number of the paper's GPUs; what ours took, on a processor, is on the page of costs"
    return [line("App. Hardware", f"{of_paper['dataset']}, {row}: {what}", str(value), None, "", DASH, UNMEASURED, why, "cost", NUMBER) for what, values in (("GPUs", of_paper["gpus"]), ("minutes", of_paper["runtime_minutes"])) for row, value in values.items()]


def verdicts(claim: dict, tables: dict, model: str) -> list[dict]:
    """The lines of one claim: its check on the paper's own numbers, and on ours."""
    if "reason" in claim:
        return [line(claim["place"], claim["says"], DASH, None, model, DASH, UNMEASURED, claim["reason"], "", CLAIM)]
    if "curve" in claim:
        return [of_curve(claim, dataset, model) for dataset in claim["data"]]
    lines, label = [], claim["table"]
    theirs, ours, model, guessed = tables[label]
    known = {row for _, row, _ in theirs}
    for dataset in claim["data"]:
        mine = of_column({place: cell.value for place, cell in ours.items()}, dataset, claim["column"], known)
        printed_values = of_column({place: cell["value"] for place, cell in theirs.items()}, dataset, claim["column"], known)
        rows_needed = needed(claim["expect"], list(printed_values))
        said = holds(claim["expect"], printed_values) if rows_needed <= set(printed_values) else None
        missing = sorted(rows_needed - set(mine))
        verdict = UNMEASURED if missing else REPRODUCED if holds(claim["expect"], mine) else DIFFERENT
        why = unmeasured(label, dataset, claim["column"], ", ".join(missing), guessed)
        subject = next((given for given in next(iter(claim["expect"].values())) if given in known), "REVS")
        in_its_table = {True: "holds in its table", False: "does not hold in its own table", None: DASH}[said]
        lines.append(line(claim["place"], f"{dataset}: {claim['says']}", in_its_table, ours.get((dataset, subject, claim["column"])), model, check(claim, dataset), verdict, why, PAGES[label], CLAIM))
    return lines


def of_curve(claim: dict, dataset: str, model: str) -> dict:
    """The line of a claim about a picture or a test: what the rows of the model say; the paper prints no numbers to check it on."""
    (kind, given), = claim["curve"].items()
    given = given if isinstance(given, list) else [given]
    judge, page, missing = CURVES[kind]
    told = judge(model, DATA[dataset], *given)
    verdict = UNMEASURED if told is None else REPRODUCED if told[0] else DIFFERENT
    ours = None if told is None else Told(told[1], tuple(told[2]))
    return line(claim["place"], f"{dataset}: {claim['says']}", DASH, ours, model, f"{kind}: {', '.join(map(str, given))}{late(claim, dataset)}", verdict, missing or f"no recorded runs on {dataset} yet" + GPTJ * ("GPT-J" in claim["place"]), page, CLAIM)


def late(claim: dict, dataset: str) -> str:
    """A rule that was written down after rows that it judges says so."""
    return " (a rule that is younger than the rows)" if dataset in claim.get("late", ()) else ""


def check(claim: dict, dataset: str = "") -> str:
    """A claim's check in a few words."""
    (kind, given), = claim["expect"].items()
    words = {"first": "{0} first", "place": "{0} among the first {1}", "at_least": "{0} at least {1}", "at_most": "{0} at most {1}", "times": "{0} at least {2} × {1}", "near": "within {0} points of unedited"}
    text = words[kind].format(*given) if kind in words else f"{given[0]} above {', '.join(given[1:])}"
    return f"{claim['column']}: {text}{late(claim, dataset)}"


def unmeasured(label: str, dataset: str, column: str, row: str, guessed: set[tuple[str, str]]) -> str:
    """Why there is no number of ours."""
    if label == PII:
        return "a count of The Pile's subset, which is not at hand (`make pile`); ours, of other texts, is on the page"
    if column in abilities.BENCHMARKS.values():
        return "the unedited model is no better than chance at it, so that it has nothing to lose" if (DATA[dataset], column) in guessed else f"{column} is not recorded yet (`make integrity`)"
    return f"no recorded run of {row} on {dataset} yet" + GPTJ * label.endswith("_gptj")


def line(where: str, what: str, theirs: str, ours: Ours | Told | None, model: str, expected: str, verdict: str, reason: str, page: str, kind: str, doubt: str = "") -> dict:
    """One line of the ledger; ``doubt`` is why its printed number cannot be right."""
    behind = ", ".join(ours.rows) if ours else ""
    interval = DASH if not isinstance(ours, Ours) or ours.interval is None or ours.interval[0] == ours.interval[1] else " to ".join(f"{100 * end:.1f}" for end in ours.interval)
    return {"kind": kind, "where": where, "what": what, "paper": theirs, "ours": str(ours) if ours else DASH, "interval": interval, "on": results.title(model) if ours else DASH, "expected": expected, "verdict": verdict, "why": reason if verdict in (UNMEASURED, NOTHING_DONE) else "", "doubt": doubt, "page": page, "rows": behind}


def summary(frame: pd.DataFrame) -> dict[str, int]:
    """How many lines have each verdict; what cannot be right as printed is not counted."""
    counts = frame.loc[frame["doubt"] == "", "verdict"].value_counts()
    return {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS}


def counted(frame: pd.DataFrame) -> str:
    """The same in words."""
    doubtful = int((frame["doubt"] != "").sum())
    return ", ".join(f"{value} {name}" for name, value in summary(frame).items()) + (f"; {doubtful} more cannot be right as printed and are not counted" if doubtful else "")


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The ledger's columns as a page shows them: the reason beside what was expected; ``rows`` is for the data only, ``behind`` the address of those rows."""
    return pd.DataFrame({
        "where": frame["where"], "what": frame["what"], "paper": frame["paper"], "ours": frame["ours"], "interval": frame["interval"], "on": frame["on"], "expected": frame["expected"],
        "verdict": frame["verdict"], "doubtful as printed": frame["doubt"], "why": frame["why"], "page": [f"{page}.html" if page else "" for page in frame["page"]], "rows": frame["rows"],
        "behind": [showing("provenance", "tab-rows", names.split(", ")) if names else "" for names in frame["rows"]],
    })  # fmt: skip
