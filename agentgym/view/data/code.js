// Colours for code, and texts that are cut to a size that a page can show.

import { h, number } from "./dom.js";

const HEAD = 4000; // characters that a text keeps at its start; at its end, about a third of that
const COLOURED = 20_000;

const PYTHON =
  "and as assert async await break class continue def del elif else except False finally for from global if import " +
  "in is lambda None nonlocal not or pass raise return True try while with yield match case";
const SQL =
  "select from where group by order having limit offset join left right inner outer full cross on as and or not in " +
  "is null like between case when then else end distinct union all with values insert into update delete create " +
  "table exists asc desc over partition cast using intersect except";
const WORDS = { python: new Set(PYTHON.split(" ")), sql: new Set(SQL.split(" ")) };
const TOKENS = {
  python:
    /(#[^\n]*)|("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|\b(\d[\d_.]*(?:e[+-]?\d+)?)\b|([A-Za-z_]\w*)/g,
  sql: /(--[^\n]*|\/\*[\s\S]*?\*\/)|('(?:''|[^'])*'|"(?:""|[^"])*")|\b(\d[\d.]*)\b|([A-Za-z_]\w*)/g,
};
const KINDS = ["comment", "string", "number"];

function coloured(text, language) {
  const words = WORDS[language];
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(TOKENS[language])) {
    const word = found[4];
    const kind = word
      ? words.has(language === "sql" ? word.toLowerCase() : word)
        ? "keyword"
        : null
      : KINDS.find((_, at) => found[at + 1]);
    if (!kind) continue;
    parts.push(text.slice(last, found.index), h(`span.${kind}`, null, found[0]));
    last = found.index + found[0].length;
  }
  return [...parts, text.slice(last)];
}

export function looksLikeSql(text) {
  return /^\s*(select|with|insert|update|delete|create|explain)\b/i.test(text);
}

export function code(text, language) {
  const known = TOKENS[language] && text.length <= COLOURED;
  return h("pre.code", { tabindex: 0 }, h("code", null, known ? coloured(text, language) : text));
}

export function diff(text) {
  const kinds = { "+": "added", "-": "removed", "@": "hunk" };
  const lines = text.split("\n").map((line) => {
    const heading = /^(diff --git|index |--- |\+\+\+ )/.test(line);
    return h(`span.line.${heading ? "heading" : (kinds[line[0]] ?? "same")}`, null, `${line}\n`);
  });
  return h("pre.code.diff", { tabindex: 0 }, h("code", null, lines));
}

// The lines that were replaced, and those that took their place.
export function replacement(before, after) {
  const lines = (text, kind, sign) => text.split("\n").map((line) => h(`span.line.${kind}`, null, `${sign} ${line}\n`));
  return h(
    "pre.code.diff",
    { tabindex: 0 },
    h("code", null, lines(before, "removed", "-"), lines(after, "added", "+")),
  );
}

// Shows a text by `show`; of a long one the two ends, or the start, until the rest is asked for.
export function bounded(text, show, head = HEAD, tail = Math.round(head / 3)) {
  if (text.length <= 1.3 * head + tail) return show(text);
  const box = h("div.cut");
  const all = () => box.replaceChildren(text.length > COLOURED ? inPieces(text) : show(text));
  const button = h("button", { type: "button", onclick: all }, `Show all ${number(text.length)} characters`);
  const left = h("p.gap", null, `${number(text.length - head - tail)} characters are not shown here. `, button);
  box.append(show(text.slice(0, head)), left, ...(tail ? [show(text.slice(-tail))] : []));
  return box;
}

// One text node of many megabytes makes a page slow; pieces that are out of sight cost nothing.
function inPieces(text) {
  const pieces = [];
  for (let at = 0; at < text.length; at += COLOURED) pieces.push(h("div.piece", null, text.slice(at, at + COLOURED)));
  return h("pre.code", { tabindex: 0 }, pieces);
}
