// One trajectory: the question and the right answer, always in sight; what happened, turn by turn, and beside it what
// each turn earned and why; then everything else.

import { bounded, code } from "./code.js";
import { message } from "./content.js";
import { h, lazyDetails, mark, number, plural, seconds, sign, signed } from "./dom.js";
import { besideTurn, payTable, telling } from "./pay.js";
import { linkTo } from "./route.js";
import { strips } from "./strips.js";
import { CLAMPED, questionOf, taskBar } from "./task.js";
import { actionMessage, messageText, pictures, pretty } from "./texts.js";
import { hasTimes, timesText, waterfall } from "./waterfall.js";

const MANY_TURNS = 8; // a longer table of credit waits to be opened
const LAZY_TURNS = 40; // of more, those out of sight are not laid out
const WHEN = "Credit is known once the episode has ended; during it, rewards are paid as they become certain.";
const LIMITS = { length: "tokens", time: "time" }; // by the `finish` of a turn that reached one
const KNOWN_NOTES = new Set(["credit", "gates", "trainer_logprobs"]);

function facts(row, trajectory) {
  const one = (name, value) =>
    value !== null && value !== "" && h("div", null, h("dt", null, name), h("dd", null, value));
  const errors = [
    row.tool_errors && plural(row.tool_errors, "tool error"),
    row.format_errors && plural(row.format_errors, "format error"),
  ].filter(Boolean);
  return h(
    "dl.facts",
    null,
    one("ending", `${row.reason ?? "running"}${row.ending ? ` (${row.ending})` : ""}`),
    one("environment", row.env),
    one("policy", row.policy),
    one("task", row.task),
    one("split", row.split),
    one("difficulty", number(row.difficulty)),
    one("attempt", number(row.attempt)),
    one("training step", row.step === null ? null : number(row.step)),
    one("seed", trajectory.seed === null ? null : String(trajectory.seed)),
    one("turns", number(row.turns)),
    one("calls", `${number(row.calls)}${errors.length ? `, ${errors.join(", ")}` : ""}`),
    one("tokens", row.sampled === null ? null : `${number(row.input)} in, ${number(row.sampled)} out`),
    one("cost", row.cost === null ? null : number(row.cost)),
    one("whole search", searchCost(trajectory.search ?? {})),
    one(
      "time",
      row.generation === null
        ? seconds(row.seconds)
        : `${seconds(row.seconds)}: ${seconds(row.generation)} generation, ${seconds(row.environment)} environment`,
    ),
    row.tags.length > 0 && one("tags", row.tags.join(" ")),
  );
}

function searchCost(search) {
  const counts = Object.entries(search).filter(([name]) => name !== "oracle");
  const shown = counts.map(([name, value]) => `${number(value)} ${name.replaceAll("_", " ")}`);
  if (search.oracle) shown.push("chosen by the reward itself");
  return shown.length ? shown.join(", ") : null;
}

function more(trajectory) {
  const json = (value) => bounded(pretty(value), (part) => code(part));
  return [
    Object.keys(trajectory.env_kwargs ?? {}).length > 0 &&
      lazyDetails("extra", "arguments of the environment", () => json(trajectory.env_kwargs)),
    trajectory.tools?.length > 0 &&
      lazyDetails("extra", `${plural(trajectory.tools.length, "tool")} with schemas`, () => json(trajectory.tools)),
  ];
}

function details(trajectory, notes) {
  const found = [
    ...Object.entries(trajectory.details ?? {}),
    ...Object.entries(notes).filter(([kind]) => !KNOWN_NOTES.has(kind)),
  ];
  if (!found.length) return null;
  return h(
    "dl.pairs.block",
    null,
    found.map(([name, value]) =>
      h(
        "div",
        null,
        h("dt", null, name),
        h(
          "dd",
          null,
          bounded(typeof value === "string" ? value : pretty(value, undefined, 1), (part) =>
            h("div.text.mono", null, part),
          ),
        ),
      ),
    ),
  );
}

function turnBox(turn, at, pay, modelTurn, many) {
  const limit = LIMITS[turn.finish ?? turn.action?.finish_reason];
  return h(
    many ? "section.turn.many" : "section.turn",
    { id: `turn-${at + 1}`, "aria-label": `turn ${at + 1}` },
    h(
      "h3",
      null,
      turn.action === null ? "graded as it stood" : `turn ${at + 1}`,
      turn.span && h("span.muted", null, ` ${plural(turn.span[1] - turn.span[0], "token")}`),
      turn.times && h("span.muted", { title: timesText(turn.times) }, `, ${seconds(turnSeconds(turn))}`),
      limit && h("span.warn", null, ` cut off at the limit of ${limit}`),
    ),
    h(
      "div.turn-body",
      null,
      h(
        "div.messages",
        null,
        turn.action !== null && message(actionMessage(turn.action)),
        (turn.observation ?? []).map((one) => message(one, { call: answersCall(turn, one) })),
      ),
      h("aside.evidence", { "aria-label": `what turn ${at + 1} earned` }, besideTurn(turn, at, pay, modelTurn)),
    ),
  );
}

function turnSeconds({ times }) {
  return times.generation_s + times.environment_s;
}

