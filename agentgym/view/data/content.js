// Shows messages by what they hold: calls, SQL results, search hits, diffs, code, pictures, text.

import { bounded, code, diff, looksLikeSql, replacement } from "./code.js";
import { h, lazyDetails, table } from "./dom.js";
import { callsOf, messageText, pictures, pretty } from "./texts.js";

const CODE = new Set([
  "code",
  "command",
  "script",
  "program",
  "content",
  "text",
  "patch",
  "sql",
  "query",
  "old",
  "new",
  "answer",
]);
const INSTRUCTIONS = 600; // characters of instructions, which are the same everywhere, before they are cut
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;
const PICTURE_TYPES = { iVBORw0KGgo: "image/png", "/9j/": "image/jpeg", R0lGOD: "image/gif", UklGR: "image/webp" };
const COUNT = /^(first \d+ of \d+\+? rows|\d+ rows?), [<>]?\d+ s$/;
const SAMPLE = /^\d+ rows(, the first \d+:)?$/;
const CALL =
  /<tool_call>\s*([\s\S]*?)\s*(?:<\/tool_call>|$)|<think>([\s\S]*?)(?:<\/think>|$)|^(`{3,})([^`\n]*)\n([\s\S]*?)(?:^\3\s*$|(?![\s\S]))/gm;
const COMPACT = /^@([\w.-]+)(?:[ \t]|$)/;

/** @type {(one: any, options?: { call?: boolean }) => HTMLElement} */
export function message(one, { call } = {}) {
  const role = ["system", "user", "assistant", "tool"].includes(one?.role) ? one.role : "other";
  const text = messageText(one);
  const body = pictures(one).map(picture);
  if (text)
    body.push(
      role === "tool" || call
        ? bounded(text, (part) => result(part))
        : role === "assistant"
          ? spoken(text)
          : role === "system"
            ? prose(text, INSTRUCTIONS, 0)
            : prose(text),
    );
  body.push(...callsOf(one).map(callBox));
  return h(
    `article.message.${role}`,
    { "aria-label": `${one?.role ?? "message"}${one?.name ? ` ${one.name}` : ""}` },
    h("header", null, h("span.role", null, one?.role ?? "?"), one?.name && h("span.tool-name", null, one.name)),
    body.length ? body : h("p.muted", null, "(empty)"),
  );
}

function prose(text, ...ends) {
  return bounded(text, (part) => h("div.text", null, part), ...ends);
}

// What a model wrote: reasoning, calls in the syntax of a dialect, fenced code, and text between.
function spoken(text) {
  if (text.length > 100_000) return prose(text);
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(CALL)) {
    parts.push(...plainParts(text.slice(last, found.index)));
    last = found.index + found[0].length;
    if (found[1] !== undefined) parts.push(hermes(found[1]));
    else if (found[2] !== undefined) parts.push(lazyDetails("thinking", "reasoning", () => prose(found[2].trim())));
    else
      parts.push(
        h(
          "div.fence",
          null,
          found[4].trim() && h("span.tool-name", null, found[4].trim()),
          snippet(found[5], found[4].trim()),
        ),
      );
  }
  parts.push(...plainParts(text.slice(last)));
  return h("div.spoken", null, parts);
}

function plainParts(text) {
  if (!text.trim()) return [];
  const lines = text.split("\n");
  const start = lines.findIndex((line) => COMPACT.test(line));
  if (start < 0) return [prose(text.trim())];
  const before = lines.slice(0, start).join("\n");
  const end = lines.findIndex((line, at) => at > start && COMPACT.test(line));
  const [, name] = /** @type {RegExpExecArray} */ (COMPACT.exec(lines[start]));
  const body = [
    lines[start].slice(name.length + 1).trimStart(),
    ...lines.slice(start + 1, end < 0 ? undefined : end),
  ].join("\n");
  return [
    ...(before.trim() ? [prose(before.trim())] : []),
    callBox({ name, args: body.trim() ? compactArguments(body) : {} }),
    ...(end < 0 ? [] : plainParts(lines.slice(end).join("\n"))),
  ];
}

