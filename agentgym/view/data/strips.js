// Strips over tokens, drawn in a canvas that holds only the tokens in sight.

import { h, number, plural, table } from "./dom.js";

const ROW = 26;
const GAP = 6;
const LEAST = 16;
const LISTED = 200;

const SMALL = 0.1; // nats; differences below it must not fill a strip

function advantagesOfTokens(trajectory, values, count) {
  const found = new Float64Array(count);
  let modelTurn = -1;
  for (const turn of trajectory.turns) {
    if (turn.action === null) continue;
    modelTurn += 1;
    if (turn.span) found.fill(values[modelTurn] ?? 0, turn.span[0], turn.span[1]);
  }
  return found;
}

function mismatch(tokens) {
  const theirs = tokens.trainer_logprobs;
  if (!Array.isArray(theirs) || theirs.length !== tokens.logprobs.length) return null;
  return Float64Array.from(theirs, (value, at) => (tokens.loss_mask[at] ? value - tokens.logprobs[at] : 0));
}

function rowsOf(trajectory, tokens, modes) {
  const rows = [
    {
      name: "sampled",
      values: Float64Array.from(tokens.loss_mask),
      kind: "mask",
      show: (value) => (value ? "sampled" : "observed"),
    },
    { name: "log-prob", values: Float64Array.from(tokens.logprobs), kind: "size", show: number },
  ];
  const gap = mismatch(tokens);
  if (gap) rows.push({ name: "trainer \u2212 sampler", values: gap, kind: "signed", show: number, least: SMALL });
  for (const [mode, values] of Object.entries(modes)) {
    rows.push({
      name: `advantage: ${mode}`,
      values: advantagesOfTokens(trajectory, values, tokens.loss_mask.length),
      kind: "signed",
      show: number,
    });
  }
  if (new Set(tokens.versions).size > 2)
    rows.push({
      name: "policy version",
      values: Float64Array.from(tokens.versions, (one) => Math.max(0, one)),
      kind: "size",
      show: number,
    });
  for (const row of rows) {
    row.largest = row.values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    row.most = Math.max(row.largest, row.least ?? 0) || 1;
  }
  return rows;
}

function strongest(values, from, to) {
  let best = 0;
  for (let at = from; at < to; at += 1) if (Math.abs(values[at]) > Math.abs(best)) best = values[at];
  return best;
}

