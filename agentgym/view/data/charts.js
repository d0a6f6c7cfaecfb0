// Small charts in SVG. Each has a text for screen readers, and its numbers in a table that can be opened.

import { h, number, svg, table } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, TOP] = [420, 200, 44, 12];
const [FLAT, TURNED] = [34, 56]; // room for labels below
const COLOURS = 6;

/**
 * @typedef {{
 *   series?: string[], show?: (value: number) => string, low?: number, high?: number, note?: string, stacked?: boolean,
 *   classes?: string[], intervals?: ([number, number] | null)[][], first?: string, last?: string,
 * }} Options
 */

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
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, class: "plot" },
    ...children,
  );
}

function valueAxis(low, high, show, bottom = FLAT) {
  const y = (value) => HEIGHT - bottom - ((value - low) / (high - low || 1)) * (HEIGHT - bottom - TOP);
  const lines = niceTicks(low, high).map((tick) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y(tick), y2: y(tick) }),
    svg("text", { class: "tick", x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, show(tick).replace(".0 %", " %")),
  ]);
  return { y, lines };
}

function label(x, text, turned = false) {
  const y = HEIGHT - (turned ? TURNED : FLAT) + 16;
  const place = turned ? { transform: `rotate(-25 ${x} ${y})`, "text-anchor": "end" } : { "text-anchor": "middle" };
  return svg("text", { class: "tick", x, y, ...place }, text);
}

function legend(names) {
  if (names.length < 2) return null;
  return h(
    "ul.legend",
    null,
    names.map((name, at) => h(`li.series${at % COLOURS}`, null, name)),
  );
}

// Groups of bars: `groups` is [[label, [value per series]]]; `intervals` holds [low, high] in their places.
/** @type {(title: string, groups: [any, (number | null)[]][], options?: Options) => HTMLElement} */
export function bars(
  title,
  groups,
  { series = [""], show = (one) => number(one), high, note, stacked, classes, intervals, first = "" } = {},
) {
  const within = (at, which) => intervals?.[at]?.[which] ?? null;
  const told = (at, which, value) => {
    const known = within(at, which);
    return known ? `${show(value)} (${show(known[0])} to ${show(known[1])})` : show(value);
  };
  const total = (values) => values.reduce((sum, one) => sum + (one ?? 0), 0);
  const heights = groups.flatMap(([, values]) => values.map((value) => value ?? 0));
  const top = high ?? Math.max(1e-9, ...(stacked ? groups.map(([, values]) => total(values)) : heights));
  const low = Math.min(0, ...heights);
  const turned = groups.length > 4 && groups.some(([one]) => String(one).length > 5);
  const { y, lines } = valueAxis(low, top, show, turned ? TURNED : FLAT);
  const slot = (WIDTH - LEFT) / Math.max(1, groups.length);
  const wide = Math.min(slot * 0.8, 64);
  const every = Math.ceil(groups.length / 14);
  const drawn = groups.map(([name, values], at) => {
    const start = LEFT + at * slot + (slot - wide) / 2;
    let sum = 0;
    const each = stacked ? wide : wide / values.length;
    return [
      ...values.map((value, which) => {
        if (value === null || value === undefined) return null;
        const [from, to] = stacked ? [sum, sum + value] : [0, value];
        sum += value;
        const x = stacked ? start : start + which * each;
        return [
          svg(
            "rect",
            {
              class: classes?.[which] ?? `series${which % COLOURS}`,
              x,
              width: Math.max(1, each - 1),
              y: Math.min(y(from), y(to)),
              height: Math.max(value ? 1 : 0, Math.abs(y(from) - y(to))),
            },
            svg("title", null, `${name} ${series[which] ?? ""}: ${told(at, which, value)}`),
          ),
          whisker(x + Math.max(1, each - 1) / 2, Math.min(5, each / 4), within(at, which), y),
        ];
      }),
      at % every
        ? null
        : label(start + wide / 2, shortened(name, turned ? 14 : Math.max(6, Math.floor(slot / 6))), turned),
    ];
  });
  const rows = groups.map(([name, values], at) => [
    name,
    ...values.map((value, which) => (value === null ? "\u2013" : told(at, which, value))),
  ]);
  return figure(
    title,
    h(
      "div",
      null,
      canvas(title, lines, drawn),
      classes && series.length > 1 ? classLegend(series, classes) : legend(series),
    ),
    note,
    [first, ...series],
    rows,
  );
}

