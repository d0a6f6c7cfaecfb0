// Where trajectories come from: a server of this machine, or what this file itself holds. All rows are in the page;
// contents come when they are shown.

import { matches, options, sorted } from "./query.js";
import { textsOf } from "./texts.js";

/**
 * @typedef {import("./query.js").Row} Row
 * @typedef {import("./query.js").Filters} Filters
 * @typedef {[step: number, value: number][]} Metric
 * @typedef {{
 *   title: string, version: string, note: string, sides: [file: string, policy: string][],
 *   metrics: Record<string, Record<string, Metric>>,
 * }} Facts
 * @typedef {Facts & { start: number, columns: Record<string, any[]> }} Head  As `agentgym.view.head` makes it.
 * @typedef {{ trajectory: any, has_tokens: boolean, notes: Record<string, any>, pay: any }} Content
 * @typedef {Content & { row: Row, group: Row[] }} Shown
 * @typedef {{
 *   live: boolean,
 *   head(version: string): Promise<Head | null>,
 *   content(row: Row): Promise<Content>,
 *   tokens(row: Row): Promise<any>,
 *   versus(sides: { a: string, b: string }): Promise<any>,
 *   find(text: string): Promise<Set<string>>,
 * }} Store
 */

/** @type {(name: string, parameters: Record<string, string>) => Promise<any>} */
async function ask(name, parameters) {
  const answer = await fetch(`api/${name}?${new URLSearchParams(parameters)}`);
  if (!answer.ok)
    throw new Error((await answer.json().catch(() => ({}))).detail ?? `the server answered ${answer.status}`);
  return answer.json();
}

/** @type {Store} */
const server = {
  live: true,
  head: (version) => ask("rows", { version }),
  content: ({ key }) => ask("trajectory", { key }),
  tokens: ({ key }) => ask("tokens", { key }),
  versus: (sides) => ask("versus", sides),
  find: async (q) => new Set(await ask("search", { q })),
};

/** @type {(id: string) => Promise<any>} */
async function unpack(id) {
  const text = document.getElementById(id)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** @implements {Store} */
class Embedded {
  live = false;
  /** @type {{ chunks: number, versus: Record<string, any> }} */
  #more = { chunks: 0, versus: {} };
  /** @type {{ number: number, contents: Record<string, Content & { tokens: any }> }} */
  #chunk = { number: -1, contents: {} }; // the one that was read last

  async head() {
    const { chunks, versus, ...head } = await unpack("head");
    this.#more = { chunks, versus };
    return head;
  }

  /** @param {Row} row */
  async content({ key, chunk }) {
    if (chunk == null)
      throw new Error("The contents of this trajectory would make this file too large. Look at it with: agentgym view");
    return (await this.#contents(chunk))[key];
  }

  /** @param {Row} row */
  async tokens(row) {
    return (await this.content(row)).tokens;
  }

  /** @param {{ a: string, b: string }} sides */
  async versus({ a, b }) {
    const comparison = this.#more.versus[`${a}-${b}`];
    if (comparison === undefined)
      throw new Error("This file does not hold this comparison. Look at it with: agentgym view");
    if (typeof comparison === "string") throw new Error(comparison);
    return comparison;
  }

  /** @param {string} text */
  async find(text) {
    const lowered = text.toLowerCase();
    /** @type {Set<string>} */
    const keys = new Set();
    for (let number = 0; number < this.#more.chunks; number += 1) {
      for (const [key, { trajectory }] of Object.entries(await this.#contents(number))) {
        if (textsOf(trajectory).some((one) => one.toLowerCase().includes(lowered))) keys.add(key);
      }
    }
    return keys;
  }

  /** @param {number} number */
  async #contents(number) {
    if (this.#chunk.number !== number) this.#chunk = { number, contents: await unpack(`chunk-${number}`) };
    return this.#chunk.contents;
  }
}

export class Source {
  /** @type {Facts} */
  facts = { title: "", version: "", note: "", sides: [], metrics: {} };
  /** @type {Row[]} */
  rows = [];
  /** @type {ReturnType<typeof options>} */
  options = {};
  /** @type {Map<string, Row>} */
  #byKey = new Map();
  #search = { version: "", text: "", keys: new Set() };

  /** @param {Store} store */
  constructor(store) {
    this.store = store;
  }

  // Takes what is new, and returns whether anything is.
  async refresh() {
    const head = await this.store.head(this.facts.version);
    if (!head) return false;
    const { start, columns, ...facts } = head;
    this.facts = facts;
    this.rows = [...this.rows.slice(0, start), ...rowsOf(columns)];
    this.options = options(this.rows);
    this.#byKey = new Map(this.rows.map((row) => [row.key, row]));
    return true;
  }

  /** @type {(filters: Filters) => Promise<Row[]>} */
  async select(filters) {
    const keys = filters.q ? await this.#find(filters.q) : null;
    return sorted(
      this.rows.filter((row) => matches(row, filters) && (!keys || keys.has(row.key))),
      filters.sort,
    );
  }

  /** @type {(key: string) => Promise<Shown>} */
  async trajectory(key) {
    const row = this.#byKey.get(key);
    if (!row) throw new Error(`There is no trajectory ${key} here.`);
    const group = this.rows.filter((other) => other.group === row.group).sort((a, b) => a.attempt - b.attempt);
    return { ...(await this.store.content(row)), row, group };
  }

  /** @type {(text: string) => Promise<Set<string>>} */
  async #find(text) {
    const { version } = this.facts;
    if (this.#search.text !== text || this.#search.version !== version)
      this.#search = { version, text, keys: await this.store.find(text) };
    return this.#search.keys;
  }
}

/** @type {(columns: Record<string, any[]>) => Row[]} */
function rowsOf(columns) {
  const names = Object.keys(columns);
  return (columns.key ?? []).map((_, at) => {
    /** @type {any} */
    const row = {};
    for (const name of names) row[name] = columns[name][at];
    row.player = JSON.stringify([row.file, row.env, row.policy, row.task]);
    return row;
  });
}

export async function openSource() {
  const source = new Source(document.getElementById("head") ? new Embedded() : server);
  await source.refresh();
  return source;
}
