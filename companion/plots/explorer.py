"""The explorers: ranks of ten secrets by layer and token, before and after each method's edit; and
what a harder edit forgets and keeps.

Drawn by Vega-Altair. A page holds a still picture, shown at once and without scripts; the library,
which all pages share, replaces it with the explorer. No server is needed.
"""

import html
import json

import altair as alt
import pandas as pd
import vl_convert

from companion.analysis.tradeoffs import KNOBS
from companion.experiments import methods
from companion.plots import figures
from companion.store.paths import ROOT

DATA = ROOT / "data" / "ranks" / "ranks.json"
SCRIPT = "../_static/vega.js"  # companion.workflow.site puts it there
BEFORE = "before the edit"
WIDTH = 470  # of the panels, in pixels
SCALE = {"type": "symlog", "domain": [0, 50_000], "reverse": True}  # likely tokens at the top
TENS = [0, 10, 20, 29]  # layers that an axis names
TICKS = [0, 1, 10, 100, 1_000, 10_000]
SHAPES = {"s": "square", "^": "triangle-up", "D": "diamond"}  # of the other figures' markers
DASHES = [[5, 3], [1, 0], [8, 2], [2, 2], [8, 2, 2, 2]]  # for eyes that tell few colours apart
LOOK = {
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {"gridColor": "#8884", "domainColor": "#888", "tickColor": "#888"},
}
SHOW = f"""(spec => {{
  const place = document.getElementById("explorer"), room = place.clientWidth - 90;
  if (room < {WIDTH + 100}) {{  // a phone: narrower panels, the legend below
    for (const part of spec.vconcat) part.width = Math.min(part.width, room);
    spec.config.legend = {{orient: "bottom", columns: 2}};
  }}
  vegaEmbed(place, spec, {{actions: false, renderer: "svg", bind: "#explorer-controls"}});
}})"""


class Explorer:
    """A chart for a page and for Jupyter; ``said`` is its text for readers who cannot see it."""

    def __init__(self, drawn: alt.VConcatChart, said: str):
        self.spec, self.said = drawn.to_dict() | {"description": said}, said

    def _repr_mimebundle_(self, **_) -> dict:
        return {"application/vnd.vegalite.v6+json": self.spec, "text/html": self.html()}

    def html(self) -> str:
        still = vl_convert.vegalite_to_svg(self.spec)
        spec = json.dumps(self.spec, ensure_ascii=False, separators=(",", ":"))
        spec = spec.replace("</", r"<\/")  # which would end the script
        label = html.escape(self.said)
        return (
            '<div class="explorer" id="explorer-controls"></div>\n'
            f'<div class="explorer" id="explorer" role="group" aria-label="{label}">{still}</div>\n'
            f'<script defer src="{SCRIPT}"></script>\n'
            f'<script>addEventListener("load", () => window.vegaEmbed && {SHOW}({spec}));</script>'
        )


def read() -> dict:
    """What data/ranks/make.py found."""
    return json.loads(DATA.read_text(encoding="utf-8"))


def ranks(found: dict) -> Explorer:
    """Two maps, a row per token and a column per layer, and a line per method for one token."""
    titles = {name: methods.title(name) for name in figures.in_order(found["settings"])}
    table = [
        {
            "secret": f"{one['name']} ({'forgotten' if one['forgotten'] else 'to keep'})",
            "place": place,
            "token": f"{place + 1}: {token}{' *' if place in one['targets'] else ''}",
            "layer": list(range(len(one["before"][place]))),
            BEFORE: one["before"][place],
            **{title: one[name][place] for name, title in titles.items()},
        }
        for one in found["secrets"]
        for place, token in enumerate(one["tokens"])
    ]
    names = list(dict.fromkeys(line["secret"] for line in table))
    shown = [BEFORE, *titles.values()]
    secret = select("secret", names, "Secret ")
    method = select("method", shown[1:], "Method ", value=titles["revs"])
    place = select("place", sorted({line["place"] for line in table}), "Token ", 1)
    base = (
        alt.Chart(alt.InlineData(table))
        .transform_filter("datum.secret == secret")
        .transform_flatten(["layer", *shown])
        .transform_fold(shown, ["when", "rank"])
    )
    colour = alt.Color("rank:Q", scale=alt.Scale(scheme="viridis", **SCALE), title="rank")
    grid = base.mark_rect().encode(
        x=alt.X("layer:O", title="after layer", axis=alt.Axis(values=TENS, labelAngle=0)),
        y=alt.Y("token:O", title=None),
        color=colour,
        tooltip=["token:O", "layer:O", "rank:Q"],
    )
    small = {"width": WIDTH, "height": 105}
    maps = [
        grid.transform_filter(f"datum.when == '{BEFORE}'").properties(title=BEFORE, **small),
        grid.transform_filter("datum.when == method")
        .encode(color=colour.legend(None))
        .properties(title=alt.TitleParams(alt.ExprRef("'after ' + method")), **small),
    ]
    title = alt.TitleParams(alt.ExprRef("'token ' + (place + 1) + ', by method'"))
    colours = [figures.INK, *(figures.look(name)["color"] for name in titles)]
    dashes = alt.Scale(domain=shown, range=[DASHES[i % len(DASHES)] for i in range(len(shown))])
    wide = f"datum.when == method || datum.when == '{BEFORE}'"
    lines = (
        base.transform_filter("datum.place == place")
        .mark_line()
        .encode(
            x=alt.X("layer:Q", title="after layer", axis=alt.Axis(values=TENS)),
            y=alt.Y("rank:Q", title="rank", scale=alt.Scale(**SCALE), axis=alt.Axis(values=TICKS)),
            color=alt.Color("when:N", scale=alt.Scale(domain=shown, range=colours), title=None),
            strokeDash=alt.StrokeDash("when:N", scale=dashes, title=None),
            strokeWidth=alt.condition(wide, alt.value(3), alt.value(1.2)),
            tooltip=["when:N", "layer:Q", "rank:Q"],
        )
        .properties(title=title, width=WIDTH, height=190)
    )
    drawn = alt.vconcat(*maps, lines).add_params(secret, method, place).configure(**LOOK)
    drawn = drawn.resolve_scale(color="independent", strokeDash="independent")
    said = f"The rank of each token after each layer of {found['model']}, before and after"
    return Explorer(drawn, f"{said} an edit, and a line per method for one token")


