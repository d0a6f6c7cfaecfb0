// Small charts: SVG for curves and histograms, rows of HTML for anything with names. Each has a text for screen
// readers, and its numbers in a table that can be opened.

import { h, number, svg, table } from "./dom.js";

const [HEIGHT, LEFT, TOP, BELOW] = [200, 48, 12, 26];
const COLOURS = 6;
const ROWS = 10; // rows that are shown at once; the others wait to be opened

/**
 * @typedef {{
 *   series?: string[], classes?: string[], show?: (value: number) => string, low?: number, high?: number,
 *   note?: string, first?: string, zero?: boolean,
 * }} Options
 * @typedef {{ value: number, low: number, high: number, note?: string }} Span  A value and the ends of its interval.
 */

// Narrow screens get narrower charts, so that their text keeps its size.
function width() {
  return matchMedia("(max-width: 30rem)").matches ? 280 : 420;
}

function niceTicks(low, high, wanted = 4) {
  if (!(high > low)) return [low];
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw) ?? 10 * power;
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step)
    ticks.push(+at.toPrecision(12));
  return ticks;
}

function figure(title, drawn, note, columns, rows) {
  return h(
    "figure.chart",
    null,
    h("figcaption", null, h("strong", null, title), note && h("span.muted", null, ` ${note}`)),
    drawn,
    h(
      "details.numbers",
      null,
      h("summary", null, "Numbers"),
      table(
        title,
        columns,
        rows.map((row) =>
          h(
            "tr",
            null,
            row.map((cell, at) => (at ? h("td.num", null, cell) : h("th", { scope: "row" }, cell))),
          ),
        ),
      ),
    ),
  );
}

function canvas(title, ...children) {
  return svg(
    "svg",
    { viewBox: `0 0 ${width()} ${HEIGHT}`, role: "img", "aria-label": title, class: "plot" },
    ...children,
  );
}

// Round percentages on an axis need no decimals.
function tickText(tick, show) {
  return show(tick).replace(".0 %", " %");
}

// A value with the ends of its interval, if it has one.
/** @type {(show: (value: number) => string, value?: number, low?: number, high?: number) => string} */
function rangeText(show, value, low, high) {
  if (value === undefined) return "\u2013";
  const ends = low !== undefined && high !== undefined && Number.isFinite(low);
  return ends ? `${show(value)} (${show(low)} to ${show(high)})` : show(value);
}

function valueAxis(low, high, show) {
  const y = (value) => HEIGHT - BELOW - ((value - low) / (high - low || 1)) * (HEIGHT - BELOW - TOP);
  const lines = niceTicks(low, high).map((tick) => [
    svg("line", { class: "grid", x1: LEFT, x2: width(), y1: y(tick), y2: y(tick) }),
    svg("text", { class: "tick", x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick, show)),
  ]);
  return { y, lines };
}

function label(x, text) {
  return svg("text", { class: "tick", x, y: HEIGHT - 8, "text-anchor": "middle" }, text);
}

function classOf(classes, at) {
  return classes?.[at] ?? `series${at % COLOURS}`;
}

function legend(names, classes) {
  if (names.length < 2) return null;
  return h(
    "ul.legend",
    null,
    names.map((name, at) => h(`li.${classOf(classes, at)}`, null, name)),
  );
}

// Columns on top of each other: `columns` is [[number below, [value per series]]].
/** @type {(title: string, columns: [number, number[]][], options?: Options) => HTMLElement} */
export function stacked(title, columns, { series = [""], classes, show = (one) => number(one), note, first = "" } = {}) {
  const top = Math.max(1e-9, ...columns.map(([, values]) => values.reduce((sum, one) => sum + one, 0)));
  const { y, lines } = valueAxis(0, top, show);
  const slot = (width() - LEFT) / Math.max(1, columns.length);
  const wide = Math.min(slot * 0.8, 64);
  const every = Math.ceil(columns.length / 10);
  const drawn = columns.map(([name, values], at) => {
    const x = LEFT + at * slot + (slot - wide) / 2;
    let sum = 0;
    return [
      ...values.map((value, which) => {
        const [from, to] = [sum, (sum += value)];
        return svg(
          "rect",
          {
            class: classOf(classes, which),
            x,
            width: Math.max(1, wide - 1),
            y: y(to),
            height: Math.max(value ? 1 : 0, y(from) - y(to)),
          },
          svg("title", null, `${first} ${name}, ${series[which]}: ${show(value)}`),
        );
      }),
      at % every ? null : label(x + wide / 2, number(name)),
    ];
  });
  return figure(
    title,
    h("div", null, canvas(title, lines, drawn), legend(series, classes)),
    note,
    [first, ...series],
    columns.map(([name, values]) => [number(name), ...values.map(show)]),
  );
}

