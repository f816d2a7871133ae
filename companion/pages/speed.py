"""How fast: the benchmark's rows as the page shows them, beside the goals that were set before they were measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import mean, median
from typing import NamedTuple

import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes

from companion.pages import ablations, figures, paper, results
from companion.pages.tables import DASH, METRICS, percent
from companion.record import rows
from companion.record.paths import ROOT
from companion.runs import bench, methods, operations

NOT_YET, UNCHECKED, PREDICTED = "not measured yet", "not checked yet", "predicted"
PARTS = {  # colour and hatching
    "forward": ("#8c8c8c", ""),
    "direction": ("#56b4e9", "//"),
    "gate": ("#e69f00", ".."),
    "candidates": ("#0072b2", ""),
    "selection": ("#009e73", "xx"),
    "edit": ("#d55e00", "\\\\"),
    "once": ("#cc79a7", "--"),
}
OTHER = "emails"  # the data set that stands beside the first, with other settings
FLOORS = {
    "floor": "tuned",
    "floor-n100": "a hundred neurons",
    "floor-paper": "the paper's",
}  # whose settings, by measurement
SHAPE, MACHINE, SECRETS = (
    "llama-3-8b",
    "h200",
    50,
)  # whose time is predicted, on what, and for how many secrets of two tokens
PAPERS = "rtx-6000-ada"  # the paper's GPU
ORDER = "order"  # the tag of runs in both orders
LINEAR = 1.05  # an exponent that still counts as linear: a per cent of noise must not decide
PRECISIONS = {
    dtype: f"precision-{dtype}" for dtype in ("float32", "bfloat16")
}  # the tags of runs in both
HOLDS = 5.0  # points that a score may lose in low precision and still hold: about as much as seeds differ


class Reading(NamedTuple):
    """A goal's measured value, what stands behind it, and whether what it takes for granted holds; None if that is not known yet."""

    value: float
    behind: str
    holds: bool | None = True


class Goal(NamedTuple):
    """One line of the table: what is measured, what was wanted, the measurement that decides it, and how its row is read."""

    title: str
    sign: str
    bound: float
    what: str
    read: Callable[[str, str], Reading | None]

    def met(self, value: float) -> bool:
        return {"≥": value >= self.bound, "≤": value <= self.bound, "<": value < self.bound}[
            self.sign
        ]

    def verdict(self, reading: Reading | None) -> str:
        """Met or not, and whether that is only predicted."""
        if reading is None:
            return NOT_YET
        said = (
            "not met"
            if not self.met(reading.value) or reading.holds is False
            else "met"
            if reading.holds
            else UNCHECKED
        )
        return said + (f", {PREDICTED}" if reading.behind.startswith(PREDICTED) else "")


# --- rows ----------------------------------------------------------------------------------------------------------------


def row(what: str, model: str, data: str) -> dict | None:
    """The row of a measurement, if it has been made."""
    return rows.find(kind="bench").get(f"bench/{data}/{model}/{what}")


def asked() -> dict[str, tuple[str, dict[str, list]]]:
    """Every measurement of this page by what it measures and its tag: the command that makes the first of it, and what is varied after that, from the profiles that name it."""
    found = {}
    for profile, notebooks in (("paper", ["bench"]), ("bench", ["bench", "unlearn"])):
        for run in yaml.safe_load((ROOT / "params" / f"{profile}.yml").read_text(encoding="utf-8"))[
            "runs"
        ]:
            if run["notebook"] in notebooks:
                over = run.get("over", {})
                settings = run["parameters"] | {name: values[0] for name, values in over.items()}
                key = (
                    SHAPE
                    if settings.get("model") == SHAPE
                    else "-".join(settings[name] for name in ("what", "tag") if name in settings)
                )
                found[key] = (
                    f"python -m companion.runs.{run['notebook']} "
                    + " ".join(f"--{name} {word(value)}" for name, value in settings.items()),
                    over,
                )
    return found


def commands() -> dict[str, str]:
    """How each measurement is made by itself."""
    return {key: command for key, (command, _) in asked().items()}


def word(value) -> str:
    """A setting as a shell takes it."""
    return (
        f"'{json.dumps(value)}'"
        if isinstance(value, (dict, list))
        else json.dumps(value).strip('"')
    )


def machine(model: str) -> str:
    """On what the benchmark of a model was measured; how to measure it if it was not."""
    found = [
        one
        for one in rows.find(kind="bench").values()
        if one["provenance"]["model"]["name"] == model
        and one["name"].endswith(one["result"]["what"])
    ]
    if not found:
        return "Nothing of it is measured here yet: `make bench adopt` does that, on a machine that does nothing else meanwhile."
    hardware = found[0]["provenance"]["hardware"]
    return f"Measured on {hardware['gpu'] or hardware['cpu']}, {hardware['threads']} threads, {found[0]['provenance']['model']['dtype']}; every time is the median of {found[0]['result']['repeats']} rounds in which all that is compared had its turn, where no other number is shown."


def outdated(model: str) -> str:
    """Which of a model's measurements, and of those on random weights, are of code that has changed since; empty if none is."""
    found = {
        name.removeprefix("bench/"): one
        for name, one in rows.find(kind="bench").items()
        if one["provenance"]["model"]["name"] == model or name.startswith(f"bench/{bench.RANDOM}/")
    }
    dates: dict[str, list[str]] = {}
    for name, one in found.items():
        if rows.stale(one):
            dates.setdefault(one["provenance"]["when"], []).append(f"`{name}`")
    return " ".join(
        f"Measured {when} with the code of that date, which has changed since: {', '.join(names)}."
        for when, names in sorted(dates.items())
    )


def one_run(found: dict) -> pd.DataFrame:
    """The times of one measurement, way by way; of many targets, a way is their number."""
    result = found["result"]
    most = max(map(int, result["timings"])) if result["what"] == "targets" else 0
    tokens = {
        way: result["tokens"] * int(way) / most if most else result["tokens"]
        for way in result["timings"]
    }
    return pd.DataFrame([
        {"way": way, "median, s": f"{result['medians'][way]:.3f}", "each round, s": ", ".join(f"{seconds:.3f}" for seconds in each), "median a token, s": f"{result['medians'][way] / tokens[way]:.4f}"}
        for way, each in result["timings"].items()
    ])  # fmt: skip