// Dialects give results of tools back in messages of the user; they are shown as results all the same.
function answersCall(turn, one) {
  return turn.action !== null && one?.role !== "assistant" && messageText(one).length > 0;
}

function payBox(trajectory, pay) {
  if (pay.problem) return h("p.notice", null, `Gates and credit cannot be shown: ${pay.problem}`);
  return h(
    "div",
    null,
    pay.note && h("p.notice", null, pay.note),
    payTable(trajectory, pay),
    h("p.muted", null, `${pay.about} ${WHEN}`),
  );
}

function tokenBox(source, found) {
  const box = h("div", null, h("p.muted", null, "loading\u2026"));
  source.tokens(found.row).then(
    (tokens) => box.replaceChildren(strips(found.trajectory, tokens, telling(found.pay).modes ?? {})),
    (problem) => box.replaceChildren(h("p.notice", null, problem.message)),
  );
  return box;
}

// What is known besides the conversation, below it. On small screens it waits to be opened.
function cards(source, found) {
  const [wide, large] = ["(min-width: 136rem)", "(min-width: 60rem)"].map((query) => matchMedia(query).matches);
  const known = details(found.trajectory, found.notes);
  const short = found.trajectory.turns.length <= MANY_TURNS;
  const about = () => h("div", null, facts(found.row, found.trajectory), more(found.trajectory));
  return [
    lazyDetails("card", "Rewards and credit", () => payBox(found.trajectory, telling(found.pay)), wide || (large && short)),
    hasTimes(found.trajectory) &&
      lazyDetails("card", "Time", () => waterfall(found.trajectory), wide || (large && short)),
    found.has_tokens && lazyDetails("card", "Tokens", () => tokenBox(source, found), wide),
    known && lazyDetails("card", "Details and grades", () => known, wide || (large && short)),
    lazyDetails("card", "About this episode", about, wide || large),
  ].filter((card) => card instanceof HTMLElement);
}

// The opening messages: instructions are folded, and a message that is the question above is not repeated.
function opening(trajectory, question) {
  const shown = (trajectory.opening ?? []).map((one) =>
    one?.role === "system"
      ? lazyDetails("extra", `instructions, ${plural(messageText(one).length, "character")}`, () => message(one))
      : messageText(one).trim() === question && !pictures(one).length && question.length < CLAMPED
        ? null
        : message(one),
  );
  return h("section.opening", { "aria-label": "opening messages" }, shown);
}

function jumps(boxes) {
  const to = (box) => () => {
    box.open = true;
    box.scrollIntoView({ block: "start" });
  };
  return h(
    "nav.jumps",
    { "aria-label": "parts of this page" },
    boxes.map((box) => h("button.link", { type: "button", onclick: to(box) }, box.querySelector("summary").textContent)),
  );
}

// Links to those before and after a trajectory among the rows that the filters let through.
function neighbours(rows, key, wanted, up) {
  const at = rows.findIndex((row) => row.key === key);
  const link = (row, text, label) =>
    at >= 0 && row
      ? h("a", { href: linkTo(`/t/${row.key}`, wanted), rel: label, "aria-label": `${label} trajectory` }, text)
      : h("span.muted", { "aria-hidden": "true" }, text);
  return h(
    "nav.crumbs",
    { "aria-label": "trajectories" },
    h("a", { href: linkTo("/", wanted), rel: "up" }, "\u2190 all"),
    link(rows[at - 1], "\u2039 previous", "prev"),
    h("span.muted", null, at < 0 ? "" : `${number(at + 1)} of ${number(rows.length)}`),
    link(rows[at + 1], "next \u203a", "next"),
    up,
  );
}

/** @type {import("./source.js").PageOf} */
export async function trajectoryPage(source, wanted, key) {
  const [found, rows] = await Promise.all([source.trajectory(key), source.select(wanted)]);
  const { row, trajectory, task, group } = found;
  const pay = telling(found.pay);
  const groupLink =
    group.length > 1 &&
    h(
      "a",
      { href: linkTo(`/g/${key}`, wanted), rel: "group" },
      `group: ${plural(group.length, "attempt")}, ${number(group.filter((one) => one.success).length)} solved`,
    );
  let modelTurn = -1;
  const turns = trajectory.turns.map((turn, at) => {
    if (turn.action !== null) modelTurn += 1;
    const known = pay.problem ? null : pay;
    return turnBox(turn, at, known, turn.action === null ? null : modelTurn, trajectory.turns.length > LAZY_TURNS);
  });
  const question = questionOf(trajectory, task);
  const boxes = cards(source, found);
  return h(
    "div.page.trajectory",
    null,
    neighbours(rows, key, wanted, groupLink),
    taskBar(
      [
        h("h1.id", null, row.id),
        mark(row),
        h("span", null, row.reason ?? "running"),
        h("span", null, h("span.muted", null, "reward "), h(`strong.${sign(row.reward)}`, null, signed(row.reward))),
      ],
      question,
      task,
    ),
    jumps(boxes),
    trajectory.error && h("p.notice.bad", null, trajectory.error),
    h(
      "div.columns",
      null,
      h("div.story", null, opening(trajectory, question), turns),
      h("div.side", null, boxes),
    ),
  );
}
