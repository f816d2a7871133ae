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

from revs import ablations, figures, operations, paper, results, rows
from revs.experiments import bench
from revs.paths import ROOT
from revs.tables import DASH, METRICS, percent

NOT_YET, PREDICTED = "not measured yet", "predicted"
PARTS = {  # colour and hatching
    "forward": ("#8c8c8c", ""),
    "direction": ("#56b4e9", "//"),
    "gate": ("#e69f00", ".."),
    "candidates": ("#0072b2", ""),
    "selection": ("#009e73", "xx"),
    "edit": ("#d55e00", "\\\\"),
    "once": ("#cc79a7", "--"),
}
SHAPE, MACHINE, SECRETS = "llama-3-8b", "h200", 50  # whose time is predicted, on what, and for how many secrets of two tokens
ORDER = "order"  # the tag of runs in both orders
LINEAR = 1.05  # an exponent that still counts as linear: a per cent of noise must not decide
PRECISIONS = {dtype: f"precision-dtype{dtype}" for dtype in ("float32", "bfloat16")}  # the tags of runs in both


class Reading(NamedTuple):
    """A goal's measured value, what stands behind it, and whether what it takes for granted holds."""

    value: float
    behind: str
    holds: bool = True


class Goal(NamedTuple):
    """One line of the table: what is measured, what was wanted, the measurement that decides it, and how its row is read."""

    title: str
    sign: str
    bound: float
    what: str
    read: Callable[[str, str], Reading | None]

    def met(self, value: float) -> bool:
        return {"≥": value >= self.bound, "≤": value <= self.bound, "<": value < self.bound}[self.sign]


# --- rows ----------------------------------------------------------------------------------------------------------------


def row(what: str, model: str, data: str) -> dict | None:
    """The row of a measurement, if it has been made."""
    return rows.find(kind="bench").get(f"bench/{data}/{model}/{what}")


def commands() -> dict[str, str]:
    """How each measurement is made by itself, from the profiles that name it; the last of its kind stands for it."""
    found = {}
    for profile in ("paper", "bench"):
        for run in yaml.safe_load((ROOT / "params" / f"{profile}.yml").read_text(encoding="utf-8"))["runs"]:
            asked = run.get("parameters", {})
            if run["notebook"] == "bench" and "tag" not in asked:
                key = SHAPE if asked.get("model") == SHAPE else asked["what"]
                found[key] = "python -m revs.experiments.bench " + " ".join(f"--{name} {word(value)}" for name, value in asked.items())
    return found


def word(value) -> str:
    """A setting as a shell takes it."""
    return f"'{json.dumps(value)}'" if isinstance(value, dict) else json.dumps(value).strip('"')


def machine(model: str) -> str:
    """On what the benchmark of a model was measured; how to measure it if it was not."""
    found = [one for one in rows.find(kind="bench").values() if one["provenance"]["model"]["name"] == model and one["name"].endswith(one["result"]["what"])]
    if not found:
        return "Nothing of it is measured here yet: `make bench adopt` does that, on a machine that does nothing else meanwhile."
    hardware = found[0]["provenance"]["hardware"]
    return f"Measured on {hardware['gpu'] or hardware['cpu']}, {hardware['threads']} threads, {found[0]['provenance']['model']['dtype']}; every time is the median of {found[0]['result']['repeats']} rounds in which all that is compared had its turn."


def outdated(model: str) -> str:
    """Which of a model's measurements, and of those on random weights, are of code that has changed since; empty if none is."""
    found = {name.removeprefix("bench/"): one for name, one in rows.find(kind="bench").items() if one["provenance"]["model"]["name"] == model or name.startswith(f"bench/{bench.RANDOM}/")}
    dates: dict[str, list[str]] = {}
    for name, one in found.items():
        if rows.stale(one):
            dates.setdefault(one["provenance"]["when"], []).append(f"`{name}`")
    return " ".join(f"Measured {when} with the code of that date, which has changed since: {', '.join(names)}." for when, names in sorted(dates.items()))


