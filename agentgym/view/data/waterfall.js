// Where the time of a trajectory went: a line for each turn with generation, environment, and the calls within it.

import { h, percent, plural, seconds } from "./dom.js";

const LANE = 5; // height of a call, in pixels
const MOST_LANES = 6;

export function hasTimes(trajectory) {
  return trajectory.turns.length > 0 && trajectory.turns.every((turn) => turn.times);
}

// What is said of a turn, in words.
export function timesText(times) {
  const parts = [`generation ${seconds(times.generation_s)}`];
  if (times.queued_s > 0.0005) parts[0] += ` (waited ${seconds(times.queued_s)})`;
  parts.push(`environment ${seconds(times.environment_s)}`);
  return parts.join(", ");
}

// Calls that overlap lie below each other.
function lanes(calls) {
  const ends = [];
  return calls.map(([name, began, length]) => {
    let lane = ends.findIndex((end) => end <= began + 1e-9);
    if (lane < 0) lane = ends.length < MOST_LANES ? ends.length : MOST_LANES - 1;
    ends[lane] = Math.max(ends[lane] ?? 0, began + length);
    return { name, began, length, lane };
  });
}

function bar(kind, from, length, whole, title, top) {
  return h(`i.${kind}`, {
    title,
    style: {
      left: `${(100 * from) / whole}%`,
      width: `${(100 * length) / whole}%`,
      ...(top === undefined ? {} : { top: `${top}px` }),
    },
  });
}

function line(turn, at, whole, aligned) {
  const { times } = turn;
  const start = aligned ? 0 : times.began_s;
  const split = start + times.generation_s;
  const calls = lanes(times.calls);
  const depth = calls.length ? Math.max(...calls.map((call) => call.lane)) + 1 : 0;
  const track = h(
    "span.track",
    { "aria-hidden": "true", style: { height: `${14 + depth * (LANE + 1)}px` } },
    bar("generation", start, times.generation_s, whole, `generation ${seconds(times.generation_s)}`),
    times.queued_s > 0 && bar("queue", start, times.queued_s, whole, `waited ${seconds(times.queued_s)}`),
    bar("environment", split, times.environment_s, whole, `environment ${seconds(times.environment_s)}`),
    times.grading &&
      bar("grading", split + times.grading[1], times.grading[2], whole, `grading ${seconds(times.grading[2])}`),
    calls.map((call) =>
      bar(
        "call-time",
        split + call.began,
        call.length,
        whole,
        `${call.name} ${seconds(call.length)}`,
        14 + call.lane * (LANE + 1),
      ),
    ),
  );
  const name = turn.action === null ? "graded" : `turn ${at + 1}`;
  const told = [
    timesText(times),
    ...times.calls.map(([tool, , length]) => `${tool} ${seconds(length)}`),
    times.grading && `grading ${seconds(times.grading[2])}`,
  ];
  return h(
    "li",
    null,
    h("button.link", { type: "button", dataset: { turn: at + 1 }, "aria-label": `go to turn ${at + 1}` }, name),
    track,
    h("span.num", { title: told.filter(Boolean).join("; ") }, seconds(times.generation_s + times.environment_s)),
    h("span.hidden", null, told.filter(Boolean).join("; ")),
  );
}

function sums(trajectory, whole) {
  const total = (of) => trajectory.turns.reduce((sum, turn) => sum + of(turn.times), 0);
  const generation = total((times) => times.generation_s);
  const environment = total((times) => times.environment_s);
  const calls = trajectory.turns.flatMap((turn) => turn.times.calls);
  const queued = total((times) => times.queued_s ?? 0);
  const grading = total((times) => times.grading?.[2] ?? 0);
  const before = trajectory.turns[0].times.began_s;
  const one = (kind, name, value, note = "") =>
    h(`li.${kind}`, null, `${name} ${seconds(value)} (${percent(value / (whole || 1))})${note}`);
  return h(
    "ul.legend.times",
    null,
    one("setup", "before the first turn", before),
    one("generation", "generation", generation, queued > 0.0005 ? `, of it ${seconds(queued)} waiting` : ""),
    one("environment", "environment", environment),
    calls.length > 0 &&
      h(
        "li.call-time",
        null,
        `${plural(calls.length, "call")}, ${seconds(calls.reduce((sum, [, , length]) => sum + length, 0))}`,
      ),
    grading > 0.0005 && h("li.grading", null, `grading ${seconds(grading)}`),
  );
}

// The whole card; `aligned` starts each turn at the left edge, so that turns can be compared.
export function waterfall(trajectory) {
  const ends = trajectory.turns.map(({ times }) => times.began_s + times.generation_s + times.environment_s);
  const whole = Math.max(trajectory.seconds, ...ends) || 1;
  const longest = Math.max(...trajectory.turns.map(({ times }) => times.generation_s + times.environment_s)) || 1;
  const list = h("ul.waterfall", { "aria-label": "time of each turn" });
  const draw = (aligned) =>
    list.replaceChildren(...trajectory.turns.map((turn, at) => line(turn, at, aligned ? longest : whole, aligned)));
  const toggle = h(
    "button",
    {
      type: "button",
      "aria-pressed": "false",
      onclick: () => {
        const aligned = toggle.getAttribute("aria-pressed") === "false";
        toggle.setAttribute("aria-pressed", String(aligned));
        draw(aligned);
      },
    },
    "align turns",
  );
  draw(false);
  return h(
    "div",
    null,
    h("p.muted", null, `${seconds(whole)} in all, ${plural(trajectory.turns.length, "turn")}. `, toggle),
    sums(trajectory, whole),
    list,
  );
}
