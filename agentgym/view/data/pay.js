// What a trajectory was paid and why: raw channels, gates with what decided them, credit, advantages.

import { h, number, sign, signed, table } from "./dom.js";

const SCOPES = { trajectory: "over the episode", turn: "in this turn", past: "best before this turn" };

function rule(gate) {
  return `${gate.on} ${gate.strict ? ">" : "\u2265"} ${number(gate.at_least)}`;
}

function gateText(gate, state) {
  const needs = `${rule(gate)} ${SCOPES[gate.scope] ?? gate.scope}`;
  return `${gate.opens.join(", ")}: ${state.open ? "open" : "shut"}; needs ${needs}, is ${number(state.value)}`;
}

// A gate in one turn; `channels` names what it opens, where that is not said already.
function gateBadge(gate, state, channels = "") {
  return h(
    `li.gate.${state.open ? "open" : "shut"}`,
    { title: gateText(gate, state) },
    h("span.state", null, state.open ? "open" : "shut"),
    " ",
    channels && h("span", null, `${channels} `),
    h("span.muted", null, `${rule(gate)} (is ${number(state.value)})`),
  );
}

function channel(name, value) {
  return h(`li.${sign(value)}`, null, h("span", null, name), h("span.num", null, number(value)));
}

// The pay with only those modes of credit that give any turn an advantage.
export function telling(pay) {
  const modes = Object.entries(pay.modes ?? {}).filter(([, values]) => values.some((value) => sign(value) !== "zero"));
  return { ...pay, modes: Object.fromEntries(modes) };
}

// Beside a turn: what it earned.
export function besideTurn(turn, at, pay, modelTurn) {
  const traced = pay?.turns?.[at];
  const earned = Object.entries(turn.rewards).filter(([, value]) => value !== 0);
  const nothing = Object.keys(turn.rewards).filter((name) => turn.rewards[name] === 0);
  /** @type {(HTMLElement | false)[]} */
  const parts = [
    h("p.paid", null, h("span.muted", null, "reward "), h(`strong.${sign(turn.reward)}`, null, signed(turn.reward))),
    h(
      "ul.channels",
      { "aria-label": "reward channels, raw" },
      earned.map(([name, value]) => channel(name, value)),
    ),
    nothing.length > 0 && h("p.muted", null, `at 0: ${nothing.join(", ")}`),
  ];
  if (traced && pay.gates.length) {
    parts.push(
      h(
        "ul.gates",
        { "aria-label": "gates" },
        pay.gates.map((gate, which) => gateBadge(gate, traced.gates[which], gate.opens.join(", "))),
      ),
    );
  }
  const known = modelTurn === null ? [] : Object.entries(pay?.modes ?? {}).filter(([, values]) => modelTurn in values);
  if (known.length) {
    parts.push(
      h(
        "dl.pairs.advantages",
        null,
        known.map(([mode, values]) =>
          h(
            "div",
            null,
            h("dt", null, `advantage, ${mode}`),
            h(`dd.num.${sign(values[modelTurn])}`, null, signed(values[modelTurn])),
          ),
        ),
      ),
    );
  }
  return parts;
}

// One row for each channel that a turn earned: raw, gate, gated, credited; then the turn's pay and advantages.
export function payTable(trajectory, pay) {
  const modes = Object.entries(pay.modes);
  const heads = [
    "turn",
    "channel",
    "raw",
    "gate",
    "gated",
    "weight",
    "credited",
    "in the turn",
    ...modes.map(([mode]) => `advantage: ${mode}`),
  ];
  let modelTurn = -1;
  const rows = trajectory.turns.flatMap((turn, at) => {
    if (turn.action !== null) modelTurn += 1;
    return turnRows(turn, at, pay, turn.action === null ? null : modelTurn, modes);
  });
  return table("raw, gated and credited rewards, and advantages, of each turn", heads, rows, "data credit");
}

function turnRows(turn, at, pay, modelTurn, modes) {
  const traced = pay.turns[at];
  const names = Object.keys(traced.raw).filter((name) => traced.raw[name] !== 0);
  const shown = names.length ? names : [null];
  return shown.map((name, line) =>
    h(
      "tr",
      { class: line ? null : "first" },
      line === 0 &&
        h(
          "th",
          { scope: "rowgroup", rowspan: shown.length },
          h(
            "button.link",
            { type: "button", dataset: { turn: at + 1 }, "aria-label": `go to turn ${at + 1}` },
            turn.action === null ? "graded" : String(at + 1),
          ),
        ),
      name === null ? [h("td.muted", null, "(nothing)"), blank(5)] : channelCells(name, traced, pay),
      line === 0 && h(`td.num.${sign(traced.paid)}`, { rowspan: shown.length }, signed(traced.paid)),
      line === 0 &&
        modes.map(([, values]) => {
          const value = modelTurn === null ? undefined : values[modelTurn];
          return h(
            `td.num.${sign(value ?? 0)}`,
            { rowspan: shown.length },
            value === undefined ? "\u2013" : signed(value),
          );
        }),
    ),
  );
}

function blank(count) {
  return Array.from({ length: count }, () => h("td"));
}

function channelCells(name, traced, pay) {
  const deciding = pay.gates
    .map((gate, which) => [gate, traced.gates[which]])
    .filter(([gate]) => gate.opens.includes(name));
  const weight = pay.scheme.weights[name];
  const cap = name in pay.scheme.capped ? `, sum \u2264 ${number(pay.scheme.capped[name])}` : "";
  const inFull = pay.scheme.in_full.includes(name) ? ", in full if solved" : "";
  const how = pay.scheme.averaged.includes(name) ? " \u00f7 turns" : cap + inFull;
  return [
    h("th", { scope: "row" }, name),
    h("td.num", null, number(traced.raw[name])),
    h(
      "td",
      null,
      deciding.length
        ? h(
            "ul.gates",
            null,
            deciding.map(([gate, state]) => gateBadge(gate, state)),
          )
        : h("span.muted", null, "none"),
    ),
    h("td.num", null, number(traced.gated[name] ?? 0)),
    h("td.num", null, weight === undefined ? h("span.muted", null, "not paid") : `${number(weight)}${how}`),
    h(
      `td.num.${sign(traced.credited[name] ?? 0)}`,
      null,
      weight === undefined ? "\u2013" : signed(traced.credited[name] ?? 0),
    ),
  ];
}