def one_run(found: dict) -> pd.DataFrame:
    """The times of one measurement, way by way."""
    result = found["result"]
    return pd.DataFrame([
        {"way": way, "median, s": f"{result['medians'][way]:.3f}", "each round, s": ", ".join(f"{seconds:.3f}" for seconds in each), "median a token, s": f"{result['medians'][way] / result['tokens']:.4f}"}
        for way, each in result["timings"].items()
    ])  # fmt: skip


def one_run_parts(found: dict) -> str:
    """Where the time of one measurement goes, if it was watched."""
    if found["result"]["what"] == "attacks":
        return f"Where the time goes: {shares(found)}."
    parts = found["result"].get("parts", {})
    each = ", ".join(f"{part} {100 * seconds / sum(parts.values()):.0f}" for part, seconds in sorted(parts.items(), key=lambda pair: -pair[1]))
    return f"Where the time of REVS goes, in per cent: {each}." if parts else "The parts of this measurement were not timed one by one."


# --- goals ---------------------------------------------------------------------------------------------------------------


def token(model: str, data: str) -> Reading | None:
    if not (found := row("token", model, data)):
        return None
    n, took, ranks = found["result"]["tokens"], found["result"]["medians"], found["result"]["ranks"]
    lower = sum(a >= b for a, b in zip(ranks[bench.LOWER], ranks["released"]))
    return Reading(
        took["released"] / took[bench.LOWER],
        f"a token takes {took['released'] / n:.1f} s and, brought at least as low, {took[bench.LOWER] / n:.2f} s; it is as low or lower for {lower} of {n} tokens ({took['ours'] / n:.2f} s where the same margins are asked for)",
        lower == n,
    )


def released_counts(model: str, data: str) -> str:
    """What the released procedure did for a token, and where the target ranks after it and after ours; empty without the row."""
    if not (found := row("token", model, data)):
        return ""
    result, n = found["result"], found["result"]["tokens"]
    counts, once, ranks = {name: value / n for name, value in result["counts"].items()}, result["once"], result["ranks"]
    reached = {way: sum(r >= result["margin"] for r in each) for way, each in ranks.items()}
    lower = sum(a >= b for a, b in zip(ranks["ours"], ranks["released"]))
    return (
        f"For one token the released procedure made {counts['forwards']:.0f} passes and edited {counts['layers']:.0f} layers; it tried {counts['trials']:.0f} numbers of neurons in {counts['steps']:,.0f} steps of Alg. 2, "
        f"with {counts['projections']:,.0f} vectors through $U$ and {counts['returns']:,.0f} back. In the model's output the token then ranks {result['margin']:,} or lower for {reached['released']} of {n} tokens, after ours for {reached['ours']}; "
        f"the medians are {median(ranks['released']):,.0f} and {median(ranks['ours']):,.0f}, and ours ranks as low or lower for {lower} of {n}. "
        f"What is made once for a model is not in these times: {once['released']:.1f} s for $U^\\dagger$, {once['ours']:.1f} s for the Gram factor."
    )


def floor(model: str, data: str) -> Reading | None:
    if not (found := row("floor", model, data)):
        return None
    result = found["result"]
    took, n = result["medians"], result["tokens"]
    return Reading(took["ours"] / took["floor"], f"a token takes {took['ours'] / n:.2f} s, as long as {took['ours'] / took['forward']:.1f} forward passes of {took['forward'] / n:.3f} s, with {result['work']['layers'] / n:.1f} of {result['shape']['layers']} layers edited")


def gradient(model: str, data: str) -> Reading | None:
    table = gradient_methods(model, data)
    if len(table) < 2:
        return None
    ours, fastest = table.loc["revs"], table.drop("revs")["seconds"].idxmin()
    best = table.loc[fastest]
    return Reading(ours["seconds"] / best["seconds"], f"REVS {ours['seconds']:.1f} s, Unlearning Score {percent(ours['score'])}; {figures.title(fastest)} {best['seconds']:.1f} s, Unlearning Score {percent(best['score'])}")