def one_run_parts(found: dict) -> str:
    """Where the time of one measurement goes, if it was watched."""
    if found["result"]["what"] == "attacks":
        return f"Where the time goes: {shares(found)}."
    parts = found["result"].get("parts", {})
    each = ", ".join(
        f"{part} {100 * seconds / sum(parts.values()):.0f}"
        for part, seconds in sorted(parts.items(), key=lambda pair: -pair[1])
    )
    return (
        f"Where the time of REVS goes, in per cent: {each}."
        if parts
        else "The parts of this measurement were not timed one by one."
    )


# --- goals ---------------------------------------------------------------------------------------------------------------


def token(model: str, data: str) -> Reading | None:
    if not (found := row("token", model, data)):
        return None
    n, took, ranks = found["result"]["tokens"], found["result"]["medians"], found["result"]["ranks"]
    lower = sum(a >= b for a, b in zip(ranks[bench.LOWER], ranks["released"]))
    return Reading(
        took["released"] / took[bench.LOWER],
        f"the released procedure takes {took['released'] / n:.1f} s for a token, ours {took[bench.LOWER] / n:.2f} s with {'the same margins, which bring' if same_margins(found) else 'larger margins, which bring'} {lower} of {n} tokens at least as low in the model's output"
        + ("" if same_margins(found) else f" ({took['ours'] / n:.2f} s with the same margins)"),
        lower == n,
    )


def same_margins(found: dict) -> bool:
    """Was no larger margin needed to bring every token as low as the released procedure did?"""
    items = rows.items(found)
    return bool(
        (items.loc[items["way"] == bench.LOWER, "margin"] == found["result"]["margin"]).all()
    )


def released_counts(model: str, data: str) -> str:
    """What the released procedure did for a token, and where the target ranks after it and after ours; empty without the row."""
    if not (found := row("token", model, data)):
        return ""
    result, n = found["result"], found["result"]["tokens"]
    counts, once, ranks = (
        {name: value / n for name, value in result["counts"].items()},
        result["once"],
        result["ranks"],
    )
    items = rows.items(found)
    columns = {
        way: items.loc[items["way"] == way, "columns"].median() for way in ("released", "ours")
    }
    return (
        f"For one token the released procedure made {counts['forwards']:.0f} passes and edited {counts['layers']:.0f} layers; it tried {counts['trials']:.0f} numbers of neurons in {counts['steps']:,.0f} steps of Alg. 2, "
        f"with {counts['projections']:,.0f} vectors through $U$ and {counts['returns']:,.0f} back. It ends with {columns['released']:.0f} columns moved, ours with {columns['ours']:.0f} (medians): its search for their number stops where a number comes up again. "
        f"In the model's output the tokens then rank {', '.join(f'{r:,}' for r in ranks['released'])} after it and {', '.join(f'{r:,}' for r in ranks['ours'])} after ours. The margin, {result['margin']:,} here, is one for layers: those whose FF₂ does not itself promote the token are left as they are in both, and the output is the sum of all. "
        f"What is made once for a model is not in these times: {once['released']:.1f} s for $U^\\dagger$, {once['ours']:.1f} s for the Gram factor. {of_authors(result['medians']['released'] / n)}"
    )


def of_authors(ours: float) -> str:
    """What was measured of the authors' own code, beside the seconds a token of our rendering."""
    known = yaml.safe_load((ROOT / "params" / "released.yml").read_text(encoding="utf-8"))
    return f"The authors' own code takes {known['seconds'][0]} to {known['seconds'][1]} s a token, in {known['dtype']} with k = {known['k']} and n_max = {known['n_max']} ({known['source']}); our rendering {ours:.1f} s."


def of_both(read: Callable[[str, str], Reading | None], model: str, data: str) -> Reading | None:
    """A goal's reading on a data set and on the other one: the larger value, with what stands behind each."""
    found = {of: read(model, of) for of in dict.fromkeys((data, OTHER))}
    there = [reading for reading in found.values() if reading]
    if not there:
        return None
    return Reading(
        max(reading.value for reading in there),
        "; ".join(
            f"{methods.data_title(of)}: {reading.behind if reading else NOT_YET}"
            for of, reading in found.items()
        ),
        True if all(found.values()) else None,
    )


def floor(model: str, data: str) -> Reading | None:
    if not (found := row("floor", model, data)):
        return None
    result = found["result"]
    took, n = result["medians"], result["tokens"]
    return Reading(
        took["ours"] / took["floor"],
        f"a token takes {took['ours'] / n:.2f} s, as long as {took['ours'] / took['forward']:.1f} forward passes of {took['forward'] / n:.3f} s, with {result['work']['layers'] / n:.1f} of {result['shape']['layers']} layers edited",
    )


def floors(model: str, data: str) -> pd.DataFrame:
    """A token beside its floor and beside a pass alone, wherever it was measured."""
    lines = []
    for of, (name, settings) in (
        (of, each) for of in dict.fromkeys((data, OTHER)) for each in FLOORS.items()
    ):
        if found := row(name, model, of):
            result, hp = found["result"], found["provenance"]["settings"]["hyperparameters"]
            took, n = result["medians"], result["tokens"]
            lines.append({"data": methods.data_title(of), "settings": settings, "k": f"{hp['k']:,}", "n_max": str(hp["n_max"]), "tokens": str(n), "edited layers": f"{result['work']['layers'] / n:.1f}"} | {f"{way}, s": f"{took[way] / n:.3f}" for way in ("ours", "floor", "forward")}
                         | {f"ours ÷ {way}": f"{took['ours'] / took[way]:.2f}" for way in ("floor", "forward")})  # fmt: skip
    return pd.DataFrame(lines or [{"data": NOT_YET}])


def gradient(model: str, data: str) -> Reading | None:
    table = gradient_methods(model, data)
    if "revs" not in table.index or len(table) < 2:
        return None
    ours, fastest = table.loc["revs"], table.drop("revs")["seconds"].idxmin()
    best = table.loc[fastest]
    return Reading(
        ours["seconds"] / best["seconds"],
        f"REVS {ours['seconds']:.1f} s, Unlearning Score {percent(ours['score'])}; {figures.title(fastest)} {best['seconds']:.1f} s, Unlearning Score {percent(best['score'])}",
    )


