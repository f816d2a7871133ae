// The figure's drawing, as a string of SVG: a token's rank after each layer, before
// and after an edit, and how many neurons each layer has moved. Also that of the still.
"use strict";

const WIDE = 460, HIGH = 350, LEFT = 58, RIGHT = 64, TOP = 54, FLOOR = 250, BARS = 312;

/** ranks before and after (layers); r_h; V; neurons moved (layers); the token's text. */
function chart({ layers, before, after, r_h, V, moved, token }) {
  const step = (WIDE - LEFT - RIGHT) / (layers.length - 1);
  const x = (i) => LEFT + i * step;
  const y = (r) => TOP + ((FLOOR - TOP) * Math.log1p(r)) / Math.log1p(V);
  const text = (x, y, kind, said) => `<text x="${x}" y="${y}" class="${kind}">${said}</text>`;
  const number = (n) => n.toLocaleString("en-US");
  const line = (ranks, kind) => {
    const points = ranks.map((r, i) => `${x(i).toFixed(1)},${y(r).toFixed(1)}`);
    const dots = points.map((point, i) => {
      const [cx, cy] = point.split(",");
      const said = `${kind} the edit, after layer ${layers[i]}: rank ${number(ranks[i])}`;
      return `<circle cx="${cx}" cy="${cy}" r="4.5"><title>${said}</title></circle>`;
    });
    const path = `<polyline points="${points.join(" ")}"/>`;
    return `<g class="${kind}">${path}${dots.join("")}</g>`;
  };
  const ends = (ranks, kind, shift) => {
    const last = ranks[ranks.length - 1];
    const at = y(last) + 5 + shift;
    return text(x(layers.length - 1) + 10, at.toFixed(1), kind + " end", number(last));
  };
  const ticks = [0, 10, 100, 1000].map((r) => {
    const at = y(r).toFixed(1);
    const rule = `<line x1="${LEFT}" x2="${WIDE - RIGHT}" y1="${at}" y2="${at}"/>`;
    return rule + text(LEFT - 12, +at + 4, "tick", number(r));
  });
  const wanted = y(r_h).toFixed(1);
  const most = Math.max(1, ...moved);
  const bars = moved.map((n, i) => {
    const high = n ? 3 + (26 * n) / most : 1;
    const bar = `<rect x="${(x(i) - 9).toFixed(1)}" width="18" y="${(BARS - high).toFixed(1)}"`;
    const said = `<title>layer ${layers[i]}: ${n} neurons moved</title>`;
    const many = n ? text(x(i).toFixed(1), (BARS - high - 4).toFixed(1), "many", n) : "";
    return `${bar} height="${high.toFixed(1)}">${said}</rect>${many}`;
  });
  const names = layers.map((l, i) => text(x(i).toFixed(1), BARS + 16, "many", l));
  const lines = after ? line(before, "before") + line(after, "after") : line(before, "before");
  const near = after && Math.abs(y(before.at(-1)) - y(after.at(-1))) < 16;
  return [
    `<g class="grid">${ticks.join("")}</g>`,
    text(4, 14, "title", `Rank of “${token}” after each layer (0: it is written next)`),
    `<g class="before"><circle cx="${LEFT + 5}" cy="30" r="4.5"/></g>`,
    text(LEFT + 15, 34, "", "before the edit"),
    after ? `<g class="after"><circle cx="${LEFT + 135}" cy="30" r="4.5"/></g>` : "",
    after ? text(LEFT + 145, 34, "", "after it") : "",
    `<g class="wanted"><line x1="${LEFT}" x2="${WIDE - RIGHT}" y1="${wanted}" y2="${wanted}"/>`,
    text(LEFT + 6, +wanted + 15, "", `rₕ = ${number(r_h)}`) + "</g>",
    lines,
    ends(before, "before", near ? -9 : 0),
    after ? ends(after, "after", near ? 9 : 0) : "",
    `<g class="moved">${bars.join("")}</g>`,
    text(4, BARS + 16, "tick left", "layer"),
    names.join(""),
    text(4, HIGH - 4, "tick left", "Bars: how many neurons (columns of FF₂) each layer moves."),
  ].join("");
}