def evaluation(model: str, data: str) -> Reading | None:
    if not (found := row("attacks", model, data)):
        return None
    took, agreement, calls = found["result"]["medians"], found["result"]["agreement"], found["result"]["calls"]
    return Reading(
        took["released"] / took["ours"],
        f"an unlearned model takes {took['released']:.0f} s, for {calls['vectors']:,} passes and {calls['logits']:,} projections, and {took['ours']:.1f} s; {100 * agreement:.1f} per cent of the depths that both find are equal; {shares(found)}",
    )


def shares(found: dict) -> str:
    """What both ways of evaluation spend their time on."""
    each: dict[str, dict[str, float]] = {}
    for name, seconds in found["result"]["parts"].items():
        way, part = name.split(": ")
        each.setdefault(way, {})[part] = seconds
    return "; ".join(f"{way}: " + ", ".join(f"{part} {seconds:.1f} s" for part, seconds in parts.items()) for way, parts in each.items())


def bounds(model: str, data: str) -> str:
    """What keeps REVS above its floor and evaluation from being quicker, part by part; empty without the rows."""
    said = []
    if found := row("floor", model, data):
        took, parts = found["result"]["medians"], found["result"]["parts"]
        beyond_it = {part: took["ours"] / took["floor"] * parts[part] / sum(parts.values()) for part in ("gate", "edit", "direction", "selection")}
        said.append(
            f"Of the {took['ours'] / took['floor']:.2f} floors that a token takes, "
            + ", ".join(f"{part} is {times:.2f}" for part, times in beyond_it.items())
            + ". A gate reads $U$ up to where enough tokens are ahead, and all of it in a layer that it finds open; an edit looks for one place among all $V$ tokens in each neuron that it moves: neither is in the floor, and both are traffic with memory."
        )
    if found := row("attacks", model, data):
        took, each = found["result"]["medians"], found["result"]["parts"]
        own = {name.removeprefix("ours: "): seconds for name, seconds in each.items() if name.startswith("ours: ")}
        said.append(
            f"Evaluation takes {', '.join(f'{seconds:.1f} s for {part}' for part, seconds in own.items())}. Greedy tokens come one by one in both ways, so that however quick the rest were, "
            f"the ratio could not pass {took['released'] / own['greedy tokens']:.0f}."
        )
    return "\n\n".join(said)


def memory(model: str, data: str) -> Reading | None:
    if not (found := row("memory", model, data)):
        return None
    used = found["result"]["memory"]
    return Reading(beyond(used) / used["model_mb"], f"at most {beyond(used):.0f} MiB beside {used['model_mb']:.0f}, over all rounds; undo takes {used['undo_mb']:.0f} MiB more")


def beyond(used: dict) -> float:
    """MiB beyond the model without what undo keeps, in the round that took most: while the Gram factor is made, or after it."""
    return max(*used["once_mb"], max(used["peak_mb"]) - used["undo_mb"])


def memory_of_shape(model: str, data: str) -> Reading:
    if found := row("shapes", SHAPE, bench.RANDOM):
        used, made = found["result"]["memory"], found["provenance"]
        return Reading(beyond(used) / used["model_mb"], f"measured on {made['hardware']['gpu'] or made['hardware']['cpu']} in {made['model']['dtype']}: {beyond(used):,.0f} MiB beside {used['model_mb']:,.0f}")
    shape, work = predicted_work()
    own, extra = weights_of(shape), operations.extra_bytes(shape, work["k"], "cuda")
    return Reading(extra / own, f"{PREDICTED}: {extra / 2**20:,.0f} MiB beside {own / 2**20:,.0f}, in bfloat16")


def weights_of(shape: dict) -> int:
    """Bytes of a model of some shape, with embeddings and head of its own."""
    return (shape["body"] + 2 * shape["V"] * shape["d"]) * shape["bytes"]


