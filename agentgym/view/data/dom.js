// Builds elements. Text from models and pages becomes text nodes only; nothing here parses HTML.

const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const LONE_SURROGATES = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
const SVG = "http://www.w3.org/2000/svg";

// Replaces characters that would colour, move or reorder what follows by visible ones.
export function visible(text) {
  return String(text)
    .replaceAll("\r\n", "\n")
    .replace(LONE_SURROGATES, "\ufffd")
    .replace(CONTROLS, (one) => {
      const code = one.charCodeAt(0);
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      return code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
    });
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

/**
 * @template {string} T
 * @typedef {T extends `${infer Name}.${string}` ? ElementOf<Name>
 *   : T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : HTMLElement} ElementOf
 */

/**
 * @template {string} T
 * @param {T} tag The name of an element, and its classes, each after a dot.
 * @param {Record<string, any> | null} [properties]
 * @param {any[]} children
 * @returns {ElementOf<T>}
 */
export function h(tag, properties, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = /** @type {ElementOf<T>} */ (document.createElement(name));
  if (classes.length) element.className = classes.join(" ");
  return fill(element, properties, children);
}

export function svg(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// A disclosure whose contents are made when it is first opened.
export function lazyDetails(className, summary, make, open = false) {
  const details = h(`details.${className}`, null, h("summary", null, summary));
  let made = false;
  const ready = () => {
    if (details.open && !made) {
      made = true;
      append(details, [make()]);
    }
  };
  details.addEventListener("toggle", ready);
  details.open = open;
  ready();
  return details;
}

export function table(caption, heads, rows, className = "plain") {
  return h(
    "div.scroll",
    { tabindex: 0, role: "region", "aria-label": caption },
    h(
      `table.${className}`,
      null,
      h("caption.hidden", null, caption),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          heads.map((head) => (head instanceof Node ? head : h("th", { scope: "col" }, head))),
        ),
      ),
      h("tbody", null, rows),
    ),
  );
}

// The head of a column of numbers.
export function numberHead(name) {
  return h("th.num", { scope: "col" }, name);
}

const MINUS = "\u2212";
const ROUNDING = 1e-9; // smaller numbers are what sums of fractions leave over

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "\u2013";
  if (!Number.isFinite(value)) return String(value);
  if (Math.abs(value) < ROUNDING) return "0";
  if (Number.isInteger(value)) return (value < 0 ? MINUS : "") + Math.abs(value).toLocaleString("en-US");
  const size = Math.abs(value);
  const text = size >= 1000 ? Math.round(size).toLocaleString("en-US") : String(+size.toPrecision(digits));
  return (value < 0 ? MINUS : "") + text;
}

export function signed(value) {
  return value > ROUNDING ? `+${number(value)}` : number(value);
}

export function percent(value) {
  return value === null || value === undefined ? "\u2013" : `${(100 * value).toFixed(1)} %`;
}

export function seconds(value) {
  if (value === null) return "\u2013";
  if (Math.abs(value) < 0.1) return value === 0 ? "0 s" : `${number(1000 * value, 2)} ms`;
  return value >= 100 ? `${Math.round(value)} s` : `${number(value, 3)} s`;
}

export function plural(count, noun, nouns = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : nouns}`;
}

export function sign(value) {
  return value > ROUNDING ? "good" : value < -ROUNDING ? "bad" : "zero";
}

export function mark(row) {
  if (row.failed) return h("span.mark.warn", { title: "failed: something around the model broke" }, "! failed");
  return row.success ? h("span.mark.good", null, "\u2713 solved") : h("span.mark.bad", null, "\u2717 not solved");
}
