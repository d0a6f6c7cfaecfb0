// Starts the page: the frame, the theme, the address, and looking for new trajectories while a run goes on.

import { comparePage } from "./compare.js";
import { h, plural } from "./dom.js";
import { groupPage } from "./group.js";
import { helpDialog, listen } from "./keys.js";
import { overviewPage } from "./overview.js";
import { read } from "./route.js";
import { openSource } from "./source.js";
import { trajectoryPage } from "./trajectory.js";

const THEMES = ["system", "dark", "light"];
const EVERY_MS = 2000;

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
const main = h("main", { id: "main", tabindex: -1 });
const status = h("span.status", { role: "status" });
const help = helpDialog();
let shown = 0; // number of the page that is being made; an older one that is ready late is dropped
/** @type {import("./source.js").Source} */
let source;

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  themeButton.textContent = `theme: ${name}`;
  try {
    localStorage.setItem("agentgym-theme", name);
  } catch {
    // A file opened from disk may have no storage; the theme then lasts as long as the page.
  }
  document.dispatchEvent(new Event("themechange"));
}

function theme() {
  const now = document.documentElement.dataset.theme ?? "system";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function storedTheme() {
  try {
    return localStorage.getItem("agentgym-theme");
  } catch {
    return null;
  }
}

const themeButton = h("button", { type: "button", onclick: theme }, "theme: system");

function frame() {
  app.replaceChildren(
    h(
      "header.top",
      null,
      h("a.brand", { href: "#/" }, "agentgym"),
      status,
      h("span.space"),
      themeButton,
      h("button", { type: "button", onclick: () => help.showModal(), "aria-haspopup": "dialog" }, "keys: ?"),
    ),
    main,
    help,
  );
}

/** @type {[RegExp, import("./source.js").PageOf][]} */
const PAGES = [
  [/^\/t\/([\d.]+)$/, trajectoryPage],
  [/^\/g\/([\d.]+)$/, groupPage],
  [/^\/compare$/, comparePage],
];

function pageFor(path, wanted) {
  for (const [form, page] of PAGES) {
    const found = form.exec(path);
    if (found) return page(source, wanted, found[1]);
  }
  return overviewPage(source, wanted, "");
}

async function show({ keep = false } = {}) {
  const turn = (shown += 1);
  const { path, wanted } = read();
  main.setAttribute("aria-busy", "true");
  let page;
  try {
    page = await pageFor(path, wanted);
  } catch (problem) {
    page = h(
      "div.page",
      null,
      h("h1", null, "This cannot be shown"),
      h("p.notice.bad", { role: "alert" }, problem.message),
      h("p", null, h("a", { href: "#/", rel: "up" }, "\u2190 all trajectories")),
    );
  }
  if (turn !== shown) return;
  const at = window.scrollY;
  const marked = keep && main.querySelector("tr.current")?.getAttribute("data-key");
  main.replaceChildren(page);
  main.removeAttribute("aria-busy");
  document.title = `${main.querySelector("h1")?.textContent ?? "agentgym"} \u2013 agentgym`;
  if (keep) {
    window.scrollTo(0, at);
    if (marked)
      [...main.querySelectorAll("tr[data-key]")]
        .find((row) => row.getAttribute("data-key") === marked)
        ?.classList.add("current");
  } else {
    window.scrollTo(0, 0);
    if (turn > 1) main.focus({ preventScroll: true });
  }
  highlight(wanted.q);
}

// Marks what was searched for, without touching the page's elements.
function highlight(text) {
  if (!CSS.highlights) return;
  CSS.highlights.delete("found");
  if (!text || !main.querySelector(".trajectory, .group")) return;
  const wanted = text.toLowerCase();
  /** @type {Range[]} */
  const ranges = [];
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && ranges.length < 1000) {
    const node = /** @type {Text} */ (walker.currentNode);
    const inside = node.data.toLowerCase();
    for (let at = inside.indexOf(wanted); at >= 0; at = inside.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + wanted.length, node.length));
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
  ranges[0]?.startContainer.parentElement?.scrollIntoView({ block: "center" });
}

async function refresh() {
  if (document.hidden) return;
  try {
    const grown = await source.refresh();
    say();
    const busy = main.querySelector("input:focus, select:focus");
    if (grown && !busy && read().path === "/") await show({ keep: true });
  } catch {
    status.textContent = "the server does not answer";
  }
}

function say() {
  status.textContent = `${plural(source.rows.length, "trajectory", "trajectories")}${source.live ? ", live" : ""}`;
}

document.addEventListener("click", (event) => {
  const button = /** @type {HTMLElement} */ (event.target).closest?.("[data-turn]");
  if (button) document.getElementById(`turn-${button.getAttribute("data-turn")}`)?.scrollIntoView({ block: "start" });
});

async function start() {
  frame();
  setTheme(THEMES.find((name) => name === storedTheme()) ?? "system");
  listen({ help: () => help.showModal(), theme });
  try {
    source = await openSource();
  } catch (problem) {
    main.replaceChildren(h("p.notice.bad", { role: "alert" }, problem.message));
    return;
  }
  say();
  window.addEventListener("hashchange", () => show());
  if (source.live) setInterval(refresh, EVERY_MS);
  await show();
}

start();