def evaluation(model: str, data: str) -> Reading | None:
    if not (found := row("attacks", model, data)):
        return None
    took, agreement, calls = (
        found["result"]["medians"],
        found["result"]["agreement"],
        found["result"]["calls"],
    )
    took_less = took["released"] - 2 / 3 * found["result"]["parts"]["released: projections"]
    without = [
        sum(parts.values()) - parts.get("greedy tokens", 0.0)
        for parts in (by_way(found)[way] for way in ("released", "ours"))
    ]
    return Reading(
        took["released"] / took["ours"],
        f"{without[0] / without[1]:.1f} without greedy tokens, of which the released way writes those of all kept sentences and ours those of sentences that are no longer what comes next; {took_less / took['ours']:.1f} without the projections of what attention and FF₂ add, two thirds of all, which no table of the paper shows; an unlearned model takes {took['released']:.0f} s, for {calls['vectors']:,} passes and {calls['logits']:,} projections, and {took['ours']:.1f} s; {100 * agreement:.1f} per cent of the depths that both find are equal{rounded(found)}; {shares(found)}",
    )


def rounded(found: dict) -> str:
    """How far apart the other depths are."""
    furthest = found["result"].get("furthest")
    return (
        ""
        if not furthest
        else f" and the others {furthest} of {found['result']['shape']['V']:,} ranks apart at most, since sums over a batch round otherwise"
    )


def shares(found: dict) -> str:
    """What both ways of evaluation spend their time on."""
    return "; ".join(
        f"{way}: "
        + ", ".join(f"{part} {seconds:.1f} s" for part, seconds in longest_first(parts).items())
        for way, parts in by_way(found).items()
    )


def longest_first(parts: dict[str, float]) -> dict[str, float]:
    """Parts and their seconds, without those that a tenth of a second does not show."""
    return {
        part: seconds
        for part, seconds in sorted(parts.items(), key=lambda pair: -pair[1])
        if seconds >= 0.05
    }


def by_way(found: dict) -> dict[str, dict[str, float]]:
    """The same in seconds: way → part."""
    each: dict[str, dict[str, float]] = {}
    for name, seconds in found["result"]["parts"].items():
        way, part = name.split(": ")
        each.setdefault(way, {})[part] = seconds
    return each


