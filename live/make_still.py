"""Draw the picture that the book shows before a click: python live/make_still.py

Opens the figure in Chromium and runs the first example of examples.json, whatever it shows: at the
default settings, for book/live_figure.md, and at two bad ones, whose results are kept in
live/model/tried.json.
"""

import json
import tempfile
from pathlib import Path
from string import Template

import chromium

from companion.store.paths import ROOT
from companion.workflow import live

TEMPLATE, TARGET = live.SOURCE / "page" / "figure.html", ROOT / "book" / "live_figure.md"
BAD = {"small_r_h": {"r_h": 3}, "small_r_n": {"r_n": 400}}
PROMPT = 80  # the most characters of a prompt in the still
DONE = "document.getElementById('revs-live').dataset.state === 'after'"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium.page() as page:
        open_figure(page, figure({}), Path(folder))
        page.evaluate("document.querySelector('[data-live=load]').click()")
        page.wait(DONE)
        places = {name: f"[data-live={name}]" for name in ("chart", "prompt")}
        places |= {when: f"[data-when={when}][data-what=says]" for when in ("before", "after")}
        find = "document.querySelector('{}').innerHTML"
        found = {name: page.evaluate(find.format(place)) for name, place in places.items()}
        found |= {"prompt": shortened(found["prompt"]), "alt": alt(page)}
        tried = {}
        for name, settings in BAD.items():
            page.evaluate(f"revsLive.set({json.dumps(settings)})")
            page.wait(DONE)
            tried[name] = {"settings": settings, "shows": shows(page)}
    file = live.SOURCE / "model" / "tried.json"
    file.write_text(json.dumps(tried, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    TARGET.write_text(f"```{{raw}} html\n{figure(found)}```\n", encoding="utf-8")


def figure(found: dict[str, str]) -> str:
    """The figure's HTML with what was found in its places."""
    size = sum(len(content) for content in live.files().values()) / 1e6
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    return template.safe_substitute({"megabytes": f"{size:.0f}"} | found)


def shortened(prompt: str) -> str:
    """The last words of a long prompt, after an ellipsis."""
    words = prompt.split()
    while len(" ".join(words)) > PROMPT:
        words.pop(0)
    return f"… {' '.join(words)}" if words != prompt.split() else prompt


def open_figure(page: chromium.Page, html: str, folder: Path) -> None:
    """Opens a page of the book's style, as a file, with nothing but the figure."""
    live.write(folder)
    style = (ROOT / "book" / "_static" / "style.css").read_text(encoding="utf-8")
    style += "html { --pst-color-background: #fff; }"
    style += "body { background: var(--pst-color-background); color: var(--pst-color-text-base); "
    style += "font: 16px/1.6 sans-serif; max-width: 46rem; margin: 1rem auto; padding: 0 1rem; }"
    style += ".visually-hidden { display: none; }"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head = f'<html lang="en" data-theme="light">{head}<style>{style}</style>'
    body = f'<title>The figure</title><body class="bd-article">{html}'
    (folder / "book").mkdir(exist_ok=True)
    file = folder / "book" / "page.html"
    file.write_text(f"<!doctype html>{head}{body}", encoding="utf-8")
    page.open(file.as_uri())


def alt(page: chromium.Page) -> str:
    """The chart in words."""
    ends = "(({before, after, token}) => [before, after].map((one) => one.ranks.at(-1)[token]))"
    before, after = page.evaluate(f"{ends}(revsLive.state)")
    return (
        "A line chart of a secret token's rank after each of six layers: "
        f"{before} at the end before the edit, {after:,} after it."
    )


def shows(page: chromium.Page) -> str:
    """What a setting does, in words."""
    many = page.evaluate("document.querySelector('[data-live=\"how-many\"]').textContent")
    state = page.evaluate(
        "(({before, after, token}) => ({token: before.tokens[token], said: after.says.said,"
        " rank: after.ranks.at(-1)[token]}))(revsLive.state)"
    )
    moved = "no neuron moves" if many == "0 neurons" else f"{many} move"
    if state["said"]:
        return f"{moved}, and the model still writes the number"
    rank = f"“{state['token']}” has rank {state['rank']:,} at the end"
    near = ", so that a reader of the next few candidates finds it" if state["rank"] < 10 else ""
    return f"{moved}, the model writes something else, and {rank}{near}"


if __name__ == "__main__":
    main()
