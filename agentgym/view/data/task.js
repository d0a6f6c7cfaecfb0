// The task of a trajectory: the question, and what would have been right, in a bar that stays in sight.

import { h } from "./dom.js";
import { messageText } from "./texts.js";

export const CLAMPED = 200; // characters of a text that are always in sight

// The question as the task words it, or else as the model read it.
export function questionOf(trajectory, task) {
  const asked = (trajectory.opening ?? []).findLast((one) => one?.role === "user");
  return (task.prompt ?? messageText(asked)).trim();
}

// A text of at most a few lines, with a button for the rest.
function clamped(kind, text) {
  const box = h(`div.clamped.${kind}`, null, text);
  if (text.length < CLAMPED && text.split("\n").length < 3) return box;
  const button = h(
    "button.link",
    {
      type: "button",
      "aria-expanded": "false",
      onclick: () => {
        const open = box.classList.toggle("open");
        button.setAttribute("aria-expanded", String(open));
        button.textContent = open ? "less" : "more";
      },
    },
    "more",
  );
  return [box, button];
}

// The question, and what would have been right, as far as the task says it.
export function taskBar(head, question, task) {
  const gold = Object.entries(task.gold);
  const right = gold.map(([name, value]) => (gold.length > 1 ? `${name}: ${value}` : value)).join("\n");
  const line = (name, ...body) => h("div.task-line", null, h("span.muted", null, name), h("div", null, body));
  return h(
    "section.task-bar",
    { "aria-label": "task" },
    h("div.task-head", null, head),
    question && line("question", clamped("question", question)),
    right
      ? line("right answer", clamped("gold", right))
      : line("right answer", h("span.muted", null, task.problem ? `not shown: ${task.problem}` : "the task has none")),
  );
}