def bounds(model: str, data: str) -> str:
    """What keeps each goal's measure from being better, as far as there are rows: REVS's floor, beside the released procedure and beside methods that follow gradients; and where memory and the time of many targets go."""
    said = []
    if found := row("token", model, data):
        took = found["result"]["medians"]
        said.append(
            f"In turn with the released procedure, a pass and the products of the floor took {took['floor'] / found['result']['tokens']:.2f} s for a token: whoever makes them can be {took['released'] / took['floor']:.0f} times as quick, not more."
        )
    if found := row("floor", model, data):
        took, parts = found["result"]["medians"], found["result"]["parts"]
        times = took["ours"] / took["floor"]
        beyond_it = {
            part: times * parts[part] / sum(parts.values())
            for part in ("gate", "edit", "selection", "direction")
        }
        said.append(
            f"Of the {times:.2f} floors that a token takes, "
            + ", ".join(f"{part} is {each:.2f}" for part, each in beyond_it.items())
            + f", none of which is in the floor, and the pass and the products, with all that belongs to them, {times - sum(beyond_it.values()):.2f}. Were these as quick as the floor itself, a token would still take {1 + sum(beyond_it.values()):.2f} floors. "
            f"A gate has to see at least as many tokens as may be ahead before it is closed, and more of them the closer it is, here {found['result']['work']['gates'] / found['result']['tokens']:.1f} times $V$ for a token; an edit looks for one place among all $V$ tokens in each neuron that it moves."
        )
    if found := row("attacks", model, data):
        took, own = found["result"]["medians"], by_way(found)["ours"]
        said.append(
            f"Evaluation takes {', '.join(f'{seconds:.1f} s for {part}' for part, seconds in longest_first(own).items())}. One pass of every text, in batches, and the greedy tokens alone take "
            f"{took['floor']:.1f} s: however quick ranks were, the ratio could not pass {took['released'] / took['floor']:.1f} with the same passes and tokens."
        )
    sets = {of: methods.data_title(of) for of in dict.fromkeys((data, OTHER))}
    for of, title in sets.items():
        table, least = gradient_methods(model, of), row("floor", model, of)
        if least and "revs" in table.index and len(table) > 1:
            fastest = table.drop("revs")["seconds"].idxmin()
            each = least["result"]["medians"]["floor"] / least["result"]["tokens"]
            said.append(
                f"On {title}, REVS at the floor of {least['result']['tokens']} of its tokens would take {each * row('gradient', model, of)['result']['tokens'] / table.loc[fastest, 'seconds']:.2f} times as long as {figures.title(fastest)}."
            )
    for of, title in sets.items():
        if found := row("memory", model, of):
            used = found["result"]["memory"]
            said.append(
                f"Memory on {title}: at most {max(used['once_mb']):.0f} MiB while the Gram factor is made, {max(used['peak_mb']) - used['undo_mb']:.0f} MiB after it."
            )
    if found := row("targets", model, "synthetic"):
        items = rows.items(found)
        some = max(1, found["result"]["secrets"] // 5)
        parts = [
            items[items["target"] <= some],
            items[
                items["target"].between(
                    found["result"]["secrets"] - some + 1, found["result"]["secrets"]
                )
            ],
        ]
        said.append(
            "Of many targets, "
            + ", ".join(
                f"the {which} {some} secrets take {part['seconds'].mean():.2f} s a token with {part['layers'].mean():.1f} edited layers"
                for which, part in zip(("first", "last"), parts)
            )
            + "."
        )
    return "\n\n".join(said)


def memory(model: str, data: str) -> Reading | None:
    if not (found := row("memory", model, data)):
        return None
    used = found["result"]["memory"]
    return Reading(
        beyond(used) / used["model_mb"],
        f"at most {beyond(used):.0f} MiB beside {used['model_mb']:.0f}, over all rounds; undo takes {used['undo_mb']:.0f} MiB more",
    )


def beyond(used: dict) -> float:
    """MiB beyond the model without what undo keeps, in the round that took most: while the Gram factor is made, or after it."""
    return max(*used["once_mb"], max(used["peak_mb"]) - used["undo_mb"])


def memory_of_shape(model: str, data: str) -> Reading:
    if found := row("shapes", SHAPE, bench.RANDOM):
        used, made = found["result"]["memory"], found["provenance"]
        return Reading(
            beyond(used) / used["model_mb"],
            f"measured on {made['hardware']['gpu'] or made['hardware']['cpu']} in {made['model']['dtype']}: {beyond(used):,.0f} MiB beside {used['model_mb']:,.0f}",
        )
    (shape, _), checks = (
        predicted_work(),
        {name: memory_off(found) for name, found in measured_shapes().items()},
    )
    factors = {
        when: max((check[when] for check in checks.values()), default=1.0)
        for when in operations.TIMES
    }
    own, extra = (
        weights_of(shape),
        {
            when: factors[when] * each
            for when, each in operations.extra(shape, *counts_of_neurons(), "cuda").items()
        },
    )
    when = max(extra, key=extra.get)
    times = (
        f", with the larger factor between what was measured and what was predicted at {' and '.join(checks)} for the time when it is highest ({operations.TIMES[when]}), {factors[when]:.2f}"
        if checks
        else ""
    )
    return Reading(
        extra[when] / own,
        f"{PREDICTED}: {extra[when] / 2**20:,.0f} MiB beside {own / 2**20:,.0f}, in bfloat16{times}",
        True if checks else None,
    )


def memory_off(found: dict) -> dict[str, float]:
    """How many times as much memory as predicted a run on random weights took beyond the model and undo, at each of the times when it is highest."""
    used, foreseen = found["result"]["memory"], foreseen_bytes(found)
    took = {"once": max(used["once_mb"]), "after": max(used["peak_mb"]) - used["undo_mb"]}
    return {when: took[when] * 2**20 / foreseen[when] for when in operations.TIMES}


def measured_shapes() -> dict[str, dict]:
    """The rows of runs on random weights, by shape, in the precision of the prediction."""
    return {
        name: found
        for name in ("small", "medium", SHAPE)
        if (found := row("shapes", name, bench.RANDOM))
    }


def foreseen_bytes(found: dict) -> dict[str, int]:
    """Memory beyond the model and undo, as it is predicted for a measured shape, at the times when it is highest."""
    hp, device = (
        found["provenance"]["settings"]["hyperparameters"],
        "cuda" if found["provenance"]["hardware"]["gpu"] else "cpu",
    )
    return operations.extra(
        found["result"]["shape"], found["result"]["work"]["k"], hp["n_max"], device
    )


def foreseen_seconds(found: dict) -> dict[str, float]:
    """Seconds by part, as operation counts predict them for a measured shape at the rates that were measured with it."""
    result, n_max = found["result"], found["provenance"]["settings"]["hyperparameters"]["n_max"]
    work = result["work"] | {"k": operations.projected(result["work"]["k"], n_max, result["share"])}
    return operations.seconds(
        operations.operations(result["shape"], work, result["tokens"]), result["rates"]
    )


def off() -> dict[str, float]:
    """How many times as long as predicted a run took, in the median, by shape."""
    return {
        name: found["result"]["medians"]["ours"] / sum(foreseen_seconds(found).values())
        for name, found in measured_shapes().items()
    }


def weights_of(shape: dict) -> int:
    """Bytes of a model of some shape, with embeddings and head of its own."""
    return (shape["body"] + 2 * shape["V"] * shape["d"]) * shape["bytes"]


def many(model: str, data: str) -> Reading | None:
    if not (curve := targets(model)):
        return None
    numbers, seconds = zip(*distinct(model, curve))
    slope = float(np.polyfit(np.log(numbers), np.log(seconds), 1)[0])
    said = f"one is linear, and {LINEAR - 1:.0%} more is noise; each target another secret: {seconds[0] / numbers[0]:.2f} s a target for {numbers[0]}, {seconds[-1] / numbers[-1]:.2f} s for {numbers[-1]}"
    return Reading(
        slope,
        said
        + (
            f"; {curve[-1][1] / curve[-1][0]:.2f} s for {curve[-1][0]}, with second sentences of some secrets"
            if curve[-1][0] > numbers[-1]
            else ""
        ),
    )


def time_of_shape(model: str, data: str) -> Reading:
    if found := row("shapes", SHAPE, bench.RANDOM):
        result, made = found["result"], found["provenance"]
        peak = (
            result["memory"]["model_mb"]
            + max(*result["memory"]["once_mb"], *result["memory"]["peak_mb"])
        ) / 1024
        return Reading(
            result["medians"]["ours"],
            f"measured on {made['hardware']['gpu'] or made['hardware']['cpu']} in {made['model']['dtype']}: {result['tokens']} tokens, {result['work']['layers']:,} edited layers; at most {peak:.1f} GiB of memory, undo included; {of_paper()}",
        )
    shape, work = predicted_work()
    rates, (k, n_max), factors = operations.machines()[MACHINE], counts_of_neurons(), off()
    counted, begin = (
        sum(operations.seconds(operations.operations(shape, work, 2 * SECRETS), rates).values()),
        launch_seconds(),
    )
    peak = (
        weights_of(shape)
        + max(operations.extra(shape, k, n_max, "cuda").values())
        + min(work["moves"], shape["layers"] * shape["ff"]) * shape["d"] * shape["bytes"]
    )
    return Reading(
        counted * max(factors.values(), default=1.0) + begin,
        f"{PREDICTED} for an {rates['title']}: operation counts say {counted:.1f} s"
        + (
            f", {max(factors.values()):.2f} times that is the larger factor measured at {' and '.join(factors)}, and {begin:.1f} s pass until operations begin"
            if factors
            else ""
        )
        + f"; with k = {k:,} and n_max = {n_max} as the paper has them, every layer of every token edited and all its neurons moved; at most {peak / 2**30:.0f} GiB of memory, undo included; {of_paper()}",
        True if factors else None,
    )


def of_paper() -> str:
    """How long the paper's REVS took."""
    printed = paper.tables()["hardware"]
    return f"the paper: {printed['runtime_minutes']['REVS']} minutes for its {printed['dataset'].lower()} with {printed['model']}, on {printed['gpus']['REVS']} {printed['gpu']}"


GOALS = (
    Goal("unlearning one token: the released procedure ÷ ours", "≥", 100, "token", token),
    Goal(
        "ours ÷ (one forward pass + one product of k neurons with U for each edited layer)",
        "≤",
        1.5,
        "floor",
        lambda model, data: of_both(floor, model, data),
    ),
    Goal(
        "REVS ÷ the fastest gradient method, tuned",
        "<",
        1,
        "gradient",
        lambda model, data: of_both(gradient, model, data),
    ),
    Goal(
        "evaluation and all attacks: one pass for each token and attack ÷ ours",
        "≥",
        20,
        "attacks",
        evaluation,
    ),
    Goal(
        "memory beyond the model ÷ the model's own, undo apart",
        "≤",
        0.25,
        "memory",
        lambda model, data: of_both(memory, model, data),
    ),
    Goal("the same at the shape of Llama-3-8B", "≤", 0.1, SHAPE, memory_of_shape),
    Goal("cost against the number of targets: its exponent", "≤", LINEAR, "targets", many),
    Goal(
        "seconds for 50 targets of 2 tokens at the shape of Llama-3-8B, bfloat16",
        "<",
        60,
        SHAPE,
        time_of_shape,
    ),
)


def goals(model: str, data: str) -> pd.DataFrame:
    """Every goal with what was measured."""
    lines = []
    for goal in GOALS:
        reading = goal.read(model, data)
        lines.append(
            {
                "what": goal.title,
                "goal": f"{goal.sign} {goal.bound:g}",
                "measured": f"{reading.value:.3g}" if reading else DASH,
                "": goal.verdict(reading),
            }
        )
    return pd.DataFrame(lines)


def behind(model: str, data: str) -> str:
    """How many goals are met, and what stands behind each value, as a list."""
    readings = {goal: reading for goal in GOALS if (reading := goal.read(model, data))}
    met = sum(goal.verdict(reading).startswith("met") for goal, reading in readings.items())
    return "\n".join(
        [
            f"Of {len(GOALS)} goals {met} are met, measured or predicted. Behind each value:",
            "",
            *(f"* *{goal.title}*: {reading.behind}." for goal, reading in readings.items()),
        ]
    )


def how() -> pd.DataFrame:
    """The command behind every measurement, those of goals first."""
    titles, found = {goal.what: goal.title for goal in GOALS}, asked()
    return pd.DataFrame(
        [
            {
                "what": titles.get(key, f"`{key}`"),
                "command": f"`{found[key][0]}`",
                "also with": "; ".join(
                    f"{name}: {', '.join(map(str, values))}"
                    for name, values in found[key][1].items()
                )
                or DASH,
            }
            for key in [*titles, *(key for key in found if key not in titles)]
        ]
    )


def raw(model: str, data: str) -> pd.DataFrame:
    """Every measurement of the page: seconds of each round, way by way; of whole runs, by seed, their one time."""
    sets = dict.fromkeys((data, OTHER))
    wanted = {
        name: row(name, model, data)
        for name in ("token", "selection", "attacks", "schedules", "memorising")
    }
    wanted |= {
        f"{name}, {of}": row(name, model, of)
        for name in (*FLOORS, "gradient", "memory")
        for of in sets
    }
    wanted |= {"targets": row("targets", model, "synthetic")} | {
        f"shapes, {name}": found for name, found in measured_shapes().items()
    }
    lines = [
        {"measurement": name, "tokens": str(found["result"]["tokens"])}
        | {column: line[column] for column in ("way", "median, s", "each round, s")}
        for name, found in wanted.items()
        if found
        for line in one_run(found).to_dict("records")
    ]
    for tag, of in [(ORDER, data), *((tag, of) for tag in PRECISIONS.values() for of in sets)]:
        for one in (
            results.tagged(model, of, tag)
            .dropna(subset="unlearning_score")
            .sort_values(["method", "seed"])["row"]
        ):
            settings, seconds = (
                one["provenance"]["settings"],
                one["provenance"]["seconds"]["unlearn"],
            )
            lines.append(
                {
                    "measurement": f"{tag}, {of}, seed {settings['seed']}",
                    "tokens": str(one["result"]["after"]["forget"] * settings.get("T", 2)),
                    "way": settings["method"],
                    "median, s": f"{seconds:.3f}",
                    "each round, s": f"{seconds:.3f}",
                }
            )
    return pd.DataFrame(lines or [{"measurement": NOT_YET}])


def gradient_methods(model: str, data: str) -> pd.DataFrame:
    """Median seconds and the Unlearning Score of REVS and of the methods that follow gradients, by method, of one measurement."""
    if not (found := row("gradient", model, data)):
        return pd.DataFrame(columns=["seconds", "score"])
    result = found["result"]
    return pd.DataFrame.from_dict(
        {
            name: {"seconds": seconds, "score": result["effects"][name]["unlearning_score"]}
            for name, seconds in result["medians"].items()
        },
        orient="index",
        columns=["seconds", "score"],
    )


def gradient_table(model: str, data: str) -> pd.DataFrame:
    """The same to be shown, the quickest first."""
    table = gradient_methods(model, data).sort_values("seconds")
    if table.empty:
        return pd.DataFrame({"method": [NOT_YET]})
    return pd.DataFrame({
        "method": [figures.title(name) for name in table.index],
        "seconds": [f"{seconds:.1f}" for seconds in table["seconds"]],
        "rounds": [str(len(row("gradient", model, data)["result"]["timings"][name])) for name in table.index],
        "REVS ÷ it": [f"{table['seconds'].get('revs', np.nan) / seconds:.2f}" for seconds in table["seconds"]],
        "Unlearning Score": [percent(score) for score in table["score"]],
    })  # fmt: skip


def gradient_sentence(model: str, data: str) -> str:
    """Whether REVS is the quickest, and why not; the command without rows to compare."""
    table = gradient_methods(model, data)
    title = methods.data_title(data)
    failed = "".join(
        f" {figures.title(name)} has no time: {why}"
        for name, why in (row("gradient", model, data) or {"result": {}})["result"]
        .get("failed", {})
        .items()
    )
    if "revs" not in table.index or len(table) < 2:
        return f"**{title}**: not measured yet (`{commands()['gradient']}`, with `--data {data}`).{failed}"
    ours, others = table.loc["revs"], table.drop("revs")
    quicker = others[others["seconds"] <= ours["seconds"]]
    if quicker.empty:
        return f"**{title}**: REVS is the quickest of them.{failed}"
    as_good = [
        figures.title(name) for name in quicker.index if quicker.loc[name, "score"] >= ours["score"]
    ]
    return (
        f"**{title}**: {', '.join(figures.title(name) for name in quicker.sort_values('seconds').index)} took less time than REVS. A method that follows gradients goes through all targets together, in a few batches and few layers; REVS pays a pass "
        f"and a product of $k$ neurons with $U$ in every edited layer for each token. Of the quicker ones, {' and '.join(as_good) or 'none'} scores as high as REVS.{failed}"
    )


# --- where the time goes -------------------------------------------------------------------------------------------------


def parts(model: str, data: str) -> dict[str, dict[str, float]]:
    """Seconds a token by part: with each of the settings of ``FLOORS``, and at each shape."""
    wanted = {
        f"{methods.data_title(of)}, {settings}": row(name, model, of)
        for of in dict.fromkeys((data, OTHER))
        for name, settings in FLOORS.items()
    } | {f"shape {name}": found for name, found in measured_shapes().items()}
    return {
        name: {
            part: seconds / found["result"]["tokens"]
            for part, seconds in found["result"]["parts"].items()
        }
        for name, found in wanted.items()
        if found
    }


def draw_parts(ax: Axes, found: dict[str, dict[str, float]]) -> None:
    """One bar for each model, in shares of its time; a sentence if there is none."""
    for name, each in found.items():
        left = 0.0
        for part, (colour, hatch) in PARTS.items():
            share = 100 * each.get(part, 0.0) / sum(each.values())
            ax.barh(
                name,
                share,
                left=left,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0,
                label=part,
            )
            left += share
    ax.set(xlabel="share of the time, per cent", xlim=(0, 100))
    ax.invert_yaxis()
    finish(ax, bool(found))


def targets(model: str) -> list[tuple[int, float]]:
    """(number of targets, median seconds), in order."""
    found = row("targets", model, "synthetic")
    return (
        sorted((int(number), seconds) for number, seconds in found["result"]["medians"].items())
        if found
        else []
    )


def distinct(model: str, curve: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The part of the curve in which no secret comes twice."""
    return [
        point
        for point in curve
        if point[0] <= row("targets", model, "synthetic")["result"]["secrets"]
    ]


def draw_targets(ax: Axes, model: str, curve: list[tuple[int, float]]) -> None:
    """Seconds against targets, where second sentences follow in dashes, and a straight line through the origin and the first of them."""
    if curve:
        numbers, seconds = zip(*curve)
        ax.plot(
            numbers,
            [seconds[0] * number / numbers[0] for number in numbers],
            "--",
            color=figures.INK,
            label="in proportion to the first",
        )
        once = distinct(model, curve)
        ax.plot(*zip(*once), **figures.look("revs"), label="REVS, one sentence a secret")
        if len(once) < len(curve):
            ax.plot(
                *zip(*curve[len(once) - 1 :]),
                **figures.look("revs") | {"linestyle": ":"},
                label="REVS, second sentences too",
            )
        ax.set(
            xticks=numbers, ylim=(0, 1.1 * max(seconds[-1], seconds[0] * numbers[-1] / numbers[0]))
        )
    ax.set(xlabel="targets, two tokens each", ylabel="seconds")
    finish(ax, bool(curve))


def finish(ax: Axes, there: bool) -> None:
    """A legend beside the axes, or the sentence that stands for what is not there."""
    if there:
        handles = dict(zip(*ax.get_legend_handles_labels()[::-1]))  # by label: each once
        ax.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        ax.text(
            0.5,
            0.5,
            f"{NOT_YET}: make bench adopt",
            ha="center",
            va="center",
            transform=ax.transAxes,
        )


def selected(model: str, data: str) -> str:
    """What it takes to count candidates piece by piece instead of ranking them all, or the command that measures it."""
    if not (found := row("selection", model, data)):
        return f"Not measured yet: `{commands()['selection']}`."
    result, hp = found["result"], found["provenance"]["settings"]["hyperparameters"]
    took = result["medians"]
    return f"To find {hp['n_max']} of {hp['k']:,} neurons and their logits takes {took['ranked'] / took['counted']:.1f} times as long if all are ranked: {took['ranked'] / result['tokens']:.2f} s against {took['counted'] / result['tokens']:.2f} s for a token in all layers. Both find the same in {100 * result['agreement']:.1f} per cent of the layers."


# --- schedules and orders ------------------------------------------------------------------------------------------------


def schedules(model: str, data: str) -> tuple[pd.DataFrame, str]:
    """Both schedules side by side, and what exactness buys; an empty table and the command if they are not measured."""
    if not (found := row("schedules", model, data)):
        return pd.DataFrame(
            {"schedule": [NOT_YET]}
        ), f"Not measured yet: `{commands()['schedules']}`."
    result, lines = found["result"], []
    for way in ("exact", "paper"):
        edit, effect, ranks = result["edits"][way], result["effects"][way], result["ranks"][way]
        lines.append({"schedule": f"`{way}`", "seconds": f"{result['medians'][way]:.1f}", "columns": f"{edit['columns']:,}", "norm": f"{edit['norm']:.1f}", "out of reach": str(edit["unreached"]),
                      "median rank": f"{median(ranks):,.0f}"} | {title: percent(effect[metric]) for metric, title in METRICS.items()})  # fmt: skip
    exact, paper = (result["edits"][way] for way in ("exact", "paper"))
    score = {way: 100 * effect["unlearning_score"] for way, effect in result["effects"].items()}
    left = paper["unreached"] - exact["unreached"]
    reach = (
        "as many neurons are out of reach for both"
        if not left
        else f"out of reach are {abs(left):,} neurons {'more' if left < 0 else 'fewer'} than for the paper's"
    )
    return pd.DataFrame(lines), (
        f"The paper's schedule takes {result['medians']['paper'] / result['medians']['exact']:.2f} times as long, changes {paper['columns'] / exact['columns']:.2f} times as many columns with {paper['norm'] / exact['norm']:.2f} times the norm, "
        f"and scores {score['paper']:.1f} against {score['exact']:.1f}. So exactness buys time, {'a' if score['exact'] > score['paper'] else 'no'} higher score on this split, and two settings fewer: neurons go to the rank that was asked for and not to one within ε of it, and there is no factor and no bound on steps to choose; {reach}."
    )


def orders(model: str, data: str) -> tuple[pd.DataFrame, str]:
    """The layer-major order beside the paper's, over the seeds that both have in like circumstances, and whether it is as good and as quick."""
    runs = results.tagged(model, data, ORDER)
    sides = {
        "the paper's: token after token": by_seed(runs, "revs"),
        "layer-major": by_seed(runs, "layer_major"),
    }
    seeds = common(*sides.values())
    if not seeds:
        return pd.DataFrame(
            {"order": [NOT_YET]}
        ), f"Not measured yet: `make bench adopt` (runs of `params/bench.yml` with `tag: {ORDER}`)."
    means, lines, scores = results.means(runs[runs["seed"].isin(seeds)]), [], []
    for name, side in sides.items():
        done = [side[seed] for seed in seeds]
        edits = [one["result"]["edit"] for one in done]
        scores.append(np.array([100 * one["result"]["after"]["unlearning_score"] for one in done]))
        lines.append({"order": name} | {title: percent(*means[done[0]["provenance"]["settings"]["method"]][metric]) for metric, title in METRICS.items()} | {
            ablations.RESISTANCE: percent(mean(one["result"]["attacks"]["resistance_score"]["released"] for one in done)),
            "columns": f"{median(edit['columns'] for edit in edits):,.0f}",
            "norm": f"{median(edit['norm'] for edit in edits):.1f}",
        })  # fmt: skip
    lead = scores[1] - scores[0]
    verdict = (
        "higher on every seed"
        if (lead > 0).all()
        else "lower on every seed"
        if (lead < 0).all()
        else "higher on some seeds and not on others"
    )
    in_turn = row("schedules", model, data)
    took = in_turn and in_turn["result"]["medians"]
    return pd.DataFrame(lines), (
        f"Over {results.listed(seeds)}, the layer-major order's Unlearning Score is {verdict}: {lead.mean():+.1f} points on average, from {lead.min():+.1f} to {lead.max():+.1f}. "
        + (
            f"In turn with the paper's order it took {took['layer_major'] / took['exact']:.2f} times as long: {took['layer_major']:.1f} s against {took['exact']:.1f} s."
            if took
            else f"Their times are measured in turn: `{commands()['schedules']}`."
        )
    )


def by_seed(frame: pd.DataFrame, method: str) -> dict[int, dict]:
    """The rows of a method's runs that did not fail."""
    return {one["provenance"]["settings"]["seed"]: one for one in results.finished(frame, method)}


def common(one: dict[int, dict], other: dict[int, dict]) -> list[int]:
    """Seeds of which both sides have a row, of the same fine-tune, machine, versions and number of threads: else no difference would be the method's."""
    alike = lambda row: (
        row["provenance"]["inputs"].get("model"),
        row["provenance"]["hardware"]["threads"],
        results.machine(row),
    )
    return [
        seed for seed in sorted(one) if seed in other and alike(one[seed]) == alike(other[seed])
    ]


# --- precision -------------------------------------------------------------------------------------------------------------


def precisions(model: str, data: str) -> tuple[pd.DataFrame, str]:
    """The same runs in float32 and in bfloat16: what the lower precision costs and gains, of each method that has both, and whose score holds."""
    runs, lines, took, lost, where = (
        {dtype: results.tagged(model, data, tag) for dtype, tag in PRECISIONS.items()},
        [],
        [],
        {},
        "",
    )
    for name in runs["float32"]["method"].unique():
        sides = {dtype: by_seed(frame, name) for dtype, frame in runs.items()}
        if not (seeds := common(*sides.values())):
            continue
        pair = {dtype: [side[seed] for seed in seeds] for dtype, side in sides.items()}
        hardware = pair["float32"][0]["provenance"]["hardware"]
        where = f"On {hardware['gpu'] or hardware['cpu']}, {hardware['threads']} threads"
        times = {
            dtype: median(one["provenance"]["seconds"]["unlearn"] for one in done)
            for dtype, done in pair.items()
        }
        for dtype, done in pair.items():
            lines.append(
                {
                    "method": figures.title(name),
                    "precision": dtype,
                    "seconds": f"{times[dtype]:.1f}",
                    "peak, GiB": f"{max(one['provenance']['peak_memory_mb'] for one in done) / 1024:.1f}",
                }
                | {
                    title: percent(mean(one["result"]["after"][metric] for one in done))
                    if done[0]["result"]["after"][metric] is not None
                    else DASH
                    for metric, title in METRICS.items()
                }
            )
        took.append(f"{figures.title(name)} {times['bfloat16'] / times['float32']:.2f}")
        score = {
            dtype: 100 * mean(one["result"]["after"]["unlearning_score"] for one in done)
            for dtype, done in pair.items()
        }
        if score["float32"]:
            lost[figures.title(name)] = score["float32"] - score["bfloat16"]
    if not lines:
        return (
            pd.DataFrame([{"method": NOT_YET}]),
            "No method was run in both yet: `make bench adopt` (runs of `params/bench.yml` with `tag: precision`).",
        )
    held = [name for name, each in lost.items() if each <= HOLDS]
    fell = [f"{name} ({-each:+.1f})" for name, each in lost.items() if each > HOLDS]
    said = (
        f"The Unlearning Score holds, within {HOLDS:g} points, for {', '.join(held) or 'none'}"
        + (f"; it falls for {', '.join(fell)}" if fell else "")
        + "."
        if lost
        else "None scores anything there in float32."
    )
    return pd.DataFrame(
        lines
    ), f"{where}, bfloat16 takes so many times as long: {', '.join(took)}. {said}"


def memorising(model: str, data: str) -> str:
    """A fine-tune in bfloat16 arithmetic beside the one in float32: how long its steps take in turn, and what the recorded ones memorised."""
    if not (timed := row("memorising", model, data)):
        return (
            f"How long a fine-tune takes in both is not measured yet: `{commands()['memorising']}`."
        )
    took = timed["result"]["medians"]
    said = f"Memorising, whose weights stay in float32: the same steps take {took['bfloat16'] / took['float32']:.2f} times as long with bfloat16 arithmetic, {took['bfloat16']:.1f} s against {took['float32']:.1f} s."
    found = {
        settings["autocast"]: one["result"]
        for one in results.finetunes(model, data)
        if (settings := one["provenance"]["settings"])["digits"] == "noise"
    }
    return said + (
        " Whole fine-tunes memorised "
        + " and ".join(
            f"{one['memorised']} of {one['sentences']} sentences with {'bfloat16' if half else 'float32'}"
            for half, one in sorted(found.items())
        )
        + "."
        if found
        else ""
    )


def curated() -> str:
    """A curation in bfloat16 beside the one in float32, of the same secrets: how long trying them takes, and whether the same are found."""
    found = {
        dtype: next(
            (
                row
                for name, row in rows.find(kind="curate").items()
                if name.startswith(f"curate/{tag}/")
            ),
            None,
        )
        for dtype, tag in PRECISIONS.items()
    }
    if (
        not all(found.values())
        or len({row["provenance"]["inputs"]["candidates"] for row in found.values()}) > 1
    ):
        return "Curation is not measured in both yet: `make organic adopt`."
    took = {dtype: row["provenance"]["seconds"]["try"] for dtype, row in found.items()}
    items = {dtype: rows.items(row) for dtype, row in found.items()}
    memorised = {dtype: set(zip(each["source"], each["offset"])) for dtype, each in items.items()}
    tried = sum(line["tried"] for line in found["float32"]["result"]["funnel"].values())
    return (
        f"Curation, with {results.title(found['float32']['provenance']['model']['name'])}: to try {tried} secrets takes {took['bfloat16'] / took['float32']:.2f} times as long in bfloat16, {took['bfloat16']:.0f} s against {took['float32']:.0f} s. "
        f"It takes {len(memorised['bfloat16'])} of them for memorised, float32 {len(memorised['float32'])}; {len(memorised['float32'] & memorised['bfloat16'])} are the same."
    )


# --- prediction ----------------------------------------------------------------------------------------------------------


def counts_of_neurons() -> tuple[int, int]:
    """k and n_max of the prediction: the paper's for the run whose minutes it prints."""
    printed = paper.tables()["hardware"]
    settings = paper.hyperparameters("REVS", printed["model"], printed["dataset"])
    return int(settings["k"]), int(settings["n_max"])


def share() -> float:
    """Of the product of all candidates with U, what it takes to find the best, where that was most; all of it as long as nobody has measured it."""
    found = [
        one for one in (row("selection", "smollm2-135m", "ssn"), *measured_shapes().values()) if one
    ]
    return max((one["result"]["share"] for one in found), default=1.0)


def predicted_work() -> tuple[dict, dict]:
    """The shape of Llama-3-8B in bfloat16, and the most that it can have to do: every layer edited, n_max neurons moved in each."""
    shape, tokens = operations.of_config(bench.shape(SHAPE), 2), 2 * SECRETS
    layers, (k, n_max) = tokens * shape["layers"], counts_of_neurons()
    return shape, {
        "prompt": tokens * (bench.PROMPT + 1),
        "layers": layers,
        "gates": layers,
        "moves": layers * n_max,
        "k": operations.projected(k, n_max, share()),
    }


def formulae() -> pd.DataFrame:
    """What each part costs, in letters."""
    return pd.DataFrame(
        [
            {"part": part, "operations": flops, "bytes": traffic}
            for part, (flops, traffic) in operations.FORMULAE.items()
        ]
    )


def prediction() -> tuple[pd.DataFrame, str]:
    """Part by part what operation counts say and what was measured, at two small shapes here and for the large one; and how far they are apart."""
    shape, work = predicted_work()
    large = operations.seconds(
        operations.operations(shape, work, 2 * SECRETS), operations.machines()[MACHINE]
    )
    columns, factors, extra = {}, off(), []
    mib = lambda each: f"{each / 2**20:.0f}"
    for name, found in measured_shapes().items():
        columns |= {
            f"{name}, predicted": foreseen_seconds(found),
            f"{name}, measured": found["result"]["parts"],
        }
        foreseen, times = foreseen_bytes(found), memory_off(found)
        extra += [
            f"{mib(times[when] * foreseen[when])} MiB at {name} {title}, where {mib(foreseen[when])} are predicted"
            for when, title in operations.TIMES.items()
        ]
    columns |= {f"{SHAPE} on {operations.machines()[MACHINE]['title']}, predicted": large}
    table = pd.DataFrame(
        {"part": [*PARTS, "all"]}
        | {
            name: [f"{each.get(part, 0.0):.3g}" for part in PARTS] + [f"{sum(each.values()):.3g}"]
            for name, each in columns.items()
        }
    )
    total = sum(large.values())
    if not factors:
        return (
            table,
            f"The counts say {total:.1f} s. They are not checked here yet: `{commands()['shapes']}`, and the same with `medium`.",
        )
    text = (
        "Measured ÷ predicted: "
        + ", ".join(f"{factor:.2f} at {name}" for name, factor in factors.items())
        + ". "
    )
    text += f"Memory beyond the model: {'; '.join(extra)}. "
    where = " and ".join(
        dict.fromkeys(
            "a GPU"
            if found["provenance"]["hardware"]["gpu"]
            else "a CPU, where a gate is asked part by part and neurons are edited a few at a time"
            for found in measured_shapes().values()
        )
    )
    each, launch = operations_of_layer(), operations.machines()[MACHINE]["launch"]
    return table, text + (
        f"The counts say {total:.1f} s for the large one; times the larger of these factors, {total * max(factors.values()):.1f} s. The small ones took the way of {where}. They leave out that a GPU has to be asked: on its way torch was asked for {each:,.0f} operations for an edited layer, "
        f"of which each takes about {1e6 * launch:.0f} µs to begin, {launch_seconds():.1f} s in all at the large shape if none of them hides behind another. Both together are what is judged. {on_papers()}"
    )


def operations_of_layer() -> float:
    """How many operations torch is asked for in a run, by edited layer, at the shape where it is most; 0 if it was not counted."""
    return max(
        (
            found["result"]["calls"]["operations"] / found["result"]["work"]["layers"]
            for found in measured_shapes().values()
        ),
        default=0.0,
    )


def launch_seconds(machine: str = MACHINE) -> float:
    """How long operations take to begin in the run that is predicted, none of them behind another."""
    return (
        operations_of_layer()
        * 2
        * SECRETS
        * bench.shape(SHAPE)["num_hidden_layers"]
        * operations.machines()[machine]["launch"]
    )


def on_papers() -> str:
    """The prediction once more on the GPU that the paper names, beside its minutes."""
    shape, work = predicted_work()
    rates = operations.machines()[PAPERS]
    counted = sum(
        operations.seconds(operations.operations(shape, work, 2 * SECRETS), rates).values()
    )
    return f"On the {rates['title']}, which the paper names, the counts say {counted:.1f} s at its maker's rates, and the same sum is {counted * max(off().values(), default=1.0) + launch_seconds(PAPERS):.0f} s; {of_paper()}, measured with its authors' program."
