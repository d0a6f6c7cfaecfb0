// The first page: figures, charts, filters, and the table of all trajectories.

import { bars, lines, ranked } from "./charts.js";
import { h, mark, number, percent, plural, seconds } from "./dom.js";
import { FILTERS, overview } from "./query.js";
import { go, linkTo } from "./route.js";

const PAGE = 100;
const SHOWN_METRICS = [
  "success",
  "reward",
  "entropy",
  "kl_to_start",
  "turns",
  "tool_errors",
  "flat_groups",
  "sampler_gap",
  "loss",
  "tokens_per_second",
];
const NAMES = { env: "environment", solved: "solved", step: "training step" };
const COLUMNS = [
  ["id", "trajectory", (row) => h("span.id", null, row.id)],
  ["env", "environment", (row) => row.env.replace(/^agentgym\//, "")],
  ["policy", "policy", (row) => row.policy],
  ["step", "step", (row) => (row.step === null ? "\u2013" : number(row.step)), "num"],
  ["difficulty", "difficulty", (row) => number(row.difficulty), "num"],
  ["success", "result", mark],
  ["reason", "ending", (row) => row.reason ?? "running"],
  ["reward", "reward", (row) => number(row.reward), "num"],
  ["turns", "turns", (row) => number(row.turns), "num"],
  ["calls", "calls", (row) => number(row.calls), "num"],
  ["tool_errors", "tool errors", (row) => number(row.tool_errors), "num"],
  ["sampled", "tokens", (row) => number(row.sampled), "num"],
  ["seconds", "time", (row) => seconds(row.seconds), "num"],
  [
    "generation",
    "in policy",
    (row) => (row.generation === null ? "\u2013" : seconds(row.generation)),
    "num.extra-column",
  ],
  [
    "environment",
    "in env",
    (row) => (row.environment === null ? "\u2013" : seconds(row.environment)),
    "num.extra-column",
  ],
];

function select(name, values, wanted, change) {
  const known = values.some(([value]) => String(value) === wanted) || !wanted ? values : [[wanted, 0], ...values];
  return h(
    "label.filter",
    null,
    h("span", null, NAMES[name] ?? name),
    h(
      "select",
      { name, onchange: (event) => change(name, event.target.value) },
      h("option", { value: "" }, "all"),
      known.map(([value, count]) =>
        h(
          "option",
          { value: String(value), selected: String(value) === wanted },
          count ? `${value} (${number(count)})` : String(value),
        ),
      ),
    ),
  );
}

const SOLVED = [
  ["yes", 0],
  ["no", 0],
  ["failed", 0],
];

function filterBar(options, wanted) {
  const change = (name, value) => go("/", { ...wanted, [name]: value, from: "" });
  const choices = FILTERS.filter((name) => name === "solved" || options[name].length > 1 || wanted[name]);
  const active = FILTERS.concat("q").some((name) => wanted[name]);
  const submit = (event) => {
    event.preventDefault();
    change("q", event.target.elements.q.value.trim());
  };
  return h(
    "form.filters",
    { role: "search", onsubmit: submit },
    h(
      "label.filter.search",
      null,
      h("span", null, "search in all contents"),
      h(
        "span.with-button",
        null,
        h("input", {
          type: "search",
          name: "q",
          value: wanted.q ?? "",
          placeholder: "text of messages, calls, results",
        }),
        h("button", { type: "submit" }, "Search"),
      ),
    ),
    choices.map((name) => select(name, name === "solved" ? SOLVED : options[name], wanted[name] ?? "", change)),
    active && h("button.clear", { type: "button", onclick: () => go("/", { sort: wanted.sort }) }, "Clear filters"),
  );
}

function figures(found) {
  const one = (name, value, note) =>
    h("div.figure", null, h("dt", null, name), h("dd", null, value, note && h("span.muted", null, ` ${note}`)));
  return h(
    "dl.figures",
    null,
    one("solved", percent(found.all.rate), found.all.interval && `95 %: ${range(found.all.interval)}`),
    one("trajectories", number(found.count), plural(found.tasks, "task")),
    one("reward", number(found.means.reward)),
    one("turns", number(found.means.turns)),
    found.means.sampled !== null && one("sampled tokens", number(found.means.sampled)),
    one("time", found.means.seconds === null ? "\u2013" : seconds(found.means.seconds), "each"),
    found.generation &&
      one(
        "time in generation",
        percent(found.generation.share),
        `median; ${seconds(found.generation.policy)}, environment ${seconds(found.generation.environment)}`,
      ),
    found.failed > 0 && one("failed", number(found.failed), "not counted in rates"),
  );
}

function range([low, high]) {
  return `${percent(low).replace(" %", "")} to ${percent(high)}`;
}

// Bars of rates with their intervals, next to each other for the policies or files.
function rateBars(title, series, first) {
  const values = [...new Set(series.flatMap((one) => one.values.map(([value]) => value)))].sort((a, b) =>
    a < b ? -1 : a > b ? 1 : 0,
  );
  const at = (one, value) => one.values.find(([other]) => other === value)?.[1];
  return bars(
    title,
    values.map((value) => [
      String(value).replace(/^agentgym\//, ""),
      series.map((one) => at(one, value)?.rate ?? null),
    ]),
    {
      series: series.map((one) => one.name),
      classes: series.length === 1 && !series[0].name ? ["plain-fill"] : undefined,
      intervals: values.map((value) => series.map((one) => at(one, value)?.interval ?? null)),
      show: percent,
      high: 1,
      note: "with 95 % intervals",
      first,
    },
  );
}

function several(series) {
  return new Set(series.flatMap((one) => one.values.map(([value]) => value))).size > 1;
}

const ENDING_CLASSES = { terminated: "series0", truncated: "series3", failed: "series5" };

function charts(found, metrics) {
  const channels = found.channels.map(([name, yes, no]) => [name, [yes, no]]);
  return h(
    "section.charts",
    { "aria-label": "charts" },
    ...metricCharts(metrics),
    several(found.steps) &&
      lines(
        "Solved, by training step",
        found.steps.map((one) => [one.name, one.values.map(([step, { rate, interval }]) => [step, rate, ...interval])]),
        { show: percent, low: 0, high: 1, note: "trajectories here, with 95 % intervals" },
      ),
    (several(found.difficulty) || !(several(found.policy) || several(found.file))) &&
      found.difficulty.length > 0 &&
      rateBars("Solved, by difficulty", found.difficulty, "difficulty"),
    several(found.env) && rateBars("Solved, by environment", found.env, "environment"),
    several(found.policy) && rateBars("Solved, by policy", found.policy, "policy"),
    !several(found.policy) && several(found.file) && rateBars("Solved, by file", found.file, "file"),
    found.turns.length > 0 &&
      bars(
        "Turns",
        found.turns.map(([turns, yes, no]) => [turns, [yes, no]]),
        { series: ["solved", "not solved"], stacked: true, classes: ["good-fill", "other-fill"], first: "turns" },
      ),
    channels.length > 0 &&
      bars("Reward channels", channels, {
        series: ["solved", "not solved"],
        classes: ["good-fill", "other-fill"],
        note: "mean total per episode, unweighted",
        first: "channel",
      }),
    found.endings.length > 0 &&
      ranked(
        "Endings",
        found.endings.map(({ reason, ending, count }) => [
          reason ?? "running",
          count,
          ENDING_CLASSES[ending] ?? "series4",
        ]),
        { first: "ending", last: "episodes" },
      ),
  );
}

function metricCharts(metrics) {
  const runs = Object.entries(metrics);
  if (!runs.length) return [];
  const ofIntervals = /\/(low|high)$/;
  const names = [...new Set(runs.flatMap(([, series]) => Object.keys(series)))].filter((one) => !ofIntervals.test(one));
  const order = [
    ...SHOWN_METRICS.filter((name) => names.includes(name)),
    ...names.filter((name) => !SHOWN_METRICS.includes(name)).sort(),
  ];
  const draw = (name) =>
    lines(
      `Training: ${name}`,
      runs.filter(([, series]) => series[name]).map(([run, series]) => [run, withInterval(series, name)]),
      name === "success" ? { show: percent, low: 0, high: 1 } : {},
    ) ?? h("p.muted", null, "no values");
  return order.slice(0, 2).map((first) => {
    const box = h("div", null, draw(first));
    const choose = h(
      "select",
      { "aria-label": "training metric", onchange: (event) => box.replaceChildren(draw(event.target.value)) },
      order.map((name) => h("option", { value: name, selected: name === first }, name)),
    );
    return h("div.chart-choice", null, choose, box);
  });
}

// The points of a metric, with the interval that training wrote beside it, if it did.
function withInterval(series, name) {
  const [low, high] = ["low", "high"].map((end) => new Map(series[`${name}/${end}`] ?? []));
  return series[name].map(([step, value]) =>
    low.has(step) && high.has(step) ? [step, value, low.get(step), high.get(step)] : [step, value],
  );
}

function head([name, title, , kind], wanted) {
  const [by, down] = [(wanted.sort ?? "").replace("-", ""), (wanted.sort ?? "").startsWith("-")];
  const active = by === name;
  const next = active ? (down ? "" : `-${name}`) : name;
  return h(
    kind ? `th.${kind}` : "th",
    { scope: "col", "aria-sort": active ? (down ? "descending" : "ascending") : "none" },
    h(
      "button",
      { type: "button", onclick: () => go("/", { ...wanted, sort: next, from: "" }) },
      title,
      h("span", { "aria-hidden": "true" }, active ? (down ? " \u25be" : " \u25b4") : ""),
    ),
  );
}

function rowLink(row, wanted) {
  return linkTo(`/t/${row.key}`, { ...wanted, from: "" });
}

function rowsTable(rows, wanted, columns) {
  return h(
    "div.scroll",
    null,
    h(
      "table.rows",
      null,
      h("caption.hidden", null, "trajectories"),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map((column) => head(column, wanted)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            { dataset: { key: row.key } },
            columns.map(([name, title, show, kind]) =>
              h(
                kind ? `td.${kind}` : "td",
                { "data-label": title },
                name === "id" ? h("a", { href: rowLink(row, wanted) }, show(row)) : show(row),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

function pager(from, total, wanted) {
  const step = (to) => go("/", { ...wanted, from: to || "" });
  const last = Math.min(total, from + PAGE);
  return h(
    "nav.pager",
    { "aria-label": "pages of the table" },
    h(
      "button",
      { type: "button", disabled: from <= 0, onclick: () => step(Math.max(0, from - PAGE)) },
      "\u2190 earlier",
    ),
    h(
      "span",
      { role: "status" },
      total ? `${number(from + 1)} to ${number(last)} of ${number(total)}` : "nothing matches",
    ),
    h("button", { type: "button", disabled: last >= total, onclick: () => step(from + PAGE) }, "later \u2192"),
  );
}

// What is compared first: before and after training, if that is what the files are.
function firstPair(sides) {
  const [before, after] = ["before", "after"].map((name) => sides.findIndex(([file]) => file.includes(name)));
  return before >= 0 && after >= 0 ? { a: before, b: after } : { a: 0, b: 1 };
}

/** @type {import("./source.js").PageOf} */
export async function overviewPage(source, wanted) {
  const { facts, options } = source;
  const rows = await source.select(wanted);
  const found = overview(rows);
  const from = Math.max(0, Number(wanted.from) || 0);
  const hide = {
    step: !found.steps.length,
    generation: !found.generation,
    environment: !found.generation,
    sampled: found.means.sampled === null,
    env: options.env.length < 2 && !wanted.env,
    policy: options.policy.length < 2 && !wanted.policy,
  };
  const columns = COLUMNS.filter(([name]) => !hide[name]);
  return h(
    "div.page.overview",
    null,
    h("h1", null, facts.title),
    facts.sides.length > 1 &&
      h(
        "p",
        null,
        h("a", { href: linkTo("/compare", firstPair(facts.sides)), rel: "compare" }, "compare two of these runs"),
      ),
    facts.note && h("p.notice", null, facts.note),
    filterBar(options, wanted),
    figures(found),
    charts(found, facts.metrics),
    h(
      "section",
      { "aria-label": "trajectories" },
      pager(from, rows.length, wanted),
      rowsTable(rows.slice(from, from + PAGE), wanted, columns),
      rows.length > PAGE && pager(from, rows.length, wanted),
    ),
  );
}
