"""The ledger: every printed number of the paper's result tables and every claim of its prose, with ours and a verdict.

``params/claims.yml`` holds the tolerance and the claims' checks. Nothing is judged by hand: a verdict is what the check
says of our rows. Ours are of another model than the paper's, and each line says of which.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd
import yaml
from scipy.stats import spearmanr

from companion.ledger import checks
from companion.pages import (
    abilities,
    ablations,
    errata,
    extraction,
    organic,
    paper,
    results,
    statistics,
    tradeoffs,
)
from companion.pages.tables import DASH, showing
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
DATA = {"SSN": "ssn", "Emails": "emails", "URLs": "urls"}
TWINS = {
    label: other
    for model in paper.CORE
    for label, other in (
        (paper.CORE[model], paper.EXTRACTION[model]),
        (paper.EXTRACTION[model], paper.CORE[model]),
    )
}  # of one model, data and rows
PII = "tab:pii-distribution"
PAGES = {
    **dict.fromkeys(paper.CORE.values(), "core"),
    **dict.fromkeys(paper.EXTRACTION.values(), "extraction"),
    "tab:ablation_neuron_selection": "neurons",
    "tab:method_results": "zeroing",
    "tab:ablation_token_method": "tokens",
    PII: "organic",
}
THE_METHOD = (
    "REVS",
    "Rank & Activations (hybrid)",
    "Rarest",
)  # what tables of results, of neurons and of tokens call the method itself
CURVES = {
    "significant": (
        statistics.significant,
        "core",
        "fewer than six seeds are recorded, and no p can be below 0.05",
    ),
    "public": (organic.public, "organic", "no recorded run of these secrets yet (`make organic`)"),
}
CURVES |= {
    kind: (getattr(tradeoffs, kind), page, "")
    for page, kinds in {
        "extraction": ("weakest",),
        "tradeoffs": (
            "above",
            "begins",
            "declines",
            "dominates",
            "keeps",
            "leads",
            "reaches",
            "stays",
            "steadier",
        ),
    }.items()
    for kind in kinds
}
CURVES |= {
    kind: (getattr(checks, kind), page, "")
    for page, kinds in {"core": ("small",), "tradeoffs": ("costs", "narrower", "traded")}.items()
    for kind in kinds
}
ABLATIONS = {label: entries for label, entries in ablations.ALL.values()}
GPTJ = " (`make gptj-tune adopt`, then `make gptj adopt`)"
ORGANIC = " (`make organic`, then `make adopt`; its page says what takes more memory than there is)"
LATE = " (a rule that is younger than the rows)"
SEVERAL = {
    "far",
    "groups",
    "linked",
    "opposed",
    "paid",
    "superior",
}  # checks that no row's number stands for
FEW = 3  # methods, of which a rank correlation says something
NORMAL = 1.96  # standard errors to either side that hold 95 per cent
Place = tuple[str, str, str]  # data set, row, column, in the paper's words


@dataclass(frozen=True, eq=False)
class Judge:
    """Whose rows decide: a model, its data set for each of the paper's, and whether its secrets are synthetic or organic."""

    model: str
    data: dict[str, str]
    secrets: str

    def __str__(self) -> str:
        return f"{results.title(self.model)}, {self.secrets}"

    @property
    def command(self) -> str:
        """How rows of it are made, where the page of the table does not say so."""
        return (
            ORGANIC if self.secrets == "organic" else GPTJ if self.model.startswith("gptj") else ""
        )


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


@functools.cache
def terms() -> dict:
    """params/claims.yml. Read once and shared: do not change it."""
    return yaml.safe_load((ROOT / "params" / "claims.yml").read_text(encoding="utf-8"))


def printed(label: str) -> dict[Place, dict]:
    """A table's cells that hold a number."""
    return {
        (*place, column): cell
        for place, cells in errata.lines(label).items()
        for column, cell in cells.items()
    }


