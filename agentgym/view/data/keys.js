// Keys, and the box that names them.

import { h } from "./dom.js";

const KEYS = [
  ["j / k", "next or previous row, or turn"],
  ["Enter", "open the row"],
  ["[ / ]", "previous or next trajectory, or page of the table"],
  ["g", "all attempts at this task, and back"],
  ["c", "compare two runs"],
  ["u", "back to all trajectories"],
  ["/", "search"],
  ["t", "dark, light, or as the system"],
  ["?", "this list"],
];

export function helpDialog() {
  const close = () => dialog.close();
  const dialog = h(
    "dialog.help",
    { "aria-labelledby": "help-head" },
    h("h2", { id: "help-head" }, "Keys"),
    h(
      "table.plain",
      null,
      h(
        "thead.hidden",
        null,
        h("tr", null, h("th", { scope: "col" }, "key"), h("th", { scope: "col" }, "what it does")),
      ),
      h(
        "tbody",
        null,
        KEYS.map(([key, what]) => h("tr", null, h("th", { scope: "row" }, h("kbd", null, key)), h("td", null, what))),
      ),
    ),
    h("button", { type: "button", onclick: close }, "Close"),
  );
  return dialog;
}

function typing(target) {
  return target.closest?.("input:not([type=range]), textarea, select, [contenteditable]");
}

function follow(selector) {
  document.querySelector(selector)?.click();
}

// Moves through rows of the table, or turns of a trajectory.
function step(by) {
  const stops = [...document.querySelectorAll("table.rows tbody tr, section.turn, .side-by-side .attempt")];
  if (!stops.length) return;
  const at = stops.findIndex((one) => one.classList.contains("current"));
  const next = stops[Math.min(stops.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : stops.length - 1) : at + by))];
  stops[at]?.classList.remove("current");
  next.classList.add("current");
  next.scrollIntoView({ block: next.tagName === "TR" ? "nearest" : "start" });
  if (next.tagName === "TR") next.querySelector("a")?.focus({ preventScroll: true });
}

export function listen({ help, theme }) {
  const search = () => {
    const box = /** @type {HTMLInputElement | null} */ (document.querySelector("input[type=search]"));
    if (box) box.focus();
    else follow("a[rel=up]");
  };
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    "[": () => follow("a[rel=prev], .pager button:first-child"),
    "]": () => follow("a[rel=next], .pager button:last-child"),
    g: () => follow("a[rel=group]"),
    c: () => follow("a[rel=compare]"),
    u: () => follow("a[rel=up]"),
    "/": search,
    t: theme,
    "?": help,
  };
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key === "Escape" && typing(target)) target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || typing(target) || document.querySelector("dialog[open]"))
      return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