def many(model: str, data: str) -> Reading | None:
    if not (curve := targets(model)):
        return None
    numbers, seconds = zip(*distinct(model, curve))
    slope = float(np.polyfit(np.log(numbers), np.log(seconds), 1)[0])
    said = f"the exponent of the number of targets, each another secret: {seconds[0] / numbers[0]:.2f} s a target for {numbers[0]}, {seconds[-1] / numbers[-1]:.2f} s for {numbers[-1]}"
    return Reading(slope, said + (f"; {curve[-1][1] / curve[-1][0]:.2f} s for {curve[-1][0]}, with second sentences of some secrets" if curve[-1][0] > numbers[-1] else ""))


def time_of_shape(model: str, data: str) -> Reading:
    if found := row("shapes", SHAPE, bench.RANDOM):
        result, made = found["result"], found["provenance"]
        return Reading(result["medians"]["ours"], f"measured on {made['hardware']['gpu'] or made['hardware']['cpu']} in {made['model']['dtype']}: {result['tokens']} tokens, {result['work']['layers']:,} edited layers; {of_paper()}")
    shape, work = predicted_work()
    rates, settings = operations.machines()[MACHINE], bench_settings()
    peak = weights_of(shape) + operations.extra_bytes(shape, work["k"], "cuda") + min(work["moves"], shape["layers"] * shape["ff"]) * shape["d"] * shape["bytes"]
    return Reading(
        sum(operations.seconds(operations.operations(shape, work, 2 * SECRETS), rates).values()),
        f"{PREDICTED} for an {rates['title']} from operation counts, with k = {settings['k']:,} and n_max = {settings['n_max']} as the paper has them, every layer of every token edited and all its neurons moved; "
        f"at most {peak / 2**30:.0f} GiB of memory, undo included; {of_paper()}",
    )


def of_paper() -> str:
    """How long the paper's REVS took."""
    printed = paper.tables()["hardware"]
    return f"the paper: {printed['runtime_minutes']['REVS']} minutes for its {printed['dataset'].lower()} with {printed['model']}, on {printed['gpus']['REVS']} {printed['gpu']}"


GOALS = (
    Goal("unlearning one token: the released procedure ÷ ours", "≥", 100, "token", token),
    Goal("ours ÷ (one forward pass + one product of k neurons with U for each edited layer)", "≤", 1.5, "floor", floor),
    Goal("REVS ÷ the fastest gradient method, tuned", "<", 1, "gradient", gradient),
    Goal("evaluation and all attacks: one pass for each token and attack ÷ ours", "≥", 20, "attacks", evaluation),
    Goal("memory beyond the model ÷ the model's own, undo apart", "≤", 0.25, "memory", memory),
    Goal("the same at the shape of Llama-3-8B", "≤", 0.1, SHAPE, memory_of_shape),
    Goal("cost against the number of targets", "≤", LINEAR, "targets", many),
    Goal("seconds for 50 targets of 2 tokens at the shape of Llama-3-8B, bfloat16", "<", 60, SHAPE, time_of_shape),
)


def goals(model: str, data: str) -> pd.DataFrame:
    """Every goal with what was measured."""
    lines = []
    for goal in GOALS:
        reading = goal.read(model, data)
        verdict = NOT_YET if reading is None else ("met" if goal.met(reading.value) and reading.holds else "not met") + (", predicted" if reading.behind.startswith(PREDICTED) else "")
        measured, behind = (DASH, DASH) if reading is None else (f"{reading.value:.3g}", reading.behind)
        lines.append({"what": goal.title, "goal": f"{goal.sign} {goal.bound:g}", "measured": measured, "": verdict, "behind it": behind})
    return pd.DataFrame(lines)


def how() -> pd.DataFrame:
    """The command behind every goal."""
    found = commands()
    return pd.DataFrame([{"what": goal.title, "command": f"`{found[goal.what]}`"} for goal in GOALS])