def measured(
    label: str,
    model: str,
    guessed: set[tuple[str, str]] = frozenset(),
    names: dict[str, str] = DATA,
) -> dict[Place, Ours]:
    """Our numbers in the places of a table, where there are rows; not those of columns, by data set, that the model has guessed."""
    found: dict[Place, Ours] = {}
    if label == PII:  # counts of other texts
        return found
    for dataset, data in names.items():
        if label in ABLATIONS:
            found |= of_ablation(label, dataset, data, model)
            continue
        try:
            frame = results.runs(model, data)
        except ValueError:  # no rows of this data set
            continue
        attacked = label in paper.EXTRACTION.values()
        ours, columns = (
            (extraction.means(frame, "released"), extraction.PAPER_COLUMNS)
            if attacked
            else (results.means(frame), results.PAPER_COLUMNS)
        )
        for name, values in ours.items():
            done = list(results.finished(frame, name))
            sure = {} if attacked else statistics.intervals(done)
            for metric, column in columns.items():
                mean, std = values[metric]
                if done and not math.isnan(mean):
                    found[dataset, methods.registry()[name]["title"], column] = Ours(
                        100 * mean, 100 * std, tuple(row["name"] for row in done), sure.get(metric)
                    )
        for name, row in ({} if attacked else abilities.runs(model, data)).items():
            for benchmark, column in abilities.BENCHMARKS.items():
                if (data, column) in guessed:
                    continue
                accuracy, items = (
                    row["result"]["integrity"][benchmark][part] for part in ("accuracy", "items")
                )
                spread = NORMAL * abilities.error(accuracy, items)
                found[dataset, methods.registry()[name]["title"], column] = Ours(
                    100 * accuracy, math.nan, (row["name"],), (accuracy - spread, accuracy + spread)
                )
    return found


def of_ablation(label: str, dataset: str, data: str, model: str) -> dict[Place, Ours]:
    """Our numbers of an ablation on one data set, seed 0, and of the model before, which the paper's tables of ablations leave out."""
    try:
        frame = ablations.scores(model, data)
    except ValueError:
        return {}
    found = {}
    for tag, _, row in ABLATIONS[label]:
        if tag in frame.index:
            run = frame.loc[tag]
            sure = statistics.intervals([run["row"]])
            before = results.numbers(run["row"]["result"]["before"])
            for metric, column in results.PAPER_COLUMNS.items():
                found[dataset, row, column] = Ours(
                    float(run[metric]), math.nan, (run["name"],), sure.get(metric)
                )
                found[dataset, "Unedited", column] = Ours(
                    100 * before[metric], math.nan, (run["name"],)
                )
            if "attacks" in run["row"]["result"]:
                found[dataset, row, "Resistance Score"] = Ours(
                    100 * run["row"]["result"]["attacks"]["resistance_score"]["released"],
                    math.nan,
                    (run["name"],),
                )
    return found


# --- verdicts --------------------------------------------------------------------------------------------------------


def number(
    place: Place, theirs: dict[Place, float], ours: dict[Place, float], tolerance: float
) -> str:
    """The verdict on one printed number."""
    if place not in ours:
        return UNMEASURED
    dataset, row, column = place
    if abs(ours[place] - theirs[place]) <= tolerance:
        return (
            NOTHING_DONE
            if abs(ours.get((dataset, "Unedited", column), math.inf) - theirs[place]) <= tolerance
            else REPRODUCED
        )
    others = [
        (dataset, other, column)
        for _, other, _ in theirs
        if other not in (row, "Unedited")
        and (dataset, other, column) in theirs
        and (dataset, other, column) in ours
    ]
    revs = [other for other in others if other[1] in THE_METHOD]
    against = revs or others
    if not against or row == "Unedited":
        return DIFFERENT
    sides = [
        side(values[place] - max(values[other] for other in against)) for values in (theirs, ours)
    ]
    return DIRECTION if sides[0] == sides[1] else DIFFERENT


def side(difference: float) -> int:
    return (difference > 0) - (difference < 0)