// Rows of names; those past the first ten wait to be opened.
/** @type {(title: string, kind: string, items: HTMLElement[], axis?: () => HTMLElement | null) => HTMLElement} */
function listed(title, kind, items, axis = () => null) {
  const list = (some, label) => h(`ul.ranked${kind}`, { "aria-label": label }, some, axis());
  const rest = items.slice(ROWS);
  return h(
    "div",
    null,
    list(items.slice(0, ROWS), title),
    rest.length > 0 &&
      h("details.rest", null, h("summary", null, `${number(rest.length)} more`), list(rest, `${title}: the others`)),
  );
}

// Horizontal bars, for names of any length: `rows` is [[name, [value per series], class]].
/** @type {(title: string, rows: [string, (number | null)[], string?][], options?: Options) => HTMLElement} */
export function ranked(title, rows, { series = [""], classes, show = (one) => number(one), note, first = "" } = {}) {
  const most = Math.max(1e-9, ...rows.flatMap(([, values]) => values.map((value) => Math.abs(value ?? 0))));
  const items = rows.map(([name, values, kind]) =>
    h(
      "li",
      null,
      h("span.name", { title: name }, name),
      h(
        "span.lines",
        null,
        values.map((value, at) => [
          h(
            "span.bar",
            { "aria-hidden": "true" },
            value
              ? h(`span.${kind ?? classOf(classes, at)}`, { style: { width: `${(100 * Math.abs(value)) / most}%` } })
              : null,
          ),
          h("span.num", null, value === null ? "\u2013" : show(value)),
        ]),
      ),
    ),
  );
  return figure(
    title,
    h("div", null, listed(title, "", items), legend(series, classes)),
    note,
    [first, ...series],
    rows.map(([name, values]) => [name, ...values.map((value) => (value === null ? "\u2013" : show(value)))]),
  );
}

// Values with their intervals over one axis, a line each: `rows` is [[name, [span per series]]]. With `zero`, values
// are differences: a line marks 0, and a dot is filled only where the interval excludes 0.
/** @type {(title: string, rows: [string, (Span | null)[]][], options?: Options) => HTMLElement} */
export function spans(
  title,
  rows,
  { series = [""], show = (one) => number(one), low, high, note, first = "", zero = false } = {},
) {
  const ends = rows.flatMap(([, values]) => values.flatMap((one) => (one ? [one.value, one.low, one.high] : [])));
  const [from, to] = [low ?? Math.min(0, ...ends), high ?? Math.max(0, ...ends)];
  const x = (value) => `${(100 * (value - from)) / (to - from || 1)}%`;
  const ticks = niceTicks(from, to, 5);
  const grid = ticks.map((tick) => h(zero && tick === 0 ? "i.zero-line" : "i.grid-line", { style: { left: x(tick) } }));
  const text = (one) => rangeText(show, one?.value, one?.low, one?.high);
  const dot = (one, at) => {
    if (!zero) return `i.dot.filled.${classOf(undefined, at)}`;
    return one.low > 0 ? "i.dot.filled.up" : one.high < 0 ? "i.dot.filled.down" : "i.dot";
  };
  const line = (one, at) => [
    h(
      "span.range",
      { "aria-hidden": "true", title: one ? [text(one), one.note].filter(Boolean).join("; ") : "" },
      grid.map((mark) => mark.cloneNode()),
      one && h("i.reach", { style: { left: x(one.low), width: `calc(${x(one.high)} - ${x(one.low)})` } }),
      one && h(dot(one, at), { style: { left: x(one.value) } }),
    ),
    h("span.num", null, one ? show(one.value) : "\u2013"),
  ];
  const items = rows.map(([name, values]) =>
    h("li", null, h("span.name", { title: name }, name), h("span.lines", null, values.map(line))),
  );
  const axis = () =>
    h(
      "li.axis",
      { "aria-hidden": "true" },
      h("span"),
      h(
        "span.lines",
        null,
        h(
          "span.range",
          null,
          ticks.map((tick) => h("span.tick", { style: { left: x(tick) } }, tickText(tick, show))),
        ),
        h("span.num"),
      ),
    );
  return figure(
    title,
    h(
      "div",
      null,
      listed(title, ".spans", items, axis),
      zero && h("p.muted", null, "Filled dots: the interval excludes 0."),
      legend(series),
    ),
    note,
    [first, ...series.map((name) => name || "value")],
    rows.map(([name, values]) => [name, ...values.map(text)]),
  );
}

