// Two runs on the same tasks: how they differ, and the tasks that one solves and the other does not.

import { spans } from "./charts.js";
import { h, number, numberHead, percent, plural, sign, signed, table } from "./dom.js";
import { go, linkTo } from "./route.js";

const MOST = 500;

function nameOf([file, policy]) {
  return `${policy} in ${file}`;
}

function chooser(sides, wanted) {
  const choose = (side) =>
    h(
      "label.filter",
      null,
      h("span", null, side === "a" ? "A" : "B, compared with A"),
      h(
        "select",
        { name: side, onchange: (event) => go("/compare", { ...wanted, [side]: event.target.value }) },
        sides.map((one, at) => h("option", { value: String(at), selected: String(at) === wanted[side] }, nameOf(one))),
      ),
    );
  const swap = () => go("/compare", { a: wanted.b, b: wanted.a });
  return h(
    "form.filters",
    { "aria-label": "runs to compare", onsubmit: (event) => event.preventDefault() },
    choose("a"),
    choose("b"),
    h("button", { type: "button", onclick: swap }, "Swap"),
  );
}

const points = (value) => `${signed(100 * value)} points`;

function verdict({ overall, p_value }) {
  const { difference, interval } = overall.success;
  const sure = interval[0] > 0 ? "B is better" : interval[1] < 0 ? "A is better" : "No difference is shown";
  const test = p_value === null ? "" : `; sign test p = ${number(p_value, 2)}`;
  return `${sure}: ${points(difference)}, 95 % interval ${signed(100 * interval[0])} to ${signed(100 * interval[1])}${test}.`;
}

function figures({ overall }) {
  const one = (name, value, kind, note) =>
    h(
      "div.figure",
      null,
      h("dt", null, name),
      h(kind ? `dd.${kind}` : "dd", null, value, note && h("span.muted", null, ` ${note}`)),
    );
  const { success, won, lost, tied } = overall;
  return h(
    "dl.figures",
    null,
    one("A solves", percent(success.a)),
    one("B solves", percent(success.b)),
    one("difference", points(success.difference), sign(success.difference)),
    one("tasks won by B", number(won), "good"),
    one("tasks lost", number(lost), "bad"),
    one("tied", number(tied), null, `of ${plural(success.tasks, "task")}`),
  );
}

function differences(found) {
  const parts = [
    ["all", found.overall],
    ...Object.entries(found.by_environment).filter((_, __, all) => all.length > 1),
    ...Object.entries(found.by_difficulty).map(([level, part]) => [`difficulty ${level}`, part]),
  ];
  const span = ({ success, won, lost }) => ({
    value: 100 * success.difference,
    low: 100 * success.interval[0],
    high: 100 * success.interval[1],
    note: `${percent(success.a)} to ${percent(success.b)}; ${number(won)} won, ${number(lost)} lost`,
  });
  return spans(
    "B minus A, in points of success",
    parts.map(([name, part]) => [name, [span(part)]]),
    { show: signed, note: "with 95 % intervals over tasks", zero: true },
  );
}

function excludesZero([low, high]) {
  return low > 0 || high < 0;
}

function measures(found) {
  const rows = Object.entries(found.measures).map(([name, change]) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, name),
      [change.a, change.b].map((value) => h("td.num", null, number(value))),
      h(`td.num${excludesZero(change.interval) ? ".sure" : ""}`, null, signed(change.difference)),
      h("td.num", null, `${signed(change.interval[0])} to ${signed(change.interval[1])}`),
    ),
  );
  return [
    table(
      "measures, means over tasks",
      ["per episode", ...["A", "B", "B \u2212 A", "95 % interval"].map(numberHead)],
      rows,
    ),
    h("p.muted", null, "Bold: the interval excludes 0."),
  ];
}

function attempts(list) {
  return h(
    "td",
    null,
    h(
      "span.attempts",
      null,
      list.map(([key, success], at) =>
        h(
          `a.mark.${success ? "good" : "bad"}`,
          {
            href: linkTo(`/t/${key}`),
            "aria-label": `attempt ${at}, ${success ? "solved" : "not solved"}`,
          },
          success ? "\u2713" : "\u2717",
        ),
      ),
    ),
  );
}

function flips(found) {
  const order = { lost: 0, won: 1 };
  const all = [...found.tasks].sort(
    (x, y) => order[x.verdict] - order[y.verdict] || Math.abs(y.b - y.a) - Math.abs(x.b - x.a),
  );
  if (!all.length) return h("p.muted", null, "Both solve the same tasks equally often.");
  const rows = all.slice(0, MOST).map((task) =>
    h(
      "tr",
      null,
      h(`td.${task.verdict === "won" ? "good" : "bad"}`, null, task.verdict),
      h("th.id", { scope: "row" }, task.task_id),
      h("td.num", null, number(task.difficulty)),
      [task.a, task.b].map((value, side) => [h("td.num", null, percent(value)), attempts(task.attempts[side])]),
    ),
  );
  const heads = ["B has", "task", numberHead("difficulty"), numberHead("A"), "attempts of A", numberHead("B"), "attempts of B"];
  return [
    table("tasks that one of them solves more often", heads, rows, "plain flips"),
    all.length > MOST && h("p.muted", null, `The first ${MOST} of ${number(all.length)} are listed.`),
  ];
}

function notes(found) {
  const left = (name, side) =>
    [
      side.only_here && `${plural(side.only_here, "task")} only in ${name}`,
      side.failed &&
        `${plural(side.failed, "attempt")} of ${name} failed and ${side.failed === 1 ? "is" : "are"} left out`,
    ].filter(Boolean);
  return [found.note, ...left("A", found.a), ...left("B", found.b)].filter(Boolean);
}

/** @type {import("./source.js").PageOf} */
export async function comparePage(source, given) {
  const wanted = { a: given.a ?? "0", b: given.b ?? "1" };
  const frame = (...parts) =>
    h(
      "div.page.compare",
      null,
      h("nav.crumbs", { "aria-label": "pages" }, h("a", { href: linkTo("/"), rel: "up" }, "\u2190 all")),
      h("h1", null, "Two runs compared"),
      source.facts.sides.length > 1 && chooser(source.facts.sides, wanted),
      parts,
    );
  let found;
  try {
    found = await source.versus(wanted);
  } catch (problem) {
    return frame(h("p.notice.bad", { role: "alert" }, problem.message));
  }
  return frame(
    h("p.verdict", null, verdict(found)),
    notes(found).map((note) => h("p.notice", null, note)),
    figures(found),
    h("section.charts", { "aria-label": "differences" }, differences(found), h("div.chart", null, measures(found))),
    h("h2", null, "Tasks that flipped"),
    flips(found),
  );
}