def named(expect: dict) -> set[str]:
    """The rows that a check cannot do without."""
    ((kind, given),) = expect.items()
    rows_of = {
        "times": given[:2],
        "ahead": given,
        "groups": [row for group in given for row in group] if kind == "groups" else (),
        "near": ["Unedited"],
        "linked": (),
        "opposed": (),
        "far": given[1] if kind == "far" else (),
    }
    return set(rows_of.get(kind, given[:1]))


def needed(expect: dict, every: Collection[str]) -> set[str]:
    """The rows without which a check cannot be confirmed; ``every`` are those that the paper prints in its columns."""
    ((kind, given),) = expect.items()
    others = (
        {row for row in every if row != "Unedited"}
        if kind in ("first", "place", "close", "ahead", "paid", "superior") or "all" in given
        else set(given[2])
        if kind == "far"
        else {row for row in given if isinstance(row, str)}
    )
    return named(expect) | others


def judged(expect: dict, values: dict, every: Collection[str]) -> bool | None:
    """Does a check hold? None where a row is missing that could still decide it: what some methods refute, more of them cannot confirm."""
    if not named(expect) <= set(values) or (
        set(expect) & {"linked", "opposed"} and len(set(values) - {"Unedited"}) < FEW
    ):
        return None
    verdict = holds(expect, values)
    return None if verdict and needed(expect, every) - set(values) else verdict


def holds(expect: dict, values: dict) -> bool:
    """Does a check hold of the values of a column, by row; or of several columns, where it is about those? Rows that are not there are passed over."""
    ((kind, given),) = expect.items()
    of_methods = {row: value for row, value in values.items() if row != "Unedited"}
    if kind == "at_least":
        return values[given[0]] >= given[1]
    if kind == "at_most":
        return values[given[0]] <= given[1]
    if kind in ("first", "place", "close"):
        above = sum(value > values[given[0]] for value in of_methods.values())
        return above < (given[1] if given[1:] else 1) and (
            kind != "close" or max(of_methods.values()) - values[given[0]] <= given[2]
        )
    if kind == "ahead":
        return all(
            values[row] > value
            for row in given
            for other, value in of_methods.items()
            if other not in given
        )
    if kind == "above":
        return all(values[given[0]] > values[other] for other in given[1:] if other in values)
    if kind == "far":
        return all(lead >= given[0] for lead, _ in leads(given, values))
    if kind == "times":
        return values[given[0]] >= given[2] * values[given[1]]
    if kind == "near":
        return all(
            abs(values[row] - values["Unedited"]) <= given[0]
            for row in (of_methods if given[1:] == ["all"] else given[1:])
            if row in values
        )
    if kind == "groups":
        one, other = means_of(given, values)
        return one > other
    if kind in ("linked", "opposed"):
        return (
            correlation(of_methods) >= given[0]
            if kind == "linked"
            else correlation(of_methods) < given[0]
        )
    if kind == "paid":
        return not unpaid(given[0], of_methods)
    if kind == "superior":
        return len(columns_won(given[0], of_methods)) >= len(values[given[0]]) - given[1]
    raise ValueError(
        f"'{kind}' is not a check: use first, place, close, ahead, above, far, at_least, at_most, times, near, groups, linked, opposed, paid or superior."
    )


def correlation(of_methods: dict[str, tuple[float, float]]) -> float:
    """Spearman's ρ of two columns over methods; 0 where one has no order."""
    columns = list(zip(*of_methods.values()))
    return (
        float(spearmanr(*columns).statistic)
        if all(len(set(column)) > 1 for column in columns)
        else 0.0
    )


def means_of(groups: list[list[str]], values: dict[str, float]) -> list[float]:
    """The mean of each group of rows."""
    return [sum(values[row] for row in group) / len(group) for group in groups]