export function strips(trajectory, tokens, modes) {
  const count = tokens.completion_ids.length;
  if (!count) return h("p.muted", null, "No tokens were sampled.");
  const rows = rowsOf(trajectory, tokens, modes);
  const height = rows.length * (ROW + GAP);
  const canvas = h("canvas.strip", { tabindex: 0, role: "img", "aria-label": summary(rows, count) });
  const probe = h("span.hidden", { "aria-hidden": "true" });
  const readout = h("output.readout", { "aria-live": "polite" }, "Point at a token, or use the arrow keys.");
  const position = h("input", { type: "range", min: 0, step: 1, "aria-label": "first token in sight" });
  const listing = h("div.listing");
  const view = { start: 0, count, cursor: 0 };

  function colour(name) {
    probe.style.setProperty("color", `var(--${name})`);
    return getComputedStyle(probe).color;
  }

  function draw() {
    const width = Math.max(1, canvas.clientWidth);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(ratio, ratio);
    const colours = {
      good: colour("good"),
      bad: colour("bad"),
      mask: colour("accent"),
      size: colour("series1"),
      track: colour("track"),
      text: colour("text"),
    };
    const columns = Math.min(width, view.count);
    const wide = width / columns;
    rows.forEach((row, line) => {
      const top = line * (ROW + GAP);
      context.globalAlpha = 1;
      context.fillStyle = colours.track;
      context.fillRect(0, top, width, ROW);
      for (let column = 0; column < columns; column += 1) {
        const from = view.start + Math.floor((column * view.count) / columns);
        const to = Math.max(from + 1, view.start + Math.floor(((column + 1) * view.count) / columns));
        const value = strongest(row.values, from, Math.min(to, count));
        if (!value) continue;
        context.fillStyle = row.kind === "signed" ? colours[value > 0 ? "good" : "bad"] : colours[row.kind];
        const size = Math.abs(value) / row.most;
        context.globalAlpha = row.kind === "mask" ? 0.75 : 0.35 + 0.65 * size;
        const tall = row.kind === "mask" ? ROW : Math.max(2, size * ROW);
        context.fillRect(column * wide, top + ROW - tall, Math.max(1, wide - (wide > 6 ? 1 : 0)), tall);
      }
    });
    context.globalAlpha = 1;
    if (view.cursor >= view.start && view.cursor < view.start + view.count) {
      context.fillStyle = colours.text;
      context.fillRect(((view.cursor - view.start) / view.count) * width, 0, 1.5, height);
    }
    position.max = String(count - view.count);
    position.value = String(view.start);
    position.disabled = view.count === count;
  }

  function move(start, shown = view.count) {
    view.count = Math.min(count, Math.max(LEAST, Math.round(shown)));
    view.start = Math.min(count - view.count, Math.max(0, Math.round(start)));
    draw();
    if (listing.firstChild) list();
  }

  function zoom(factor) {
    const centre =
      view.cursor >= view.start && view.cursor < view.start + view.count ? view.cursor : view.start + view.count / 2;
    const share = (centre - view.start) / view.count;
    const shown = Math.min(count, Math.max(LEAST, view.count * factor));
    move(centre - share * shown, shown);
  }

  function point(at) {
    view.cursor = Math.min(count - 1, Math.max(0, at));
    if (view.cursor < view.start || view.cursor >= view.start + view.count) move(view.cursor - view.count / 2);
    else draw();
    readout.textContent = describe(view.cursor);
  }

  function describe(at) {
    const turn = trajectory.turns.findIndex((one) => one.span && one.span[0] <= at && at < one.span[1]);
    const parts = [`token ${at} of ${count}`, `id ${tokens.completion_ids[at]}`, turn < 0 ? null : `turn ${turn + 1}`];
    return [...parts, ...rows.map((row) => (row.kind === "mask" ? told(row, at) : `${row.name} ${told(row, at)}`))]
      .filter(Boolean)
      .join(" \u00b7 ");
  }

  // Only sampled tokens have more to tell than that they are there.
  function told(row, at) {
    return row.kind === "mask" || tokens.loss_mask[at] ? row.show(row.values[at]) : "\u2013";
  }

  function list() {
    const end = Math.min(view.start + view.count, view.start + LISTED);
    const body = [];
    for (let at = view.start; at < end; at += 1) {
      body.push(
        h(
          "tr",
          null,
          h("th", { scope: "row" }, String(at)),
          h("td.num", null, String(tokens.completion_ids[at])),
          rows.map((row) => h("td.num", null, told(row, at))),
        ),
      );
    }
    listing.replaceChildren(
      h("p.muted", null, `Tokens ${view.start} to ${end - 1}. The file holds ids; it does not hold the tokens' texts.`),
      table("raw tokens", ["token", "id", ...rows.map((row) => row.name)], body, "data"),
    );
  }

  const keys = {
    ArrowLeft: () => point(view.cursor - 1),
    ArrowRight: () => point(view.cursor + 1),
    "+": () => zoom(0.5),
    "-": () => zoom(2),
    Home: () => point(0),
    End: () => point(count - 1),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    point(view.start + Math.floor(((event.clientX - box.left) / box.width) * view.count));
  });
  position.addEventListener("input", () => move(Number(position.value)));
  const watcher = new ResizeObserver(draw);
  watcher.observe(canvas);
  const recolour = () => (canvas.isConnected ? draw() : document.removeEventListener("themechange", recolour));
  document.addEventListener("themechange", recolour);

  const button = (text, label, act) => h("button", { type: "button", "aria-label": label, onclick: act }, text);
  return h(
    "div.strips",
    null,
    h(
      "div.strip-grid",
      null,
      h(
        "div.strip-names",
        { style: { height: `${height}px` } },
        rows.map((row) => h("span", null, row.name)),
      ),
      h("div.strip-box", { style: { height: `${height}px` } }, canvas),
    ),
    h(
      "div.strip-controls",
      null,
      position,
      button("\u2212", "show more tokens", () => zoom(2)),
      button("+", "show fewer tokens", () => zoom(0.5)),
      button("all", "show all tokens", () => move(0, count)),
      button("raw tokens", "list the tokens in sight", () => (listing.firstChild ? listing.replaceChildren() : list())),
    ),
    readout,
    h("p.muted", null, summary(rows, count)),
    listing,
    probe,
  );
}

function summary(rows, count) {
  const gap = rows.find((row) => row.name.startsWith("trainer"));
  const sampled = rows[0].values.reduce((sum, one) => sum + one, 0);
  const names = rows.map((row) => row.name).join(", ");
  const largest = gap ? `; largest mismatch ${number(gap.largest)} nats` : "";
  return `${plural(count, "token")}, ${number(sampled)} sampled; strips: ${names}${largest}`;
}
