// The first page: of training runs what came of them, the figures of each policy and file, charts, filters, and the
// table of all trajectories.

import { lines, ranked, spans, stacked } from "./charts.js";
import { h, mark, number, numberHead, percent, plural, seconds, sign, signed, table } from "./dom.js";
import { channelMeans, endingShares, FILTERS, overview, splitBySuccess, turnCounts } from "./query.js";
import { go, linkTo } from "./route.js";

const PAGE = 100;
const MOST_SERIES = 4; // parts of which a chart of everything is drawn
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
  "seconds",
  "mfu",
];
const NAMES = { env: "environment", solved: "solved", step: "training step" };
const COLUMNS = [
  ["id", "trajectory", (row) => h("span.id", null, row.id)],
  ["env", "environment", (row) => shortEnv(row.env)],
  ["policy", "policy", (row) => row.policy],
  ["step", "step", (row) => number(row.step), "num"],
  ["difficulty", "difficulty", (row) => number(row.difficulty), "num"],
  ["success", "result", mark],
  ["reason", "ending", (row) => row.reason ?? "running"],
  ["reward", "reward", (row) => number(row.reward), "num"],
  ["turns", "turns", (row) => number(row.turns), "num"],
  ["calls", "calls", (row) => number(row.calls), "num"],
  ["tool_errors", "tool errors", (row) => number(row.tool_errors), "num"],
  ["input", "tokens in", (row) => number(row.input), "num"],
  ["sampled", "tokens out", (row) => number(row.sampled), "num"],
  ["cost", "cost", (row) => number(row.cost), "num"],
  ["seconds", "time", (row) => seconds(row.seconds), "num"],
  ["generation", "in policy", (row) => seconds(row.generation), "num.extra-column"],
  ["environment", "in env", (row) => seconds(row.environment), "num.extra-column"],
];

function shortEnv(name) {
  return String(name).replace(/^agentgym\//, "");
}

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

// The figures of the episodes in sight. Of several policies or files, each has its own row: one rate for an evaluation
// before training, one after it and the training between them would mean nothing.
function figures(found, wanted) {
  const one = (name, value, note) =>
    h("div.figure", null, h("dt", null, name), h("dd", null, value, note && h("span.muted", null, ` ${note}`)));
  if (found.parts.length !== 1) return found.parts.length ? partsTable(found.parts, wanted) : null;
  const [{ rate, rows, tasks, means, steps }] = found.parts;
  return h(
    "dl.figures",
    null,
    one(
      steps ? `solved in ${stepsText(steps)}` : "solved",
      percent(rate.rate),
      rate.interval && `95 %: ${range(rate.interval)}`,
    ),
    one("trajectories", number(rows.length), plural(tasks, "task")),
    one("reward", number(means.reward)),
    one("turns", number(means.turns)),
    tokens(means) && one("tokens in, out", tokens(means)),
    means.cost !== null && one("cost", number(means.cost), "each"),
    one("time", seconds(means.seconds), "each"),
    found.generation &&
      one(
        "time in generation",
        percent(found.generation.share),
        `median; ${seconds(found.generation.policy)}, environment ${seconds(found.generation.environment)}`,
      ),
    found.failed > 0 && one("failed", number(found.failed), "not counted in rates"),
  );
}

function tokens({ input, sampled }) {
  return input === null && sampled === null ? null : `${number(input)}, ${number(sampled)}`;
}

function stepsText([first, last]) {
  return first === last ? `training step ${number(first)}` : `training steps ${number(first)} to ${number(last)}`;
}

function partsTable(parts, wanted) {
  const [files, policies] = ["file", "policy"].map((name) => new Set(parts.map((part) => part[name])).size > 1);
  const costs = parts.some(({ means }) => means.cost !== null);
  const name = ({ file, policy }) => [files && file, policies && policy].filter(Boolean).join(", ");
  const cell = (value) => h("td.num", null, value);
  const rows = parts.map((part) =>
    h(
      "tr",
      null,
      h(
        "th",
        { scope: "row" },
        h("a", { href: linkTo("/", { ...wanted, file: part.file, policy: part.policy, from: "" }) }, name(part)),
        part.steps && h("span.muted", null, ` ${stepsText(part.steps)}`),
      ),
      cell(part.rate.interval ? `${percent(part.rate.rate)} (${range(part.rate.interval)})` : "\u2013"),
      cell(`${number(part.rows.length)}, ${plural(part.tasks, "task")}`),
      cell(number(part.means.reward)),
      cell(number(part.means.turns)),
      cell(tokens(part.means) ?? "\u2013"),
      costs && cell(number(part.means.cost)),
      cell(seconds(part.means.seconds)),
      cell(number(part.rows.length - part.played.length)),
    ),
  );
  const heads = ["solved (95 %)", "trajectories", "reward", "turns", "tokens in, out", costs && "cost", "time", "failed"];
  return table("policies and files", ["", ...heads.filter(Boolean).map(numberHead)], rows, "plain parts");
}

function range([low, high]) {
  return `${percent(low).replace(" %", "")} to ${percent(high)}`;
}

// Rates with their intervals, below each other for the policies or files.
function rateSpans(title, series, first) {
  const values = [...new Set(series.flatMap((one) => one.values.map(([value]) => value)))].sort((a, b) =>
    a < b ? -1 : a > b ? 1 : 0,
  );
  const span = (one, value) => {
    const rate = one.values.find(([other]) => other === value)?.[1];
    return rate?.interval ? { value: rate.rate, low: rate.interval[0], high: rate.interval[1] } : null;
  };
  return spans(
    title,
    values.map((value) => [shortEnv(value), series.map((one) => span(one, value))]),
    { series: series.map((one) => one.name), show: percent, low: 0, high: 1, note: "with 95 % intervals", first },
  );
}

function several(series) {
  return new Set(series.flatMap((one) => one.values.map(([value]) => value))).size > 1;
}

const ENDING_CLASSES = { terminated: "series0", truncated: "series3", failed: "series5" };
const BY_SUCCESS = { series: ["solved", "not solved"], classes: ["good-fill", "other-fill"] };

function charts(found, metrics) {
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
    found.difficulty.length > 0 && rateSpans("Solved, by difficulty", found.difficulty, "difficulty"),
    several(found.env) && rateSpans("Solved, by environment", found.env, "environment"),
    ...(found.parts.length === 1 ? chartsOfOne(found.parts[0]) : chartsOfSeveral(found.parts)),
  );
}