def plane(points: pd.DataFrame) -> Explorer:
    """Specificity over efficacy of each method's runs, from the weakest edit on (``knob``), for one
    of the panels; a slider goes along the runs, and below the plane stand their scores."""
    runs = points.drop_duplicates(["panel", "method", "knob"]).copy()
    of_line = runs.groupby(["panel", "method"])["knob"]
    runs["step"], runs["last"] = of_line.cumcount() + 1, of_line.transform("size")
    runs["setting"] = [f"{KNOBS[one.method]} = {one.knob:g}" for one in runs.itertuples()]
    order = figures.in_order(runs["method"])
    runs["method"] = runs["method"].map(methods.title)
    metrics = {"efficacy": "Efficacy", "specificity": "Specificity", "unlearning_score": "score"}
    about = ["panel", "method", "setting", "step", "last"]
    lines = runs[[*metrics, *about]].round(1).rename(columns=metrics)
    panel = select("panel", list(dict.fromkeys(lines["panel"])), "Secrets and model ")
    most = int(lines["last"].max())
    slide = alt.binding_range(min=1, max=most, step=1, name="Edit strength, step ")
    step = alt.param("strength", value=2, bind=slide)
    scale = alt.Scale(domain=[0, 100])
    titles = [methods.title(name) for name in order]
    looks = [figures.look(name) for name in order]
    colours = alt.Scale(domain=titles, range=[one["color"] for one in looks])
    colour = alt.Color("method:N", scale=colours, title=None)
    shapes = alt.Scale(domain=titles, range=[SHAPES[one["marker"]] for one in looks])
    shape = alt.Shape("method:N", scale=shapes, title=None)
    shown = ["method:N", "setting:N", "Efficacy:Q", "Specificity:Q", "score:Q"]
    base = alt.Chart(alt.InlineData(lines.to_dict("records")))
    base = base.transform_filter("datum.panel == panel")
    x = alt.X("Efficacy:Q", scale=scale, title="Efficacy, per cent (more is better)")
    y = alt.Y("Specificity:Q", scale=scale, title="Specificity, per cent (more is better)")
    all_runs = base.encode(x=x, y=y, color=colour, tooltip=shown)
    now = "datum.step == min(strength, datum.last)"
    path = all_runs.mark_line(opacity=0.5).encode(order="step:O")
    dots = all_runs.mark_point(filled=True, size=30).encode(shape=shape)
    chosen = dots.mark_point(filled=True, size=220, opacity=1).transform_filter(now)
    scores = (
        base.mark_point(filled=True, size=120, opacity=1)
        .transform_filter(now)
        .encode(
            x=alt.X("score:Q", scale=scale, title="Unlearning Score, per cent (more is better)"),
            y=alt.Y("method:N", sort=None, title=None),
            color=colour,
            shape=shape,
            tooltip=shown,
        )
    )
    width = WIDTH - 90  # beside the legend
    plane = (path + dots + chosen).properties(width=width, height=280)
    drawn = alt.vconcat(plane, scores.properties(width=width))
    drawn = drawn.add_params(panel, step).configure(**LOOK)
    said = "Specificity over efficacy of each method as its edit gets harder, and its score"
    return Explorer(drawn, said)


def select(name: str, options: list, label: str, shift: int = 0, value=None) -> alt.Parameter:
    """A parameter with a list to choose from, of which ``value`` or the first option is chosen;
    ``shift`` is added to what the list shows."""
    labels = [str(option + shift) if shift else str(option) for option in options]
    bind = alt.binding_select(options=options, labels=labels, name=label)
    return alt.param(name, value=options[0] if value is None else value, bind=bind)