def leads(given: list, values: dict[str, float]) -> list[tuple[float, str]]:
    """By how much each of some rows is above each of others, or above all other methods, the least first."""
    others = (
        [row for row in values if row not in (*given[1], "Unedited")]
        if given[2] == "all"
        else given[2]
    )
    return sorted(
        (values[row] - values[other], f"{row} over {other}")
        for row in given[1]
        for other in others
        if {row, other} <= set(values)
    )


def unpaid(one: str, of_methods: dict[str, tuple[float, float]]) -> list[str]:
    """The rows that are higher than one in the first of two columns, and not lower in the second."""
    return [
        row
        for row, (first, second) in of_methods.items()
        if first > of_methods[one][0] and second >= of_methods[one][1]
    ]


def columns_won(one: str, of_methods: dict[str, tuple[float, ...]]) -> list[int]:
    """In which columns a row is the highest."""
    return [
        number
        for number, value in enumerate(of_methods[one])
        if value >= max(values[number] for values in of_methods.values())
    ]


def counted_out(expect: dict, values: dict) -> str:
    """What a check that is about more than one row's number comes to; empty for the others."""
    ((kind, given),) = expect.items()
    of_methods = {row: value for row, value in values.items() if row != "Unedited"}
    if kind in ("linked", "opposed"):
        return f"ρ = {correlation(of_methods):.2f} over {len(of_methods)} methods"
    if kind == "far":
        return ", ".join(f"{of} {lead:+.1f}" for lead, of in leads(given, values)[:1]) + (
            ", the least" if len(given[1]) > 1 or given[2] == "all" else ""
        )
    if kind == "groups":
        return "{:.1f} against {:.1f}".format(*means_of(given, values))
    if kind == "paid":
        return f"higher in both: {', '.join(unpaid(given[0], of_methods)) or 'none'}"
    return (
        f"first in {len(columns_won(given[0], of_methods))} of {len(values[given[0]])} columns"
        if kind == "superior"
        else ""
    )


def of_columns(
    cells: dict[Place, float], dataset: str, columns: Sequence[str], rows_of: set[str]
) -> dict:
    """The values of a column by row, or of several, as tuples; of the rows that the paper has and that have all of them."""
    found = {
        row: tuple(cells[dataset, row, column] for column in columns)
        for row in sorted(rows_of)
        if all((dataset, row, column) in cells for column in columns)
    }
    return found if len(columns) > 1 else {row: values[0] for row, values in found.items()}


# --- the ledger ------------------------------------------------------------------------------------------------------


def ledger(model: str, gptj: str = "gptj-small") -> pd.DataFrame:
    """One line for each printed number and each claim (a claim about several data sets has one for each).

    The tables of results with GPT-J are judged by runs of ``gptj`` alone, the ablations and everything else by those of
    ``model``. What the paper says of e-mails and URLs, which its models had memorised by themselves, is judged by our
    synthetic ones and, in a line of its own, by those that a model here had memorised by itself.
    """
    rules = terms()
    synthetic, small, natural = (
        Judge(model, DATA, "synthetic"),
        Judge(gptj, DATA, "synthetic"),
        Judge(rules["organic"]["model"], rules["organic"]["data"], "organic"),
    )
    guessed = {
        judge: abilities.guessed(judge.model, judge.data.values())
        for judge in (synthetic, small, natural)
    }
    judges = {
        label: (small,)
        if label.endswith("_gptj")
        else (synthetic, natural)
        if label in TWINS
        else (synthetic,)
        for label in PAGES
    }
    doubts = errata.doubtful()
    theirs = {
        label: {
            place: cell | {"doubt": doubts.get((label, *place), "")}
            for place, cell in printed(label).items()
        }
        for label in PAGES
    }
    tables = {
        (label, judge): (
            theirs[label],
            measured(label, judge.model, guessed[judge], judge.data),
            guessed[judge],
        )
        for label, some in judges.items()
        for judge in some
    }
    lines = [
        line
        for (label, judge), of_table in tables.items()
        if judge is not natural
        for line in numbers(label, *of_table, judge, rules["numbers"]["tolerance"])
    ]
    for claim in rules["claims"]:
        both = (
            (synthetic,)
            if claim.get("table") in ABLATIONS or "reason" in claim
            else (synthetic, natural)
        )
        for judge in (
            (small,)
            if "GPT-J" in claim["place"]
            else (natural,)
            if claim.get("secrets") == "organic"
            else both
        ):
            lines += verdicts(claim, judge, tables)
    return pd.DataFrame(lines + hardware())


