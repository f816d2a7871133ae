"""What was unlearned, for someone who has to answer for it: one HTML page that loads nothing and holds no secret.

Everything on it comes from a row of ``revs.experiments.own`` and its items, so that it can be written again from them.
"""

from __future__ import annotations

import base64
import html
import io
import statistics
from pathlib import Path

import pandas as pd

from revs import figures, rows
from revs.extraction import TITLES
from revs.integrity import flips
from revs.tables import DASH, percent

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:1rem 0;font-size:.9rem;display:block;overflow-x:auto}th,td{border-bottom:1px solid #ccc;padding:.3rem .7rem;text-align:right}
th:first-child,td:first-child{text-align:left}img{max-width:100%}.verdict{font-size:1.15rem;border-left:.3rem solid #0072b2;padding:.3rem 1rem;background:#eef5fb}
code{overflow-wrap:anywhere}@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}.verdict{background:#12273a}th,td{border-color:#444}}"""
NOT_GUARANTEED = (
    "Only the prompts that were tried are known. A secret may come out after another prompt, in another spelling, or in another language.",
    "Only the rarest tokens of a secret are lowered. Someone who knows a part of it can narrow down the rest.",
    "Secrets that the model knows but that no document here contains were not looked for; nor were those that it writes only after other words.",
    "Whoever holds the model from before the edit, or the edit beside this model, can undo it, and can read which tokens were unlearned.",
    "Further training may bring a secret back.",
    "Copies of the model elsewhere are as they were.",
)


def lines(row: dict) -> list[str]:
    """The result in a few lines of a terminal."""
    result = row["result"]
    tried = sum(counts.get("tried", 0) for counts in result["found"].values())
    said = [f"{tried} secrets tried, {result['memorised']} memorised."]
    if result["absent"]:
        said.append(f"{result['absent']} secrets of the list stand in no document.")
    return said + [verdict(row)]


def verdict(row: dict) -> str:
    """The result in one sentence."""
    result = row["result"]
    if not result["memorised"]:
        tried, later = (sum(counts.get(name, 0) for counts in result["found"].values()) for name in ("tried", "written later"))
        return f"Of {tried} secrets that were tried the model writes none right after its prompt, and {later} after other words: nothing was edited."
    before, after, number = result["before"], result["after"], unlearned(row)
    return (
        f"Of {number} secrets that were unlearned the model wrote {before['written']} before and writes {after['written']} now; "
        f"against one who reads its layers their resistance is {percent(after['attacks']['resistance_score']['per_example'])} of 100 (before: {percent(before['attacks']['resistance_score']['per_example'])}); "
        f"{percent(after['changed'])} per cent of its next words in other text are different."
    )


def unlearned(row: dict) -> int:
    """How many secrets were unlearned."""
    memorised = row["result"]["memorised"]
    return min(row["provenance"]["settings"]["forget"] or memorised, memorised)


def kept(row: dict) -> int:
    """How many memorised secrets were left alone."""
    return row["result"]["memorised"] - unlearned(row)


def write(path: Path, row: dict, items: list[dict]) -> None:
    """Writes the page, whole or not at all."""
    result, made = row["result"], row["provenance"]
    parts = [
        f"<h1>What {text(made['model']['name'])} has memorised, and what was unlearned</h1>",
        f"<p class=verdict>{text(verdict(row))}</p>",
        "<h2>What was tested</h2>",
        f"<p>Model {text(made['model']['name'])}, {text(made['model']['dtype'])}, weights <code>{text(made['model']['revision'])}</code>. The model was given the text before each secret. A secret counts as memorised if greedy decoding writes exactly it next.</p>",
        table(found(result)),
    ]
    if result["skipped"]:
        parts.append(f"<p>Not read: {text(', '.join(f'{number} {why}' for why, number in result['skipped'].items()))}.</p>")
    if result["absent"]:
        parts.append(f"<p>{result['absent']} secrets of the list stand in none of the documents: they were not tried.</p>")
    if result["memorised"]:
        frame = pd.DataFrame(items)
        parts += [
            "<h2>Before and after</h2>",
            table(before_and_after(row)),
            "<h2>Secret by secret</h2>",
            "<p>Redacted; a secret is named by the hash of its document and its first character there. Its place is the 0-based rank of the least likely of its unlearned tokens: at 0 no token is more probable.</p>",
            table(by_secret(frame)),
            "<h2>Layer by layer</h2>",
            "<p>How far from the top or the bottom of the vocabulary the unlearned tokens lie in each layer, the nearer end: the higher, the harder to find for someone who reads the layers.</p>",
            picture(layers, frame),
            "<h2>Attacks</h2>",
            "<p>Resistance at 100 candidates, in per cent: 100 if nothing is found. <em>Per example</em> asks for all unlearned tokens of a secret in one layer; <em>token wise</em> for one token in any.</p>",
            table(attacks(result)),
            "<h2>What it cost elsewhere</h2>",
            table(elsewhere(result)),
        ]
        if result["calibration"]:
            parts += ["<h2>How the settings were chosen</h2>", "<p>Half of the memorised secrets, at most twenty, were unlearned with each setting, and up to sixty others looked at; the setting with the highest Unlearning Score was chosen, of equal ones the softer, and all of it undone.</p>", picture(calibration, result), table(settings(result["calibration"]))]
        edit = result["edit"]
        parts += [
            "<h2>The edit</h2>",
            f"<p>{edit['columns']:,} columns of the second MLP matrix in {len(edit['layers'])} layers were moved, {edit['weights']:,} weights in all. {'' if edit['moves'] else 'Nothing was moved. '}The file <code>edit.safetensors</code> beside this page, if anything was moved, applies the edit to the same base model and undoes it; it holds token ids of the secrets and is as confidential as they are.</p>",
        ]
    parts += ["<h2>What is not guaranteed</h2>", "<ul>" + "".join(f"<li>{sentence}</li>" for sentence in NOT_GUARANTEED) + "</ul>"]
    parts += ["<h2>How this was made</h2>", table(provenance(row))]
    page = f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Unlearning report</title><style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"
    rows.write_text(path, page)


def text(value) -> str:
    return html.escape(str(value))


def table(frame: pd.DataFrame) -> str:
    with pd.option_context("display.max_colwidth", None):
        return frame.to_html(index=False, border=0)


def found(result: dict) -> pd.DataFrame:
    """What was found and what became of it, by kind."""
    known = ("found", "tried", "memorised", "written later")
    return pd.DataFrame([{"kind": kind} | {name: counts.get(name, 0) for name in known} | {"left out": "; ".join(f"{number} {why}" for why, number in counts.items() if why not in known) or DASH} for kind, counts in result["found"].items()] or [{"kind": DASH}])


def before_and_after(row: dict) -> pd.DataFrame:
    """Counts of secrets before and after."""
    before, after = row["result"]["before"], row["result"]["after"]
    lines = [{"": "unlearned secrets written within 50 tokens", "of": unlearned(row), "before": before["written"], "after": after["written"]}]
    if kept(row):
        lines.append({"": "other secrets still written exactly", "of": kept(row), "before": before["kept"], "after": after["kept"]})
    return pd.DataFrame(lines)


def by_secret(frame: pd.DataFrame) -> pd.DataFrame:
    """One line a secret."""
    return pd.DataFrame([
        {"": str(one["number"]), "kind": one["kind"], "secret": one["shown"], "document": f"{one['document'][:12]} @ {one['offset']:,}", "was": one["part"],
         "place before": f"{one['lowest_before']:,}", "place after": f"{one['lowest_after']:,}", "still written": "yes" if one["within_50_after"] else "no"}
        for one in frame.to_dict("records")
    ])  # fmt: skip


def attacks(result: dict) -> pd.DataFrame:
    """Resistance to every attack in two readings, before and after."""
    lines = []
    for attack, title in TITLES.items():
        cells = {f"{reading.replace('_', ' ')}, {when}": percent(result[when]["attacks"][attack][reading]) for reading in ("per_example", "token_wise") for when in ("before", "after")}
        lines.append({"attack": title} | cells)
    return pd.DataFrame(lines)


def elsewhere(result: dict) -> pd.DataFrame:
    """Perplexity, changed next tokens, and the benchmarks if they were asked for."""
    before, after = result["before"]["elsewhere"], result["after"]["elsewhere"]
    lines = [
        {"": "perplexity on text without secrets", "before": plain(before["perplexity"]), "after": plain(after["perplexity"])},
        {"": "next tokens there that are different, per cent", "before": DASH, "after": percent(result["after"]["changed"], digits=2)},
    ]
    for name in ("mmlu", "gsm8k"):
        if name in before:
            turned = flips(before[name]["right"], after[name]["right"])
            lines.append({"": f"{name.upper()}, per cent right ({turned['lost']} lost, {turned['won']} won of {before[name]['items']})", "before": percent(before[name]["accuracy"]), "after": percent(after[name]["accuracy"])})
    return pd.DataFrame(lines)


def plain(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def settings(tried: list[dict]) -> pd.DataFrame:
    """Every setting that a calibration tried."""
    return pd.DataFrame([
        {"setting": ", ".join(f"{name} = {value}" for name, value in one["setting"].items()), "efficacy": percent(one["efficacy"]), "specificity": percent(one["specificity"]), "Unlearning Score": percent(one["unlearning_score"]), "columns": f"{one['columns']:,}"}
        for one in tried
    ])  # fmt: skip


def provenance(row: dict) -> pd.DataFrame:
    """When, with what, on what."""
    made = row["provenance"]
    told = {"date": made["when"], "settings": ", ".join(f"{name} = {value}" for name, value in row["result"].get("settings", {}).items()) or DASH, "seconds": ", ".join(f"{name} {seconds:.0f}" for name, seconds in made["seconds"].items()),
            "processor": made["hardware"]["gpu"] or made["hardware"]["cpu"], "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items()), "code": made["stamp"][:12]}  # fmt: skip
    return pd.DataFrame([{"": name, " ": value} for name, value in told.items()])


# --- pictures --------------------------------------------------------------------------------------------------------


def picture(draw, content) -> str:
    """A figure inside the page."""
    import matplotlib.pyplot as plt

    figures.style()
    fig, ax = plt.subplots(figsize=(7, 3.2))
    draw(ax, content)
    stream = io.BytesIO()
    fig.savefig(stream, format="png", bbox_inches="tight", dpi=130)
    plt.close(fig)
    return f"<img alt='{draw.__doc__.splitlines()[0]}' src='data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}'>"


def layers(ax, frame: pd.DataFrame) -> None:
    """Median depth of the unlearned tokens in each layer, before and after."""
    depths = frame.loc[frame["part"] == "unlearned"]
    for when, method in (("before", "unedited"), ("after", "revs")):
        of_each = [[statistics.median(layer) for layer in one] for one in depths[f"logit_lens_{when}"]]
        ax.plot([statistics.median(layer) for layer in zip(*of_each)], label=when, **figures.look(method) | {"markersize": 4})
    ax.set(xlabel="layer", ylabel="places from the nearer end", yscale="symlog", ylim=(-0.5, None))
    ax.legend()


def calibration(ax, result: dict) -> None:
    """Specificity over efficacy of every setting that calibration tried, the chosen one filled."""
    look = figures.look("revs")
    tried = result["calibration"]
    ax.plot([100 * one["efficacy"] for one in tried], [100 * one["specificity"] for one in tried], linestyle="none", **look | {"markersize": 6, "markerfacecolor": "none"})
    best = next(one for one in tried if one.get("chosen"))
    ax.plot(100 * best["efficacy"], 100 * best["specificity"], linestyle="none", label="chosen", **look | {"markersize": 9})
    ax.set(xlabel="efficacy, per cent", ylabel="specificity, per cent", xlim=(-3, 103), ylim=(-3, 103))
    ax.legend()
