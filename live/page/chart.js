// The figure's drawing, as a string of SVG: a token's rank after each layer, before
// and after an edit, and how many neurons each layer has moved. Also that of the still.
"use strict";

const WIDE = 400, LEFT = 48, RIGHT = 46, TOP = 54, FLOOR = 226, BARS = 286, HIGH = 324;

/** ranks before and after (layers); r_h; V; neurons moved (layers); the token's text. */
function chart({ layers, before, after, r_h, V, moved, token }) {
  const step = (WIDE - LEFT - RIGHT) / (layers.length - 1);
  const x = (i) => (LEFT + i * step).toFixed(1);
  const y = (r) => +(TOP + ((FLOOR - TOP) * Math.log1p(r)) / Math.log1p(V)).toFixed(1);
  const text = (x, y, kind, said) => `<text x="${x}" y="${y}" class="${kind}">${said}</text>`;
  const rule = (y) => `<line x1="${LEFT}" x2="${WIDE - RIGHT}" y1="${y}" y2="${y}"/>`;
  const number = (n) => n.toLocaleString("en-US");
  const line = (ranks, kind, shift) => {
    const dots = ranks.map((r, i) => {
      const said = `${kind} the edit, after layer ${layers[i]}: rank ${number(r)}`;
      return `<circle cx="${x(i)}" cy="${y(r)}" r="4.5"><title>${said}</title></circle>`;
    });
    const points = ranks.map((r, i) => `${x(i)},${y(r)}`).join(" ");
    const last = ranks.at(-1);
    const end = text(WIDE - RIGHT + 10, y(last) + 5 + shift, `${kind} end`, number(last));
    return `<g class="${kind}"><polyline points="${points}"/>${dots.join("")}</g>${end}`;
  };
  const key = (at, kind, said) =>
    `<g class="${kind}"><circle cx="${at}" cy="30" r="4.5"/></g>${text(at + 10, 34, "", said)}`;
  const ticks = [0, 10, 100, 1000].map((r) =>
    rule(y(r)) + text(LEFT - 12, y(r) + 4, "tick", number(r)));
  const bars = moved.map((n, i) => {
    const high = n ? 3 + (26 * n) / Math.max(...moved) : 1;
    const place = `x="${(x(i) - 9).toFixed(1)}" y="${(BARS - high).toFixed(1)}"`;
    const said = `<title>layer ${layers[i]}: ${n} neurons moved</title>`;
    const many = n ? text(x(i), (BARS - high - 4).toFixed(1), "many", n) : "";
    return `<rect ${place} width="18" height="${high.toFixed(1)}">${said}</rect>${many}`;
  });
  const near = after && Math.abs(y(before.at(-1)) - y(after.at(-1))) < 16 ? 9 : 0;
  return [
    `<g class="grid">${ticks.join("")}</g>`,
    text(4, 14, "title", `Rank of “${token}” after each layer (0: written next)`),
    key(LEFT + 5, "before", "before the edit"),
    after ? key(LEFT + 135, "after", "after it") : "",
    `<g class="wanted">${rule(y(r_h))}`,
    text(WIDE - RIGHT, y(r_h) + 15, "", `wanted rank rₕ = ${number(r_h)}`) + "</g>",
    line(before, "before", -near) + (after ? line(after, "after", near) : ""),
    `<g class="moved">${bars.join("")}</g>`,
    text(4, BARS + 16, "tick left", "layer"),
    ...layers.map((l, i) => text(x(i), BARS + 16, "many", l)),
    text(4, HIGH - 4, "tick left", "Bars: neurons (columns of the MLP’s output matrix) moved."),
  ].join("");
}