def numbers(
    label: str,
    theirs: dict[Place, dict],
    ours: dict[Place, Ours],
    guessed: set[tuple[str, str]],
    judge: Judge,
    tolerance: float,
) -> list[dict]:
    """The lines of one table's cells. An ablation that is not recorded on the paper's data set is not judged by another's."""
    their_values, our_values = (
        {place: cell["value"] for place, cell in theirs.items()},
        {place: cell.value for place, cell in ours.items()},
    )
    lines = []
    for place, cell in theirs.items():
        dataset, row, column = place
        verdict = number(place, their_values, our_values, tolerance)
        expected = DASH if label == PII else f"within {tolerance} points"
        why = ""
        if verdict == UNMEASURED:
            why = unmeasured(label, dataset, column, row, guessed, judge)
        elif verdict == NOTHING_DONE or (
            verdict == DIRECTION and idle(place, our_values, tolerance)
        ):
            why = over_unedited(place, their_values, our_values)
        lines.append(
            line(
                f"`{label}`",
                f"{f'{dataset}, ' if dataset else ''}{row}: {column}",
                cell["printed"],
                ours.get(place),
                judge if place in ours else None,
                expected,
                verdict,
                why,
                page_of(label, column),
                NUMBER,
                cell["doubt"],
            )
        )
    return lines


def idle(place: Place, ours: dict[Place, float], tolerance: float) -> bool:
    """Is our number of a method next to that of our unedited model?"""
    dataset, row, column = place
    return (
        row != "Unedited"
        and abs(ours[place] - ours.get((dataset, "Unedited", column), math.inf)) <= tolerance
    )


def over_unedited(place: Place, theirs: dict[Place, float], ours: dict[Place, float]) -> str:
    """How far a number is above the unedited model's, here and, where it prints that, in the paper; empty for the unedited model itself."""
    dataset, row, column = place
    before = (dataset, "Unedited", column)
    if row == "Unedited":
        return ""
    return (
        "over unedited: "
        + (f"{theirs[place] - theirs[before]:+.1f} in the paper, " if before in theirs else "")
        + f"{ours[place] - ours[before]:+.1f} here"
    )


def hardware() -> list[dict]:
    """The lines of the GPUs and minutes that the Appendix prints: of its machine, and of REVS before its closed form."""
    of_paper, lines = paper.tables()["hardware"], []
    for what, column, why in (
        (
            "GPUs",
            "gpus",
            "a number of the paper's GPUs; extra memory here, on a processor, is on the page of costs",
        ),
        (
            "minutes",
            "runtime_minutes",
            "minutes on the paper's GPUs, of REVS as it was released; ours, of its closed form and on a processor, are on the page of costs",
        ),
    ):
        lines += [
            line(
                "App. Hardware",
                f"{of_paper['dataset']}, {row}: {what}",
                str(value),
                None,
                None,
                DASH,
                UNMEASURED,
                why,
                "cost",
                NUMBER,
            )
            for row, value in of_paper[column].items()
        ]
    return lines


def verdicts(claim: dict, judge: Judge, tables: dict) -> list[dict]:
    """The lines of one claim: its check on the paper's own numbers, and on ours."""
    if "reason" in claim:
        return [
            line(
                claim["place"],
                claim["says"],
                DASH,
                None,
                None,
                DASH,
                UNMEASURED,
                claim["reason"],
                "",
                CLAIM,
            )
        ]
    datasets = [dataset for dataset in claim["data"] if dataset in judge.data]
    if "curve" in claim:
        return [of_curve(claim, dataset, judge) for dataset in datasets]
    theirs, ours, guessed = tables[claim["table"], judge]
    if claim["table"] in TWINS:
        theirs, ours = (
            theirs | tables[TWINS[claim["table"]], judge][0],
            ours | tables[TWINS[claim["table"]], judge][1],
        )
    return [of_cells(claim, dataset, judge, theirs, ours, guessed) for dataset in datasets]


