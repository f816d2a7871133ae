"""What was unlearned, for someone who has to answer for it: one HTML page without a secret.

Everything on it comes from what ``document_audit.audit.content`` gives, which can be kept as JSON.
Its sentences stand in report.html.j2; it loads nothing.
"""

import base64
import io
import platform
import statistics
import time
from pathlib import Path

import jinja2
import torch

from document_audit.edit_file import library_versions, pins
from document_audit.files import PRIVATE, write_file
from revs.model.architecture import Decoder

LIGHT, DARK = "#999999", "#0072b2"  # before and after
COLORS = (DARK, "#009e73", "#d55e00")
EACH = 6  # layers in the table
KEPT = {
    "kept": "other secrets",
    "nearby_text": "text around the secrets",
    "next_word_agreement": "general text",
}


def percent(share: float | None, digits: int = 1) -> str:
    """A share in per cent, or a dash."""
    return "–" if share is None else f"{round(100 * share, digits) + 0.0:.{digits}f}"  # no −0.0


TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=lambda name: ".html" in name,  # what goes into a page is escaped
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.filters |= {"percent": percent, "median": statistics.median}


def render(template: str, **values) -> str:
    """A template with some values."""
    return TEMPLATES.get_template(template).render(**values)


def found_sentence(result: dict) -> str:
    """What was found, in a line."""
    return render("found.j2", result=result).strip()


def verdict(result: dict) -> str:
    """What came of it, in a few lines, for a terminal and the top of the page."""
    return render("verdict.j2", result=result).strip()


def about(
    decoder: Decoder,
    settings: dict | None = None,
    seconds: dict[str, float] | None = None,
    note: str = "",
) -> dict:
    """Return how a report on this model was made: model, versions, date and processor; the settings
    asked for, the seconds of each part, and a note on the model."""
    cpu = platform.processor() or platform.machine()
    return {"model": decoder.name, **pins(decoder), "versions": library_versions()} | {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processor": torch.cuda.get_device_name() if torch.cuda.is_available() else cpu,
        "seconds": seconds or {},
        "settings": settings or {},
        "note": note,
    }


def write(path: str | Path, result: dict, values: list[dict], made: dict) -> None:
    """Write the page, whole or not at all, readable by its owner alone.

    ``result`` and ``values`` come from ``audit.content``, ``made`` from ``about``. Raises
    ValueError if they are of states that were observed without attacks.
    """
    more = {"found": found_sentence(result)}
    if result.get("trials"):
        more["tried"] = picture(draw_trials, result["trials"], result["limits"])
    if "before" in result:
        before, after = ranks_from_end(values, "before"), ranks_from_end(values, "after")
        places = sorted({round((len(before) - 1) * part / (EACH - 1)) for part in range(EACH)})
        more |= {
            "layers": [(l, before[l], after[l]) for l in places],
            "by_layer": picture(draw_layers, before, after),
        }
    page = render("report.html.j2", made=made, result=result, values=values, **more)
    write_file(Path(path), page, PRIVATE)


def ranks_from_end(values: list[dict], when: str) -> list[float]:
    """By layer, how far the unlearned tokens lie from the nearer end of the vocabulary.

    Medians over the tokens of a place, then over places. Raises ValueError if nobody looked.
    """
    looked = [one[f"logit_lens_{when}"] for one in values if one["part"] == "unlearned"]
    if None in looked:
        said = f"The state {when} the edit was observed without attacks, of which a report tells: "
        raise ValueError(said + "observe it with attack=True.")
    each = [[statistics.median(layer) for layer in one] for one in looked]
    return [statistics.median(layer) for layer in zip(*each, strict=True)]


def picture(draw, *content) -> str:
    """A figure as it stands inside a page."""
    import matplotlib.pyplot as plt  # slow to import

    fig, ax = plt.subplots(figsize=(7, 3.2))
    draw(ax, *content)
    ax.legend()
    source = encoded(fig)
    plt.close(fig)
    return source


def encoded(fig, dpi: int = 130) -> str:
    """A figure as the source of an image."""
    stream = io.BytesIO()
    fig.savefig(stream, format="png", bbox_inches="tight", dpi=dpi)
    return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"


def draw_layers(ax, before: list[float], after: list[float]) -> None:
    """Distance from the nearer end by layer, before and after."""
    ax.plot(before, "o--", color=LIGHT, markersize=4, label="before")
    ax.plot(after, "o-", color=DARK, markersize=4, label="after")
    ax.set(xlabel="layer", ylabel="ranks from the nearer end", yscale="symlog", ylim=(-0.5, None))
    ax.xaxis.get_major_locator().set_params(integer=True)


def draw_trials(ax, tried: list[dict], limits: dict[str, float]) -> None:
    """What every setting tried keeps over what it forgets; limits dashed, the chosen one filled."""
    for (part, label), marker, color in zip(KEPT.items(), "o^s", COLORS, strict=True):
        some = [one for one in tried if one["shares"][part] is not None]
        for one in some:
            fill = color if one["chosen"] else "none"
            place = (100 * one["shares"]["forgotten"], 100 * one["shares"][part])
            ax.plot(*place, marker, color=color, markerfacecolor=fill, label=label)
            label = None
        if some:
            ax.axhline(100 * limits[part], color=color, linestyle="--", linewidth=0.8)
    ax.axvline(100 * limits["forgotten"], color=LIGHT, linestyle="--", linewidth=0.8)
    ax.set(xlabel="forgotten, per cent", ylabel="kept, per cent", xlim=(-3, 103))