// A text without its middle, since names of runs differ at their ends.
function shortened(name, most) {
  const text = String(name);
  if (text.length <= most) return text;
  const end = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - end)}\u2026${text.slice(-end)}`;
}

// An interval: a line from its low to its high end, with a cap at each.
function whisker(x, reach, interval, y) {
  if (!interval) return null;
  const [low, high] = interval.map(y);
  const cap = (at) => `M${x - reach} ${at}H${x + reach}`;
  return svg("path", { class: "whisker", d: `M${x} ${low}V${high}${cap(low)}${cap(high)}` });
}

function classLegend(series, classes) {
  return h(
    "ul.legend",
    null,
    series.map((name, at) => h(`li.${classes[at]}`, null, name)),
  );
}

// Horizontal bars, for names of any length: `rows` is [[label, value, class]].
/** @type {(title: string, rows: [string, number, string?][], options?: Options) => HTMLElement} */
export function ranked(title, rows, { note, first = "", last = "", show = (one) => number(one) } = {}) {
  const most = Math.max(1e-9, ...rows.map(([, value]) => Math.abs(value)));
  const drawn = h(
    "ul.ranked",
    { "aria-label": title },
    rows.map(([name, value, kind]) =>
      h(
        "li",
        null,
        h("span.name", { title: name }, name),
        h(
          "span.bar",
          { "aria-hidden": "true" },
          h(`span.${kind ?? "series0"}`, { style: { width: `${(100 * Math.abs(value)) / most}%` } }),
        ),
        h("span.num", null, show(value)),
      ),
    ),
  );
  return figure(
    title,
    drawn,
    note,
    [first, last],
    rows.map(([name, value]) => [name, show(value)]),
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
  const x = (value) => LEFT + 8 + ((value - from) / (to - from || 1)) * (WIDTH - LEFT - 20);
  const drawn = series.map(([name, values], at) => {
    const known = values.filter(([, value]) => Number.isFinite(value));
    const path = known.map(([step, value]) => `${x(step).toFixed(1)},${axis.y(value).toFixed(1)}`).join(" ");
    const dots =
      known.length > 60
        ? []
        : known.map(([step, value]) =>
            svg(
              "circle",
              { class: `series${at % COLOURS}`, cx: x(step), cy: axis.y(value), r: 2.5 },
              svg("title", null, `${name} ${first} ${step}: ${show(value)}`),
            ),
          );
    return [band(known, x, axis.y, at), svg("polyline", { class: `line series${at % COLOURS}`, points: path }), dots];
  });
  const ticks = niceTicks(from, to, 5)
    .filter(Number.isInteger)
    .map((tick) => label(x(tick), number(tick)));
  const steps = [...new Set(xs)].sort((a, b) => a - b);
  const maps = series.map(([, values]) => new Map(values.map((point) => [point[0], point])));
  /** @type {(point: number[]) => string} */
  const told = ([, value, least, most]) => {
    if (value === undefined) return "\u2013";
    return Number.isFinite(least) ? `${show(value)} (${show(least)} to ${show(most)})` : show(value);
  };
  const rows = steps.map((step) => [number(step), ...maps.map((map) => told(map.get(step) ?? []))]);
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
  return svg("polygon", { class: `band series${at % COLOURS}`, points: path });
}

// Differences with their intervals, one line each: `rows` is [[name, value, low, high, what to say]].
/** @type {(title: string, rows: [string, number, number, number, string][], options?: Options) => HTMLElement} */
export function intervals(title, rows, { show = (one) => number(one), note } = {}) {
  const ends = rows.flatMap(([, value, low, high]) => [value, low, high]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const x = (value) => (100 * (value - low)) / (high - low || 1);
  const drawn = h(
    "ul.ranked.intervals",
    { "aria-label": title },
    rows.map(([name, value, from, to, said]) =>
      h(
        "li",
        { title: said },
        h("span.name", { title: name }, name),
        h(
          "span.range",
          { "aria-hidden": "true" },
          h("i.zero-line", { style: { left: `${x(0)}%` } }),
          h("i.reach", { style: { left: `${x(from)}%`, width: `${x(to) - x(from)}%` } }),
          h(`i.dot${from > 0 ? ".up" : to < 0 ? ".down" : ""}`, { style: { left: `${x(value)}%` } }),
        ),
        h("span.num", null, show(value)),
      ),
    ),
  );
  return figure(
    title,
    drawn,
    note,
    ["", "difference", "95 % interval", ""],
    rows.map(([name, value, from, to, said]) => [name, show(value), `${show(from)} to ${show(to)}`, said]),
  );
}