/** @type {(part: import("./query.js").Part) => any[]} */
function chartsOfOne({ played, rows }) {
  const [channels, endings] = [channelMeans(splitBySuccess(played)), endingShares([rows])];
  return [
    played.length > 0 && stacked("Turns", turnCounts(played), { ...BY_SUCCESS, first: "turns", note: "of episodes" }),
    channels.length > 0 &&
      ranked("Reward channels", channels, { ...BY_SUCCESS, note: "mean total per episode", first: "channel" }),
    endings.length > 0 &&
      ranked(
        "Endings",
        endings.map(([reason, shares, ending]) => [reason, shares, ENDING_CLASSES[ending ?? ""] ?? "series4"]),
        { show: percent, series: ["episodes"], first: "ending" },
      ),
  ];
}

/** @type {(parts: import("./query.js").Part[]) => any[]} */
function chartsOfSeveral(parts) {
  if (!parts.length || parts.length > MOST_SERIES) return [];
  const apart = new Set(parts.map((part) => part.policy)).size > 1 ? "policy" : "file";
  const series = parts.map((part) => part[apart]);
  const [channels, endings] = [channelMeans(parts.map((part) => part.played)), endingShares(parts.map((part) => part.rows))];
  return [
    channels.length > 0 && ranked("Reward channels", channels, { series, note: "mean total per episode", first: "channel" }),
    ranked(
      "Endings",
      endings.map(([reason, shares]) => [reason, shares]),
      { show: percent, series, first: "ending" },
    ),
  ];
}

// What came of a training run: success before and after, the model, how credit was assigned, and all settings.
async function runCard(source, name, found) {
  const { settings, before, after } = source.facts.runs[name];
  const [first, last] = [before, after].map((file) => found.parts.find((part) => part.file === file));
  const series = source.facts.metrics[name] ?? {};
  const [step, success] = series.success?.at(-1) ?? [0, null];
  const rate = (part) => (part?.rate.interval ? `${percent(part.rate.rate)} (${range(part.rate.interval)})` : null);
  const now = success === null ? "no step yet" : `${percent(success)} in step ${number(step)} of ${settings.steps ?? "?"}`;
  const entries = Object.entries(settings);
  return h(
    "section.run",
    { "aria-label": `training run ${name}` },
    h(
      "p.verdict",
      null,
      h("strong", null, `${name}: `),
      `held-out success ${rate(first) ?? "not measured yet"} \u2192 `,
      rate(last) ?? `training, ${now}`,
      first && last && (await changeText(source, before, after)),
    ),
    h(
      "p.muted",
      null,
      ["env", "model", "credit", "steps", "seed"]
        .filter((key) => key in settings)
        .map((key) => `${key === "env" ? "environment" : key} ${settings[key]}`)
        .join(" \u00b7 "),
    ),
    entries.length > 0 &&
      h(
        "details.extra",
        null,
        h("summary", null, plural(entries.length, "setting")),
        h(
          "dl.pairs.settings",
          null,
          entries.map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, value))),
        ),
      ),
  );
}

async function changeText(source, before, after) {
  const [a, b] = [before, after].map((file) => source.facts.sides.findIndex(([other]) => other === file));
  if (a < 0 || b < 0) return null;
  const link = h("a", { href: linkTo("/compare", { a, b }) }, "compare");
  try {
    const { difference, interval } = (await source.versus({ a, b })).overall.success;
    const [low, high] = interval.map((end) => signed(100 * end));
    return [
      " ",
      h(`strong.${sign(interval[0] > 0 ? 1 : interval[1] < 0 ? -1 : 0)}`, null, `${signed(100 * difference)} points`),
      ` (${low} to ${high}) `,
      link,
    ];
  } catch {
    return [" ", link]; // a report does not hold every comparison
  }
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
    input: found.means.input === null,
    sampled: found.means.sampled === null,
    cost: found.means.cost === null,
    env: options.env.length < 2 && !wanted.env,
    policy: options.policy.length < 2 && !wanted.policy,
  };
  const columns = COLUMNS.filter(([name]) => !hide[name]);
  const runs = Object.keys(facts.runs);
  const all = runs.length ? overview(source.rows) : found;
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
    await Promise.all(runs.map((name) => runCard(source, name, all))),
    filterBar(options, wanted),
    figures(found, wanted),
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