function compactArguments(body) {
  const read = body.trimStart().startsWith("{") ? parsed(body) : null;
  return read && typeof read === "object" ? read : body;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function hermes(inner) {
  const read = parsed(inner);
  if (!read || typeof read !== "object")
    return h(
      "div.call.broken",
      null,
      h("span.tool-name", null, "unreadable call"),
      bounded(inner, (part) => code(part)),
    );
  return callBox({ name: String(read.name ?? "?"), args: read.arguments ?? {} });
}

function callBox({ name, args }) {
  return h("div.call", null, h("span.tool-name", null, `\u2192 ${name}`), argumentsBox(args));
}

function argumentsBox(args) {
  if (typeof args === "string") return args ? snippet(args) : null;
  if (args === null || typeof args !== "object" || Array.isArray(args)) return code(pretty(args, undefined, 1));
  if (typeof args.old === "string" && typeof args.new === "string") {
    const { old, new: replaced, ...others } = args;
    const whole = old.length + replaced.length < 20_000;
    return [
      pairs(others),
      whole ? replacement(old, replaced) : bounded(`${old}\n---\n${replaced}`, (part) => code(part)),
    ];
  }
  const long = Object.entries(args).filter(
    ([key, value]) => typeof value === "string" && (value.includes("\n") || (CODE.has(key) && value)),
  );
  const short = Object.entries(args).filter((entry) => !long.some(([key]) => key === entry[0]));
  return [
    pairs(Object.fromEntries(short)),
    long.map(([key, value]) => [Object.keys(args).length > 1 && h("span.key", null, key), snippet(value, key)]),
  ];
}

function pairs(values) {
  const entries = Object.entries(values);
  if (!entries.length) return null;
  return h(
    "dl.pairs",
    null,
    entries.map(([key, value]) =>
      h(
        "div",
        null,
        h("dt", null, key),
        h(
          "dd",
          null,
          bounded(typeof value === "string" ? value : pretty(value, undefined, 0), (part) => h("span", null, part)),
        ),
      ),
    ),
  );
}

function snippet(text, key = "") {
  if (isDiff(text)) return bounded(text, diff);
  if (looksLikeSql(text)) return bounded(text, (part) => code(part, "sql"));
  const python =
    ["code", "python", "content", "program"].includes(key) ||
    /^\s*(def|import|from|class|print\(|for .*:$)/m.test(text);
  return bounded(text, (part) => code(part, python ? "python" : undefined));
}

function isDiff(text) {
  return /^(diff --git |@@ -\d)/m.test(text) || /^--- .*\n\+\+\+ /m.test(text);
}

function picture(block) {
  const data = block.base64 ?? block.data;
  const type =
    typeof data === "string" && BASE64.test(data)
      ? Object.entries(PICTURE_TYPES).find(([start]) => data.startsWith(start))?.[1]
      : null;
  if (!type) return h("p.muted", null, `[${block.type ?? "unknown block"}]`);
  const image = h("img", {
    src: `data:${type};base64,${data}`,
    alt: "picture of the page that the model saw",
    loading: "lazy",
  });
  return h("details.picture", { open: true }, h("summary", null, "picture"), image);
}

// The result of a tool.
function result(text) {
  const lines = text.split("\n");
  if (COUNT.test(lines.at(-1)) && lines.length > 1) return sqlResult(lines);
  if (lines.some((line) => SAMPLE.test(line)) && !lines[0].startsWith("[")) return sqlTable(lines) ?? output(text);
  if (lines.length && lines.every((line) => /^\[\d+\] .*: /.test(line))) return hits(lines);
  if (isDiff(text)) return diff(text);
  if (lines.length > 1 && lines.every((line) => /^\d+\t/.test(line))) return numberedLines(lines);
  if (/^\s*[[{]/.test(text)) {
    const read = parsed(text);
    if (read !== null) return code(pretty(read, text));
  }
  return output(text);
}

function cells(line) {
  const found = [""];
  for (const [one] of line.matchAll(/\\[\s\S]|[^\\]/g)) {
    if (one === "|") found.push("");
    else found[found.length - 1] += one === "\\n" ? "\n" : one === "\\r" ? "\r" : one.length === 2 ? one[1] : one;
  }
  return found;
}

function cell(value) {
  const kind = value === "NULL" ? "null" : /^-?[\d.]+(e[+-]?\d+)?$/.test(value) ? "num" : "";
  return dataCell(value, kind);
}

// Words that fit are kept whole, also where the screen is narrow; longer ones may break.
function dataCell(value, kind) {
  const classes = [kind, /\S{25}/.test(value) ? "" : "words"].filter(Boolean);
  return h(["td", ...classes].join("."), null, value);
}

function grid(caption, heads, rows) {
  return table(
    caption,
    heads,
    rows.map((line) => h("tr", null, cells(line).map(cell))),
    "data",
  );
}

function sqlResult(lines) {
  const heads = cells(lines[0]).map((head) => {
    const at = head.lastIndexOf(" ");
    return h(
      "th",
      { scope: "col" },
      at < 0 ? head : head.slice(0, at),
      at >= 0 && h("span.type", null, head.slice(at)),
    );
  });
  return h("div", null, grid("result of the query", heads, lines.slice(1, -1)), h("p.muted", null, lines.at(-1)));
}

function sqlTable(lines) {
  const at = lines.findIndex((line) => SAMPLE.test(line));
  const columns = lines.slice(0, at).map((line) => /^(\S+) (\S+(?: \S+)*?)( key)?(?: -> (\S+))?$/.exec(line));
  if (!columns.length || columns.some((one) => !one)) return null;
  const described = columns.map(([, name, type, key, target]) =>
    h(
      "tr",
      null,
      [name, type, key ? "key" : "", target ? `\u2192 ${target}` : ""].map((one) => dataCell(one)),
    ),
  );
  const sample = lines.slice(at + 1);
  return h(
    "div",
    null,
    table("columns", ["column", "type", "key", "refers to"], described, "data"),
    h("p.muted", null, lines[at]),
    sample.length > 0 &&
      grid(
        "first rows",
        columns.map(([, name]) => name),
        sample,
      ),
  );
}

function hits(lines) {
  return h(
    "ol.hits",
    null,
    lines.map((line) => {
      const [, place, title, text] = /** @type {RegExpExecArray} */ (/^\[(\d+)\] (.*?): ([\s\S]*)$/.exec(line));
      return h("li", null, h("span.place", null, place), h("strong", null, title), h("span", null, ` ${text}`));
    }),
  );
}

function numberedLines(lines) {
  return h(
    "pre.code.numbered",
    { tabindex: 0 },
    h(
      "code",
      null,
      lines.map((line) => {
        const at = line.indexOf("\t");
        return h("span.line", null, h("span.line-number", null, line.slice(0, at)), `${line.slice(at + 1)}\n`);
      }),
    ),
  );
}

// What programs and tests print.
function output(text) {
  const lines = text.split("\n");
  const place = lines.length > 25 ? { tabindex: 0 } : null; // a box that scrolls must be reached by keys
  if (!lines.some((line) => VERDICT.test(line))) return h("div.text.mono", place, text);
  return h(
    "div.text.mono",
    place,
    lines.map((line, at) => {
      const end = at < lines.length - 1 ? "\n" : "";
      const found = VERDICT.exec(line);
      return found ? h(`span.${/^(passed|ok)/i.test(found[1]) ? "good" : "bad"}`, null, line + end) : line + end;
    }),
  );
}

const VERDICT = /^(PASSED|FAILED|ERROR|E {3}|ok|FAIL|Traceback|[A-Z]\w*(?:Error|Exception)\b)/;