def of_cells(
    claim: dict,
    dataset: str,
    judge: Judge,
    theirs: dict[Place, dict],
    ours: dict[Place, Ours],
    guessed: set[tuple[str, str]],
) -> dict:
    """The line of a claim that cells of a table decide."""
    expect, columns = claim["expect"], columns_of(claim)
    in_paper, told_there, printed_values = in_its_table(claim, dataset, theirs)
    mine = of_columns(
        {place: cell.value for place, cell in ours.items()},
        dataset,
        columns,
        {row for _, row, _ in theirs},
    )
    verdict = {True: REPRODUCED, False: DIFFERENT, None: UNMEASURED}[
        judged(expect, mine, printed_values)
    ]
    missing = sorted(
        (needed(expect, printed_values) or set(printed_values) - {"Unedited"}) - set(mine)
    )
    subject = next(
        (
            given
            for given in next(iter(expect.values()))
            if isinstance(given, str) and given in printed_values
        ),
        "REVS",
    )
    found = ours.get((dataset, subject, columns[0]))
    if set(expect) & SEVERAL:
        behind = dict.fromkeys(
            name for row in mine for column in columns for name in ours[dataset, row, column].rows
        )
        found = None if verdict == UNMEASURED else Told(counted_out(expect, mine), tuple(behind))
    why = unmeasured(claim["table"], dataset, columns[0], ", ".join(missing), guessed, judge)
    if verdict != UNMEASURED and (coarse := too_coarse(claim, dataset, judge)):
        verdict, why = UNMEASURED, coarse
    shown_there = {True: "holds in its table", False: "does not hold in its own table", None: DASH}[
        in_paper
    ] + (f": {told_there}" if told_there else "")
    if in_paper is not None and any(
        theirs[dataset, row, column]["doubt"] for row in named(expect) for column in columns
    ):
        shown_there += ", on numbers that cannot be right"
    return line(
        claim["place"],
        f"{dataset}: {claim['says']}",
        shown_there,
        found,
        judge,
        check(claim) + late(claim, dataset, judge, found),
        verdict,
        why,
        page_of(claim["table"], columns[0]),
        CLAIM,
    )


def too_coarse(claim: dict, dataset: str, judge: Judge) -> str:
    """Why a benchmark cannot tell whether a claim holds: one answer more or less is more than its tolerance. Empty if it can."""
    for benchmark, column in abilities.BENCHMARKS.items():
        if (
            claim.get("column") == column
            and "near" in claim["expect"]
            and (found := abilities.runs(judge.model, judge.data[dataset]))
        ):
            one = 100 / found["unedited"]["result"]["integrity"][benchmark]["items"]
            return (
                f"one answer is {one:.1f} points, more than the tolerance"
                if one > claim["expect"]["near"][0]
                else ""
            )
    return ""


def page_of(label: str, column: str) -> str:
    """The page that has our numbers of a column of a table."""
    return "integrity" if column in abilities.BENCHMARKS.values() else PAGES[label]


def columns_of(claim: dict) -> list[str]:
    """The columns that a claim is about."""
    return claim["columns"] if "columns" in claim else [claim["column"]]


def in_its_table(
    claim: dict, dataset: str, theirs: dict[Place, dict]
) -> tuple[bool | None, str, dict]:
    """Does a claim hold of the paper's own numbers (None: it does not print them all), what it comes to if that is not one row's number, and the numbers by row."""
    values = of_columns(
        {place: cell["value"] for place, cell in theirs.items()},
        dataset,
        columns_of(claim),
        {row for _, row, _ in theirs},
    )
    verdict = judged(claim["expect"], values, values)
    return verdict, "" if verdict is None else counted_out(claim["expect"], values), values