// Lines over steps: `series` is [[name, [[x, y]]]], or [x, y, low, high] where an interval is known.
/** @type {(title: string, series: [string, number[][]][], options?: Options) => HTMLElement | null} */
export function lines(title, series, { show = (one) => number(one), note, low, high, first = "step" } = {}) {
  const points = series.flatMap(([, values]) => values).filter(([, value]) => Number.isFinite(value));
  if (!points.length) return null;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, value]) => value)];
  const [from, to] = [Math.min(...xs), Math.max(...xs)];
  const edges = points.flatMap((point) => point.slice(2)).filter(Number.isFinite);
  let [bottom, top] = [low ?? Math.min(...ys, ...edges), high ?? Math.max(...ys, ...edges)];
  if (bottom === top) [bottom, top] = [bottom - 0.5, top + 0.5];
  const axis = valueAxis(bottom, top, show);
  const x = (value) => LEFT + 8 + ((value - from) / (to - from || 1)) * (width() - LEFT - 24);
  const drawn = series.map(([name, values], at) => {
    const known = values.filter(([, value]) => Number.isFinite(value));
    const path = known.map(([step, value]) => `${x(step).toFixed(1)},${axis.y(value).toFixed(1)}`).join(" ");
    const dots =
      known.length > 60
        ? []
        : known.map(([step, value]) =>
            svg(
              "circle",
              { class: classOf(undefined, at), cx: x(step), cy: axis.y(value), r: 2.5 },
              svg("title", null, `${name} ${first} ${step}: ${show(value)}`),
            ),
          );
    return [
      band(known, x, axis.y, at),
      svg("polyline", { class: `line ${classOf(undefined, at)}`, points: path }),
      dots,
    ];
  });
  const ticks = niceTicks(from, to, 5)
    .filter(Number.isInteger)
    .map((tick) => label(x(tick), number(tick)));
  const steps = [...new Set(xs)].sort((a, b) => a - b);
  const maps = series.map(([, values]) => new Map(values.map((point) => [point[0], point])));
  /** @type {(point?: number[]) => string} */
  const text = ([, value, least, most] = []) => rangeText(show, value, least, most);
  const rows = steps.map((step) => [number(step), ...maps.map((map) => text(map.get(step)))]);
  return figure(
    title,
    h("div", null, canvas(title, axis.lines, drawn, ticks), legend(series.map(([name]) => name))),
    note,
    [first, ...series.map(([name]) => name)],
    rows,
  );
}

// The area between the ends of the intervals of a line.
function band(points, x, y, at) {
  const known = points.filter(([, , low, high]) => Number.isFinite(low) && Number.isFinite(high));
  if (known.length < 2) return null;
  const along = (list, which) => list.map((point) => `${x(point[0]).toFixed(1)},${y(point[which]).toFixed(1)}`);
  const path = [...along(known, 3), ...along([...known].reverse(), 2)].join(" ");
  return svg("polygon", { class: `band ${classOf(undefined, at)}`, points: path });
}
