// All attempts at one task side by side, in step from where they first differ.

import { message } from "./content.js";
import { h, lazyDetails, mark, number, plural, sign, signed } from "./dom.js";
import { telling } from "./pay.js";
import { linkTo } from "./route.js";
import { questionOf, taskBar } from "./task.js";
import { actionMessage } from "./texts.js";

const MOST = 12;

// What two attempts must share to be the same so far. Ids of calls differ without meaning.
function sameness(one) {
  const calls = Array.isArray(one?.tool_calls) ? one.tool_calls.map((call) => call?.function ?? call) : [];
  return JSON.stringify([one?.role, one?.name, one?.content, calls]);
}

function steps(trajectory) {
  const opening = { name: "opening", messages: trajectory.opening ?? [], turn: null };
  const turns = trajectory.turns.map((turn, at) => ({
    name: turn.action === null ? "graded" : `turn ${at + 1}`,
    messages: [...(turn.action === null ? [] : [actionMessage(turn.action)]), ...(turn.observation ?? [])],
    turn,
  }));
  return [opening, ...turns].map((step) => ({ ...step, same: step.messages.map(sameness).join("\n") }));
}

function commonPrefix(all) {
  const shortest = Math.min(...all.map((one) => one.length));
  let count = 0;
  while (count < shortest && all.every((one) => one[count].same === all[0][count].same)) count += 1;
  return count;
}

function cell(step, justEnded) {
  if (!step) return justEnded ? h("div.cell.ended", null, h("p.muted", null, "ended")) : h("div");
  return h(
    "div.cell",
    null,
    step.turn &&
      h(
        "p.paid",
        null,
        h("strong", null, step.name),
        " ",
        h(`span.num.${sign(step.turn.reward)}`, null, signed(step.turn.reward)),
      ),
    step.messages.map((one) => message(one, { call: one?.role !== "assistant" && step.turn !== null })),
  );
}

function headOf({ row, pay }, wanted, current) {
  const advantages = Object.entries(telling(pay).modes).map(([mode, values]) => [
    mode,
    values.length ? values[0] : null,
    new Set(values).size > 1,
  ]);
  return h(
    "div.cell.attempt",
    { "aria-current": row.key === current ? "true" : null },
    h("h2", null, h("a", { href: linkTo(`/t/${row.key}`, wanted) }, `attempt ${number(row.attempt)}`)),
    h("p", null, mark(row), ` ${row.reason ?? "running"}`),
    h("p.muted", null, `reward ${signed(row.reward)}, ${plural(row.turns, "turn")}`),
    h(
      "p.muted",
      null,
      advantages
        .filter(([, value]) => value !== null)
        .map(([mode, value, several]) => `${mode} ${signed(value)}${several ? "\u2026" : ""}`)
        .join(", "),
    ),
  );
}

/** @type {import("./source.js").PageOf} */
export async function groupPage(source, wanted, key) {
  const first = await source.trajectory(key);
  const chosen = first.group.slice(0, MOST);
  const members = await Promise.all(chosen.map((row) => (row.key === key ? first : source.trajectory(row.key))));
  const all = members.map((one) => steps(one.trajectory));
  const shared = commonPrefix(all);
  const longest = Math.max(...all.map((one) => one.length));
  const lines = Array.from({ length: longest - shared }, (_, at) =>
    all.map((one) => cell(one[shared + at], shared + at === one.length)),
  );
  const solved = first.group.filter((row) => row.success).length;
  return h(
    "div.page.group",
    null,
    h(
      "nav.crumbs",
      { "aria-label": "pages" },
      h("a", { href: linkTo("/", wanted), rel: "up" }, "\u2190 all"),
      h("a", { href: linkTo(`/t/${key}`, wanted), rel: "group" }, "this trajectory"),
    ),
    taskBar(
      [
        h("h1.id", null, first.row.task),
        h(
          "span",
          null,
          `${plural(first.group.length, "attempt")}, ${number(solved)} solved. ${first.row.policy} in ${first.row.env}`,
          first.row.step !== null && `, training step ${first.row.step}`,
        ),
      ],
      questionOf(first.trajectory, first.task),
      first.task,
    ),
    first.group.length > MOST && h("p.notice", null, `The first ${MOST} are shown.`),
    lazyDetails(
      "shared",
      shared
        ? `The same in all attempts: the opening${shared > 1 ? ` and ${plural(shared - 1, "turn")}` : ""}`
        : "The attempts differ from the start",
      () =>
        h(
          "div",
          null,
          all[0].slice(0, shared).map((step) =>
            h(
              "div.cell",
              null,
              h("p.paid", null, h("strong", null, step.name)),
              step.messages.map((one) => message(one, { call: step.turn !== null && one?.role !== "assistant" })),
            ),
          ),
        ),
    ),
    h(
      "div.scroll.side-by-side",
      {
        tabindex: 0,
        role: "region",
        "aria-label": "attempts side by side",
        style: { "--attempts": String(members.length) },
      },
      members.map((member) => headOf(member, wanted, key)),
      lines,
    ),
  );
}