def of_curve(claim: dict, dataset: str, judge: Judge) -> dict:
    """The line of a claim about a picture or a test: what the rows of the model say; the paper prints no numbers to check it on."""
    ((kind, given),) = claim["curve"].items()
    given = given if isinstance(given, list) else [given]
    check_of, page, missing = CURVES[kind]
    told = check_of(judge.model, judge.data[dataset], *given)
    verdict = UNMEASURED if told is None else REPRODUCED if told[0] else DIFFERENT
    ours = None if told is None else Told(told[1], tuple(told[2]))
    return line(
        claim["place"],
        f"{dataset}: {claim['says']}",
        DASH,
        ours,
        judge,
        f"{kind}: {', '.join(map(str, given))}{late(claim, dataset, judge, ours)}",
        verdict,
        missing or f"no recorded runs on {dataset} yet{judge.command}",
        page,
        CLAIM,
    )


def late(claim: dict, dataset: str, judge: Judge, found: object) -> str:
    """A rule that was written down after rows that it judges says so: those on organic secrets all were, but for what is said of benchmarks."""
    return (
        LATE
        if found
        and (
            judge.secrets == "organic"
            and claim.get("column") not in abilities.BENCHMARKS.values()
            or dataset in claim.get("late", ())
        )
        else ""
    )


def check(claim: dict) -> str:
    """A claim's check in a few words."""
    ((kind, given),) = claim["expect"].items()
    words = {
        "first": "{0} first", "place": "{0} among the first {1}", "close": "{0} among the first {1}, at most {2} points behind", "at_least": "{0} at least {1}", "at_most": "{0} at most {1}",
        "times": "{0} at least {2} × {1}", "near": "within {0} points of unedited", "linked": "rank correlation at least {0}", "opposed": "rank correlation below {0}", "paid": "whoever is above {0} in the first is below it in the second", "superior": "{0} first in all but {1}",
    }  # fmt: skip
    if kind in words:
        text = words[kind].format(*given)
    elif kind == "far":
        text = f"{', '.join(given[1])} at least {given[0]} points above {'all others' if given[2] == 'all' else ', '.join(given[2])}"
    elif kind == "groups":
        text = " above ".join(f"the mean of {', '.join(group)}" for group in given)
    else:
        text = (
            f"{' and '.join(given)} above all others"
            if kind == "ahead"
            else f"{given[0]} above {', '.join(given[1:])}"
        )
    return f"{', '.join(columns_of(claim))}: {text}"


def unmeasured(
    label: str, dataset: str, column: str, row: str, guessed: set[tuple[str, str]], judge: Judge
) -> str:
    """Why there is no number of ours."""
    if label == PII:
        return "a count of The Pile's subset, which is not at hand (`make pile`); ours, of other texts, is on the page"
    if column in abilities.BENCHMARKS.values():
        return (
            "the unedited model is no better than chance at it, so that it has nothing to lose"
            if (judge.data[dataset], column) in guessed
            else f"{column} of {row} is not recorded; its page says what was asked of which model"
        )
    return f"no recorded run of {row} on {dataset} yet{judge.command}"


def line(
    where: str,
    what: str,
    theirs: str,
    ours: Ours | Told | None,
    judge: Judge | None,
    expected: str,
    verdict: str,
    reason: str,
    page: str,
    kind: str,
    doubt: str = "",
) -> dict:
    """One line of the ledger; ``doubt`` is why its printed number cannot be right."""
    behind = ", ".join(ours.rows) if ours else ""
    page = "organic" if judge and judge.secrets == "organic" and page != "integrity" else page
    interval = (
        DASH
        if not isinstance(ours, Ours)
        or ours.interval is None
        or ours.interval[0] == ours.interval[1]
        else " to ".join(f"{100 * end:.1f}" for end in ours.interval)
    )
    return {
        "kind": kind,
        "where": where,
        "what": what,
        "paper": theirs,
        "ours": str(ours) if ours else DASH,
        "interval": interval,
        "on": str(judge) if judge else DASH,
        "seeds": of_seeds(ours.rows) if ours else "",
        "expected": expected,
        "verdict": verdict,
        "why": reason if verdict in (UNMEASURED, NOTHING_DONE, DIRECTION) else "",
        "doubt": doubt,
        "page": page,
        "rows": behind,
    }