def raw(model: str, data: str) -> pd.DataFrame:
    """Every measurement behind the goals: seconds of each round, way by way."""
    wanted = {name: row(name, model, data) for name in ("token", "floor", "floor-n100", "selection", "gradient", "attacks", "memory", "schedules")}
    wanted |= {"targets": row("targets", model, "synthetic")} | {f"shapes, {name}": row("shapes", name, bench.RANDOM) for name in ("small", "medium", SHAPE)}
    lines = [{"measurement": name, "tokens": str(found["result"]["tokens"])} | {column: line[column] for column in ("way", "median, s", "each round, s")} for name, found in wanted.items() if found for line in one_run(found).to_dict("records")]
    return pd.DataFrame(lines or [{"measurement": NOT_YET}])


def gradient_methods(model: str, data: str) -> pd.DataFrame:
    """Median seconds and the Unlearning Score of REVS and of the methods that follow gradients, by method, of one measurement."""
    if not (found := row("gradient", model, data)):
        return pd.DataFrame(columns=["seconds", "score"])
    result = found["result"]
    return pd.DataFrame.from_dict({name: {"seconds": seconds, "score": result["effects"][name]["unlearning_score"]} for name, seconds in result["medians"].items()}, orient="index", columns=["seconds", "score"])


def gradient_table(model: str, data: str) -> pd.DataFrame:
    """The same to be shown, the quickest first."""
    table = gradient_methods(model, data).sort_values("seconds")
    if table.empty:
        return pd.DataFrame({"method": [NOT_YET]})
    return pd.DataFrame({
        "method": [figures.title(name) for name in table.index],
        "seconds": [f"{seconds:.1f}" for seconds in table["seconds"]],
        "REVS ÷ it": [f"{table['seconds'].get('revs', np.nan) / seconds:.2f}" for seconds in table["seconds"]],
        "Unlearning Score": [percent(score) for score in table["score"]],
    })  # fmt: skip


def gradient_sentence(model: str, data: str) -> str:
    """Whether REVS is the quickest, and why not; the command without rows to compare."""
    table = gradient_methods(model, data)
    if "revs" not in table.index or len(table) < 2:
        return f"Not measured yet: `{commands()['gradient']} --data {data}`."
    ours, others = table.loc["revs"], table.drop("revs")
    quicker = others[others["seconds"] <= ours["seconds"]]
    if quicker.empty:
        return "REVS is the quickest of them."
    as_good = [figures.title(name) for name in quicker.index if quicker.loc[name, "score"] >= ours["score"]]
    return (
        f"Not the quickest: {' and '.join(figures.title(name) for name in quicker.index)} took less time. A method that follows gradients goes through all targets together, in a few batches and few layers; REVS pays a pass "
        f"and a product of $k$ neurons with $U$ in every edited layer for each token. Of the quicker ones, {' and '.join(as_good) or 'none'} scores as high as REVS."
    )


# --- where the time goes -------------------------------------------------------------------------------------------------


def parts(model: str, data: str) -> dict[str, dict[str, float]]:
    """Seconds a token by part: with the tuned settings, with the hundred neurons of the comparison with the released procedure, and at each shape."""
    wanted = {f"{model}, tuned": row("floor", model, data), f"{model}, 100 neurons": row("floor-n100", model, data)} | {f"shape {name}": row("shapes", name, bench.RANDOM) for name in ("small", "medium", SHAPE)}
    return {name: {part: seconds / found["result"]["tokens"] for part, seconds in found["result"]["parts"].items()} for name, found in wanted.items() if found}


def draw_parts(ax: Axes, found: dict[str, dict[str, float]]) -> None:
    """One bar for each model, in shares of its time; a sentence if there is none."""
    for name, each in found.items():
        left = 0.0
        for part, (colour, hatch) in PARTS.items():
            share = 100 * each.get(part, 0.0) / sum(each.values())
            ax.barh(name, share, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0, label=part)
            left += share
    ax.set(xlabel="share of the time, per cent", xlim=(0, 100))
    ax.invert_yaxis()
    finish(ax, bool(found))


def targets(model: str) -> list[tuple[int, float]]:
    """(number of targets, median seconds), in order."""
    found = row("targets", model, "synthetic")
    return sorted((int(number), seconds) for number, seconds in found["result"]["medians"].items()) if found else []


