"""What was unlearned, for someone who has to answer for it: one HTML page that loads nothing and holds no secret.

Everything on it comes from a row of ``companion.runs.own`` and its items, so that it can be written again from them.
"""

from __future__ import annotations

import base64
import html
import io
import statistics
from pathlib import Path

import pandas as pd

from companion.own.steps import ANOTHER_PLACE
from companion.pages import figures, results
from companion.pages.extraction import TITLES
from companion.pages.tables import DASH, percent
from companion.record import rows
from revs.measures.metrics import flips

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:1rem 0;font-size:.9rem;display:block;overflow-x:auto}th,td{border-bottom:1px solid #ccc;padding:.3rem .7rem;text-align:right}
th:first-child,td:first-child{text-align:left}img{max-width:100%}.verdict{font-size:1.15rem;border-left:.3rem solid #0072b2;padding:.3rem 1rem;background:#eef5fb}
code{overflow-wrap:anywhere}@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}.verdict{background:#12273a}th,td{border-color:#444}}"""
NOT_GUARANTEED = (
    "Only the prompts that were tried are known: at most the last sixty tokens of the text before a secret, at no more than three places of each. A secret may come out after another prompt, in another spelling, or in another language.",
    "The model was asked for its most probable words. Drawn at random, again and again, less probable ones come out too.",
    "Only the rarest tokens of a secret are lowered. Someone who knows a part of it can narrow down the rest.",
    "Secrets that the model knows but that no document here contains were not looked for; what the table leaves out was not tried, and what the model writes only after other words was not unlearned.",
    "Whoever holds the model from before the edit, or the edit beside this model, can undo it, and can read which tokens were unlearned.",
    "Further training may bring a secret back.",
    "Copies of the model elsewhere are as they were.",
)
WORDS = {
    "Token": "a piece of text, often a part of a word. A model writes one after the other, and gives every token of its vocabulary a probability each time.",
    "Rank": "how many tokens the model finds more probable than this one. At 0 it writes it.",
    "Layer": "a model works in layers. Someone who holds its weights can look into each of them, and not only at what it writes.",
    "Logit-Lens, Delta": "two ways to look: at what a layer would write if it were the last, and at what a layer changes.",
    "Perturbation": "spaces are put into the prompt, to see whether a secret that is suppressed comes out after a slightly different one; once looked at in every layer, and once, as a user would, in what the model writes.",
    "Resistance": "how far down a list of the hundred likeliest tokens such an attacker has to go for those of the secret, in per cent of the list; 100 if they are not on it.",
    "Perplexity": "how surprised the model is by ordinary text, here a part of a manual of the Python language. Lower is better, and a small change either way means little.",
    "Specificity": "the share of other memorised secrets that are written as before.",
}


def lines(row: dict) -> list[str]:
    """The result in a few lines of a terminal."""
    return [what_was_tested(row["result"]), verdict(row)]


def total(result: dict, *names: str) -> int:
    """How many secrets of all kinds there are in some columns of the funnel."""
    return sum(counts.get(name, 0) for counts in result["found"].values() for name in names)


def what_was_tested(result: dict) -> str:
    """Documents, secrets, and what became of them."""
    always = {
        "documents read": result["documents"],
        "places of secrets found in them": total(result, "found"),
        "secrets tried": total(result, "tried"),
        "memorised": result["memorised"],
    }
    others = {
        "written only after other words, and left alone": total(result, "written later"),
        "lines of the list that stand in no document": len(result["absent"]),
    }
    return (
        "; ".join(
            f"{name}: {number:,}"
            for name, number in (
                always | {name: number for name, number in others.items() if number}
            ).items()
        )
        + "."
    ).capitalize()


def verdict(row: dict) -> str:
    """What unlearning did, in one sentence."""
    result = row["result"]
    if "before" not in result:
        why = (
            "no secret could be tried"
            if not total(result, "tried")
            else f"of those tried, the model writes {result['memorised'] or 'none'} right after the text before it"
        )
        return f"Nothing was edited: {why}."
    before, after = result["before"], result["after"]
    return (
        f"Secrets unlearned: {result['unlearned']:,}; of them the model wrote {before['written']} before and writes {after['written']} now; "
        f"against one who reads its layers their resistance is {percent(after['attacks']['resistance_score']['per_example'])} of 100 (before: {percent(before['attacks']['resistance_score']['per_example'])}); "
        f"{percent(after['changed'])} per cent of its next words in other text are different."
    )


def write(path: Path, row: dict, items: list[dict]) -> None:
    """Writes the page, whole or not at all."""
    result, made = row["result"], row["provenance"]
    parts = [
        f"<h1>What {text(made['model']['name'])} has memorised, and what was unlearned</h1>",
        f"<p class=verdict>{text(what_was_tested(result))} {text(verdict(row))}</p>",
        "<h2>What was tested</h2>",
        f"<p>Model {text(made['model']['name'])}, {text(made['model']['dtype'])}, weights <code>{text(made['model']['revision'])}</code>{', after it was made to memorise the synthetic secrets of this project' if made['settings'].get('finetune') else ''}. It was given the text before each secret, at most sixty tokens of it. A secret counts as memorised if the model's most probable next tokens are exactly it.</p>",
        table(found(result)),
    ]
    if result["skipped"]:
        parts.append(
            f"<p>Documents that were not read: {text(', '.join(f'{number} {why}' for why, number in result['skipped'].items()))}.</p>"
        )
    if result["absent"]:
        parts.append(
            f"<p>Lines of the list that stand in none of the documents, in just this spelling, and were not tried: {', '.join(map(str, result['absent']))}.</p>"
        )
    if "before" in result:
        frame = pd.DataFrame(items)
        parts += [
            "<h2>Before and after</h2>",
            table(before_and_after(row)),
            "<h2>Secret by secret</h2>",
            "<p>Redacted; one line for each place at which the model writes a secret. Documents are numbered as they were read, files in the order of their paths, and @ says at which character. The rank is that of the least likely of the secret's unlearned tokens.</p>",
            table(by_secret(frame)),
            "<h2>Layer by layer</h2>",
            "<p>How far from the top or the bottom of the vocabulary the unlearned tokens lie in each layer, the nearer end: the higher, the harder to find for someone who reads the layers.</p>",
            picture(layers, frame),
            table(by_layer(frame)),
            "<h2>Attacks</h2>",
            "<p>Resistance at 100 candidates, in per cent: 100 if nothing is found. <em>Per example</em>: the attacker needs all unlearned tokens of a secret in one layer; <em>token wise</em>: one token in any.</p>",
            table(attacks(result)),
            "<h2>What it cost elsewhere</h2>",
            table(elsewhere(result)),
            f"<p>{text(specificity(result))}</p>",
            "<h2>How the settings were chosen</h2>",
        ]
        if result["calibration"]:
            parts += [
                "<p>Half of the secrets to unlearn, at most twenty, were unlearned with each setting, and all of it undone; up to sixty of the others, and ordinary text, said what it cost. The setting with the highest score was chosen, of equal ones the softer. The score is the harmonic mean of efficacy, specificity, generalization to other places of the same secrets where there are any, and the share of next words in ordinary text that stay as they were. The secrets above are those that the choice was made on: others may do worse. The ordinary text above is not that of the choice. If it lost too much, softer settings of the table are the next to try.</p>",
                picture(calibration, result["calibration"]),
                table(settings(result["calibration"])),
            ]
        else:
            parts.append(
                "<p>No calibration belongs to this report: the settings were given, or the secrets were too few to choose on.</p>"
            )
        edit = result["edit"]
        parts += [
            "<h2>The edit</h2>",
            f"<p>{edit['columns']:,} columns of the second MLP matrix in {len(edit['layers'])} layers were moved, {edit['weights']:,} weights in all. {'' if edit['moves'] else 'Nothing was moved. '}The file <code>edit.safetensors</code>, where the run left one beside this page, makes the edit again on the same base model. The base model is the model without the edit: keep it, as confidential as the secrets, or a file that undoes the edit. The edit holds tokens of the secrets and is as confidential as they are.</p>",
        ]
    parts += [
        "<h2>What is not guaranteed</h2>",
        "<ul>" + "".join(f"<li>{sentence}</li>" for sentence in NOT_GUARANTEED) + "</ul>",
    ]
    if "before" in result:
        parts += [
            "<h2>The words</h2>",
            "<dl>"
            + "".join(
                f"<dt><b>{word}</b></dt><dd>{meaning}</dd>" for word, meaning in WORDS.items()
            )
            + "</dl>",
        ]
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
    known = ("found", "tried", ANOTHER_PLACE, "memorised", "written later")
    return pd.DataFrame(
        [
            {"kind": kind}
            | {name: counts.get(name, 0) for name in known}
            | {
                "left out": "; ".join(
                    f"{number} {why}" for why, number in counts.items() if why not in known
                )
                or DASH
            }
            for kind, counts in result["found"].items()
        ]
        or [{"kind": DASH}]
    )


def before_and_after(row: dict) -> pd.DataFrame:
    """Counts of secrets before and after."""
    before, after = row["result"]["before"], row["result"]["after"]
    lines = [
        {
            "": "unlearned secrets written within 50 tokens",
            "of": row["result"]["unlearned"],
            "before": before["written"],
            "after": after["written"],
        }
    ]
    if row["result"]["kept"]:
        lines.append(
            {
                "": "other secrets still written exactly",
                "of": row["result"]["kept"],
                "before": before["kept"],
                "after": after["kept"],
            }
        )
    return pd.DataFrame(lines)


def by_secret(frame: pd.DataFrame) -> pd.DataFrame:
    """One line a secret."""
    return pd.DataFrame([
        {"": str(one["number"]), "kind": one["kind"], "secret": one["shown"], "document": f"{one['document']} @ {one['offset']:,}", "was": one["part"],
         "rank before": f"{one['lowest_before']:,}", "rank after": f"{one['lowest_after']:,}", "still written": "yes" if one["within_50_after"] else "no"}
        for one in frame.to_dict("records")
    ])  # fmt: skip


def attacks(result: dict) -> pd.DataFrame:
    """Resistance to every attack in two readings, before and after."""
    lines = []
    for attack, title in TITLES.items():
        cells = {
            f"{reading.replace('_', ' ')}, {when}": percent(
                result[when]["attacks"][attack][reading]
            )
            for reading in ("per_example", "token_wise")
            for when in ("before", "after")
        }
        lines.append({"attack": title} | cells)
    seen = {
        f"per example, {when}": percent(result[when]["attacks"]["black_box"])
        for when in ("before", "after")
    }
    return pd.DataFrame([*lines, {"attack": "Perturbation, in what is written"} | seen]).fillna(
        DASH
    )


def by_layer(frame: pd.DataFrame) -> pd.DataFrame:
    """Median depth of the unlearned tokens in a few layers, before and after."""
    depths = {when: depth(frame, when) for when in ("before", "after")}
    last = len(depths["before"]) - 1
    return pd.DataFrame(
        [
            {"layer": str(l)} | {when: f"{layers[l]:,.0f}" for when, layers in depths.items()}
            for l in sorted({round(last * part / 5) for part in range(6)})
        ]
    )


def specificity(result: dict) -> str:
    """What is known of other secrets, in one sentence."""
    if result["kept"]:
        return f"Specificity: of the memorised secrets that were kept, {result['after']['kept']} of {result['kept']} are still written exactly (before: {result['before']['kept']}); they had no part in choosing the settings."
    best = next((one for one in result["calibration"] if one.get("chosen")), None)
    return "Specificity: every memorised secret was unlearned, so that none is left to look at" + (
        f"; while the settings were chosen, {percent(best['specificity'])} per cent of those that were kept stayed as they were."
        if best
        else "."
    )


def elsewhere(result: dict) -> pd.DataFrame:
    """Perplexity, changed next tokens, and the benchmarks if they were asked for."""
    before, after = result["before"]["elsewhere"], result["after"]["elsewhere"]
    lines = [
        {
            "": "perplexity on text without secrets",
            "before": plain(before["perplexity"]),
            "after": plain(after["perplexity"]),
        },
        {
            "": "next tokens there that are different, per cent",
            "before": DASH,
            "after": percent(result["after"]["changed"], digits=2),
        },
    ]
    for name in ("mmlu", "gsm8k"):
        if name in before:
            turned = flips(before[name]["right"], after[name]["right"])
            lines.append(
                {
                    "": f"{name.upper()}, per cent right ({turned['lost']} lost, {turned['won']} won of {before[name]['items']})",
                    "before": percent(before[name]["accuracy"]),
                    "after": percent(after[name]["accuracy"]),
                }
            )
    return pd.DataFrame(lines)


def plain(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"


def settings(tried: list[dict]) -> pd.DataFrame:
    """Every setting that a calibration tried; generalization where there was any."""
    parts = {
        "efficacy": "efficacy",
        "generalization": "generalization",
        "specificity": "specificity",
        "unchanged": "ordinary text unchanged",
        "unlearning_score": "Unlearning Score",
        "score": "score",
    }
    known = {part: title for part, title in parts.items() if tried[0][part] is not None}
    return pd.DataFrame([
        {"setting": ", ".join(f"{name} = {value}" for name, value in one["setting"].items())} | {title: percent(one[part]) for part, title in known.items()} | {"columns": f"{one['columns']:,}", "chosen": "yes" if one.get("chosen") else ""}
        for one in tried
    ])  # fmt: skip


def provenance(row: dict) -> pd.DataFrame:
    """When, with what, on what."""
    made = row["provenance"]
    asked = {
        name: made["settings"][name]
        for name in ("kinds", "limit", "forget", "minutes", "seed")
        if name in made["settings"]
    }
    told = {"date": made["when"], "asked for": ", ".join(f"{name} = {value}" for name, value in asked.items()) or DASH, "settings": ", ".join(f"{name} = {value}" for name, value in row["result"].get("settings", {}).items()) or DASH, "seconds": ", ".join(f"{name} {seconds:.0f}" for name, seconds in made["seconds"].items()),
            "processor": made["hardware"]["gpu"] or made["hardware"]["cpu"], "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items()), "code": made["stamp"][:12]}  # fmt: skip
    return pd.DataFrame([{"": name, " ": value} for name, value in told.items()])


def recorded() -> pd.DataFrame:
    """Every recorded run from documents to a report: what it found, what unlearning did, and how long it took."""
    lines = []
    for row in rows.find(rows.RECORDED, kind="own").values():
        result, made = row["result"], row["provenance"]
        after, spent = result.get("after", {}), made["seconds"]
        lines.append({
            "run": f"`{row['name'].split('/')[1]}`", "model": results.title(made["model"]["name"]), "documents": f"{result['documents']:,}", "tried": f"{total(result, 'tried'):,}", "memorised": f"{result['memorised']:,}",
            "unlearned, written before → after": f"{result['unlearned']}: {result['before']['written']} → {after['written']}" if after else DASH,
            "kept, exact before → after": f"{result['kept']}: {result['before']['kept']} → {after['kept']}" if after and result["kept"] else DASH,
            "resistance": percent(after["attacks"]["resistance_score"]["per_example"]) if after else DASH, "calibrating, minutes": f"{spent.get('calibrate', 0) / 60:.0f}", "all, minutes": f"{sum(spent.values()) / 60:.0f}",
            "on": f"{made['hardware']['gpu'] or made['hardware']['cpu']}, {made['hardware']['threads']} threads",
        })  # fmt: skip
    return pd.DataFrame(lines)


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


def depth(frame: pd.DataFrame, when: str) -> list[float]:
    """By layer, how far the unlearned tokens lie from the nearer end of the vocabulary: medians over tokens, then places."""
    of_each = [
        [statistics.median(layer) for layer in one]
        for one in frame.loc[frame["part"] == "unlearned", f"logit_lens_{when}"]
    ]
    return [statistics.median(layer) for layer in zip(*of_each)]


def layers(ax, frame: pd.DataFrame) -> None:
    """Median depth of the unlearned tokens in each layer, before and after."""
    for when, method in (("before", "unedited"), ("after", "revs")):
        ax.plot(depth(frame, when), label=when, **figures.look(method) | {"markersize": 4})
    ax.set(xlabel="layer", ylabel="places from the nearer end", yscale="symlog", ylim=(-0.5, None))
    ax.legend()


def calibration(ax, tried: list[dict]) -> None:
    """What every setting that calibration tried keeps over its efficacy, of other secrets and of ordinary text, the chosen one filled."""
    best = next(one for one in tried if one.get("chosen"))
    for part, label, marker in (
        ("specificity", "other secrets (filled: chosen)", "o"),
        ("unchanged", "next words in ordinary text", "s"),
    ):
        look = figures.look("revs") | {"linestyle": "none", "marker": marker}
        ax.plot(
            [100 * one["efficacy"] for one in tried],
            [100 * one[part] for one in tried],
            label=label,
            **look | {"markersize": 6, "markerfacecolor": "none"},
        )
        ax.plot(100 * best["efficacy"], 100 * best[part], **look | {"markersize": 9})
    ax.set(xlabel="efficacy, per cent", ylabel="kept, per cent", xlim=(-3, 103), ylim=(-3, 103))
    ax.legend(loc="lower left")