def of_seeds(names: Sequence[str]) -> str:
    """How many seeds the rows are of: of one, chance may have decided."""
    seeds = {seed for name in names for seed in re.findall(r"-seed(\d+)", name)}
    return f"{len(seeds)} seed" + ("s" if len(seeds) > 1 else "")


def against_the_paper() -> pd.DataFrame:
    """Claims of the paper's prose that do not hold of the numbers which it prints, and those numbers."""
    found = []
    for claim in (claim for claim in terms()["claims"] if "expect" in claim):
        theirs = printed(claim["table"]) | (
            printed(TWINS[claim["table"]]) if claim["table"] in TWINS else {}
        )
        for dataset in claim["data"]:
            holds_there, said, values = in_its_table(claim, dataset, theirs)
            if holds_there is False:
                rows_of = sorted(
                    needed(claim["expect"], values) & set(values),
                    key=lambda row: (-values[row], row),
                )  # equal ones in the same order each time
                found.append(
                    {
                        "where": claim["place"],
                        "the text": f"{dataset}: {claim['says']}",
                        "looked at": check(claim),
                        "printed": said or ", ".join(f"{row} {values[row]:g}" for row in rows_of),
                    }
                )
    return pd.DataFrame(found)


def summary(frame: pd.DataFrame) -> dict[str, int]:
    """How many lines have each verdict; what cannot be right as printed is not counted."""
    counts = frame.loc[frame["doubt"] == "", "verdict"].value_counts()
    return {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS}


def younger(frame: pd.DataFrame) -> str:
    """How many of the judged claims have a rule that was there before the rows."""
    judged = frame[(frame["kind"] == CLAIM) & (frame["verdict"] != UNMEASURED)]
    late_ones = int(judged["expected"].str.endswith(LATE).sum())
    return f"Of the {len(judged)} claims that are judged, the rule of {len(judged) - late_ones} is older than all their rows, that of {late_ones} is younger than some of them."


def unmoved(frame: pd.DataFrame) -> str:
    """How many of the numbers counted as in the same direction are next to those of our unedited model; empty if none is."""
    same = frame[(frame["verdict"] == DIRECTION) & (frame["doubt"] == "")]
    still = int(same["why"].ne("").sum())
    return (
        f"Of the {len(same)} numbers in the same direction, {still} are within the tolerance of those of our unedited model: there the method changed next to nothing, and the number of REVS alone decides the side."
        if still
        else ""
    )


def counted(frame: pd.DataFrame) -> str:
    """The same in words."""
    doubtful = int((frame["doubt"] != "").sum())
    return ", ".join(f"{value} {name}" for name, value in summary(frame).items() if value) + (
        f"; {doubtful} more cannot be right as printed and are not counted" if doubtful else ""
    )


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The ledger's columns as a page shows them: the reason beside what was expected; ``rows`` is for the data only, ``behind`` the address of those rows."""
    return pd.DataFrame({
        "where": frame["where"], "what": frame["what"], "paper": frame["paper"], "ours": frame["ours"], "interval": frame["interval"], "on": [", ".join(filter(None, of_whom)) for of_whom in zip(frame["on"], frame["seeds"])], "expected": frame["expected"],
        "verdict": frame["verdict"], "doubtful as printed": frame["doubt"], "why": frame["why"], "page": [f"{page}.html" if page else "" for page in frame["page"]], "rows": frame["rows"],
        "behind": [showing("provenance", "tab-rows", names.split(", ")) if names else "" for names in frame["rows"]],
    })  # fmt: skip