def distinct(model: str, curve: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The part of the curve in which no secret comes twice."""
    return [point for point in curve if point[0] <= row("targets", model, "synthetic")["result"]["secrets"]]


def draw_targets(ax: Axes, model: str, curve: list[tuple[int, float]]) -> None:
    """Seconds against targets, where second sentences follow in dashes, and a straight line through the origin and the first of them."""
    if curve:
        numbers, seconds = zip(*curve)
        ax.plot(numbers, [seconds[0] * number / numbers[0] for number in numbers], "--", color=figures.INK, label="in proportion to the first")
        once = distinct(model, curve)
        ax.plot(*zip(*once), **figures.look("revs"), label="REVS, one sentence a secret")
        if len(once) < len(curve):
            ax.plot(*zip(*curve[len(once) - 1 :]), **figures.look("revs") | {"linestyle": ":"}, label="REVS, second sentences too")
        ax.set(xticks=numbers, ylim=(0, 1.1 * max(seconds[-1], seconds[0] * numbers[-1] / numbers[0])))
    ax.set(xlabel="targets, two tokens each", ylabel="seconds")
    finish(ax, bool(curve))


def finish(ax: Axes, there: bool) -> None:
    """A legend beside the axes, or the sentence that stands for what is not there."""
    if there:
        handles = dict(zip(*ax.get_legend_handles_labels()[::-1]))  # by label: each once
        ax.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        ax.text(0.5, 0.5, f"{NOT_YET}: make bench adopt", ha="center", va="center", transform=ax.transAxes)


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
        return pd.DataFrame({"schedule": [NOT_YET]}), f"Not measured yet: `{commands()['schedules']}`."
    result, lines = found["result"], []
    for way in ("exact", "paper"):
        edit, effect, ranks = result["edits"][way], result["effects"][way], result["ranks"][way]
        lines.append({"schedule": f"`{way}`", "seconds": f"{result['medians'][way]:.1f}", "moves": f"{edit['moves']:,}", "columns": f"{edit['columns']:,}", "norm": f"{edit['norm']:.1f}", "out of reach": str(edit["unreached"]),
                      "median rank after": f"{median(ranks):,.0f}"} | {title: percent(effect[metric]) for metric, title in METRICS.items()})  # fmt: skip
    exact, paper = (result["edits"][way] for way in ("exact", "paper"))
    score = {way: 100 * effect["unlearning_score"] for way, effect in result["effects"].items()}
    left = paper["unreached"] - exact["unreached"]
    return pd.DataFrame(lines), (
        f"The paper's schedule takes {result['medians']['paper'] / result['medians']['exact']:.2f} times as long, changes {paper['columns'] / exact['columns']:.2f} times as many columns with {paper['norm'] / exact['norm']:.2f} times the norm, "
        f"and scores {score['paper']:.1f} against {score['exact']:.1f}. What exactness buys: the rank that was asked for and not one within ε of it, no factor and no bound on steps to choose; out of reach are {abs(left):,} neurons {'more' if left < 0 else 'fewer'} than for the paper's."
    )


def orders(model: str, data: str) -> tuple[pd.DataFrame, str]:
    """The layer-major order beside the paper's, over the seeds that both have in like circumstances, and whether it is as good and as quick."""
    runs = tagged(model, data, ORDER)
    sides = {"the paper's: token after token": by_seed(runs, "revs"), "layer-major": by_seed(runs, "layer_major")}
    seeds = common(*sides.values())
    if not seeds:
        return pd.DataFrame({"order": [NOT_YET]}), f"Not measured yet: `make bench adopt` (runs of `params/bench.yml` with `tag: {ORDER}`)."
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
    verdict = "higher on every seed" if (lead > 0).all() else "lower on every seed" if (lead < 0).all() else "higher on some seeds and not on others"
    in_turn = row("schedules", model, data)
    took = in_turn and in_turn["result"]["medians"]
    return pd.DataFrame(lines), (
        f"Over {results.listed(seeds)}, the layer-major order's Unlearning Score is {verdict}: {lead.mean():+.1f} points on average, from {lead.min():+.1f} to {lead.max():+.1f}. "
        + (f"In turn with the paper's order it took {took['layer_major'] / took['exact']:.2f} times as long: {took['layer_major']:.1f} s against {took['exact']:.1f} s." if took else f"Their times are measured in turn: `{commands()['schedules']}`.")
    )


def tagged(model: str, data: str, tag: str) -> pd.DataFrame:
    """The runs with a tag; empty if there is none."""
    frame = results.measured(model, data)
    return frame[frame["tag"] == tag]


def by_seed(frame: pd.DataFrame, method: str) -> dict[int, dict]:
    """The rows of a method's runs that did not fail."""
    return {one["provenance"]["settings"]["seed"]: one for one in results.finished(frame, method)}


def common(one: dict[int, dict], other: dict[int, dict]) -> list[int]:
    """Seeds of which both sides have a row, of the same fine-tune, machine, versions and number of threads: else no difference would be the method's."""
    alike = lambda row: (row["provenance"]["inputs"].get("model"), row["provenance"]["hardware"]["threads"], results.machine(row))
    return [seed for seed in sorted(one) if seed in other and alike(one[seed]) == alike(other[seed])]


# --- precision -------------------------------------------------------------------------------------------------------------


def precisions(model: str, data: str) -> tuple[pd.DataFrame, str]:
    """The same runs in float32 and in bfloat16: what the lower precision costs and gains, of each method that has both."""
    runs, lines, compared, where = {dtype: tagged(model, data, tag) for dtype, tag in PRECISIONS.items()}, [], [], ""
    for name in runs["float32"]["method"].unique():
        sides = {dtype: by_seed(frame, name) for dtype, frame in runs.items()}
        if not (seeds := common(*sides.values())):
            continue
        pair = {dtype: [side[seed] for seed in seeds] for dtype, side in sides.items()}
        hardware = pair["float32"][0]["provenance"]["hardware"]
        where = f"On {hardware['gpu'] or hardware['cpu']}, {hardware['threads']} threads"
        times = {dtype: median(one["provenance"]["seconds"]["unlearn"] for one in done) for dtype, done in pair.items()}
        for dtype, done in pair.items():
            lines.append({"method": figures.title(name), "precision": dtype, "seconds": f"{times[dtype]:.1f}", "peak, GiB": f"{max(one['provenance']['peak_memory_mb'] for one in done) / 1024:.1f}"} | {title: percent(mean(one["result"]["after"][metric] for one in done)) if done[0]["result"]["after"][metric] is not None else DASH for metric, title in METRICS.items()})
        compared.append(f"{figures.title(name)} takes {times['bfloat16'] / times['float32']:.2f} times as long in bfloat16")
    said = f"{where}: {'; '.join(compared)}." if compared else "No method was run in both yet: `make bench adopt` (runs of `params/bench.yml` with `tag: precision`)."
    return pd.DataFrame(lines or [{"method": NOT_YET}]), f"{said} {memorising(model, data)}"


def memorising(model: str, data: str) -> str:
    """A fine-tune in bfloat16 arithmetic beside the one in float32: how long its steps take in turn, and what the recorded ones memorised."""
    if not (timed := row("memorising", model, data)):
        return f"How long a fine-tune takes in both is not measured yet: `{commands()['memorising']}`."
    took = timed["result"]["medians"]
    said = f"Memorising, whose weights stay in float32: the same steps take {took['bfloat16'] / took['float32']:.2f} times as long with bfloat16 arithmetic, {took['bfloat16']:.1f} s against {took['float32']:.1f} s."
    found = {settings["autocast"]: one["result"] for one in results.finetunes(model, data) if (settings := one["provenance"]["settings"])["digits"] == "noise"}
    return said + (" Whole fine-tunes memorised " + " and ".join(f"{one['memorised']} of {one['sentences']} sentences with {'bfloat16' if half else 'float32'}" for half, one in sorted(found.items())) + "." if found else "")


# --- prediction ----------------------------------------------------------------------------------------------------------


def bench_settings() -> dict:
    """The numbers of neurons of the prediction: the paper's for the run whose minutes it prints."""
    printed = paper.tables()["hardware"]
    settings = paper.hyperparameters("REVS", printed["model"], printed["dataset"])
    return {name: int(settings[name]) for name in ("n_max", "k")}


def share() -> float:
    """Of the product of all candidates with U, what it takes to find the best; all of it as long as nobody has measured it."""
    found = row("selection", "smollm2-135m", "ssn")
    return found["result"]["share"] if found else 1.0


def predicted_work() -> tuple[dict, dict]:
    """The shape of Llama-3-8B in bfloat16, and the most that it can have to do: every layer edited, n_max neurons moved in each."""
    shape, tokens = operations.of_config(bench.shape(SHAPE), 2), 2 * SECRETS
    layers, settings = tokens * shape["layers"], bench_settings()
    candidates = min(settings["k"], round(share() * settings["k"]) + settings["n_max"])  # part of all of them, and the lines of those that are taken
    return shape, {"prompt": tokens * (bench.PROMPT + 1), "layers": layers, "moves": layers * settings["n_max"], "k": candidates}


def formulae() -> pd.DataFrame:
    """What each part costs, in letters."""
    return pd.DataFrame([{"part": part, "operations": flops, "bytes": traffic} for part, (flops, traffic) in operations.FORMULAE.items()])


def prediction() -> tuple[pd.DataFrame, str]:
    """Part by part what operation counts say and what was measured, at two small shapes here and for the large one; and how far they are apart."""
    shape, work = predicted_work()
    large = operations.seconds(operations.operations(shape, work, 2 * SECRETS), operations.machines()[MACHINE])
    columns, factors, extra = {}, {}, []
    for name in ("small", "medium", SHAPE):
        if found := row("shapes", name, bench.RANDOM):
            result = found["result"]
            expected = operations.seconds(operations.operations(result["shape"], result["work"], result["tokens"]), result["rates"])
            columns |= {f"{name}, predicted": expected, f"{name}, measured": result["parts"]}
            factors[name] = sum(result["parts"].values()) / sum(expected.values())
            device = "cuda" if found["provenance"]["hardware"]["gpu"] else "cpu"
            extra.append(f"{beyond(result['memory']):.0f} MiB at {name}, where {operations.extra_bytes(result['shape'], result['work']['k'], device) / 2**20:.0f} are predicted")
    columns |= {f"{SHAPE} on {operations.machines()[MACHINE]['title']}, predicted": large}
    table = pd.DataFrame({"part": [*PARTS, "all"]} | {name: [f"{each.get(part, 0.0):.3g}" for part in PARTS] + [f"{sum(each.values()):.3g}"] for name, each in columns.items()})
    total = sum(large.values())
    if not factors:
        return table, f"The counts say {total:.1f} s. They are not checked here yet: `{commands()['shapes']} --model small`, and the same with `medium`."
    text = "Measured ÷ predicted: " + ", ".join(f"{factor:.2f} at {name}" for name, factor in factors.items()) + ". "
    text += f"Memory beyond the model: {'; '.join(extra)}. "
    return table, text + f"The counts say {total:.1f} s for the large one; times the larger of these factors, {total * max(factors.values()):.1f} s. {launched()}"


def launched() -> str:
    """What a GPU has to be asked for, which the counts leave out; empty if it was not counted."""
    if not (found := row("shapes", "medium", bench.RANDOM)):
        return ""
    result, tokens, rates = found["result"], 2 * SECRETS, operations.machines()[MACHINE]
    each = result["calls"]["operations"] / (result["tokens"] * result["shape"]["layers"])
    calls = each * tokens * bench.shape(SHAPE)["num_hidden_layers"]
    return f"They leave out that a GPU has to be asked: torch was asked for {each:.0f} operations in a layer, in all of them at the large shape for {calls:,.0f}, of which each takes about {1e6 * rates['launch']:.0f} µs to begin, {calls * rates['launch']:.0f} s in all if none of them hides behind another."
