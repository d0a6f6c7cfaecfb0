// Where trajectories come from: a server of this machine, or what this file itself holds. All rows are in the page;
// contents come when they are shown.

import { matches, options, sorted } from "./query.js";
import { textsOf } from "./texts.js";

async function ask(name, parameters) {
  const answer = await fetch(`api/${name}?${new URLSearchParams(parameters)}`);
  if (!answer.ok)
    throw new Error((await answer.json().catch(() => ({}))).detail ?? `the server answered ${answer.status}`);
  return answer.json();
}

/** @typedef {(source: Source, filters: import("./query.js").Filters, key: string) => Promise<HTMLElement>} PageOf */

export class Source {
  live = true;
  /**
   * What is known of everything, as `agentgym.view.facts` says it.
   * @type {{
   *   title: string, version: string, note: string, sides: [file: string, policy: string][],
   *   metrics: Record<string, Record<string, [step: number, value: number][]>>,
   *   runs: Record<string, { settings: Record<string, string>, before: string, after: string }>,
   * }}
   */
  facts = { title: "", version: "", note: "", sides: [], metrics: {}, runs: {} };
  /** @type {import("./query.js").Row[]} */
  rows = [];
  options = options([]);
  /** @type {Map<string, import("./query.js").Row>} */
  #byKey = new Map();
  #search = { version: "", text: "", keys: new Set() };

  // Takes what is new, and returns whether anything is.
  async refresh() {
    const head = await this.head(this.facts.version);
    if (!head) return false;
    const { start, columns, ...facts } = head;
    this.facts = facts;
    this.rows = [...this.rows.slice(0, start), ...rowsOf(columns)];
    this.options = options(this.rows);
    this.#byKey = new Map(this.rows.map((row) => [row.key, row]));
    return true;
  }

  /** @type {(filters: import("./query.js").Filters) => Promise<import("./query.js").Row[]>} */
  async select(filters) {
    const keys = filters.q ? await this.#matching(filters.q) : null;
    return sorted(
      this.rows.filter((row) => matches(row, filters) && (!keys || keys.has(row.key))),
      filters.sort,
    );
  }

  async trajectory(key) {
    const row = this.#byKey.get(key);
    if (!row) throw new Error(`There is no trajectory ${key} here.`);
    const group = this.rows.filter((other) => other.group === row.group).sort((a, b) => a.attempt - b.attempt);
    return { ...(await this.content(row)), row, group };
  }

  async #matching(text) {
    const { version } = this.facts;
    if (this.#search.text !== text || this.#search.version !== version)
      this.#search = { version, text, keys: new Set(await this.search(text)) };
    return this.#search.keys;
  }

  // What the server answers; a report answers it itself.
  head(version) {
    return ask("rows", { version });
  }
  search(text) {
    return ask("search", { q: text });
  }
  versus(sides) {
    return ask("versus", sides);
  }
  content({ key }) {
    return ask("trajectory", { key });
  }
  tokens({ key }) {
    return ask("tokens", { key });
  }
}

function rowsOf(columns) {
  const names = Object.keys(columns);
  return (columns.key ?? []).map((_, at) => {
    const row = {};
    for (const name of names) row[name] = columns[name][at];
    row.player = JSON.stringify([row.file, row.env, row.policy, row.task]);
    return row;
  });
}

async function unpack(id) {
  const text = document.getElementById(id)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class Report extends Source {
  live = false;
  #more = { versus: {}, chunks: 0 };
  #chunk = { number: -1, contents: {} }; // the one that was read last

  async head() {
    const { versus, chunks, ...head } = await unpack("head");
    this.#more = { versus, chunks };
    return head;
  }

  async search(text) {
    const lowered = text.toLowerCase();
    const keys = [];
    for (let number = 0; number < this.#more.chunks; number += 1) {
      for (const [key, content] of Object.entries(await this.#contents(number))) {
        if (textsOf(content.trajectory).some((one) => one.toLowerCase().includes(lowered))) keys.push(key);
      }
    }
    return keys;
  }

  async versus({ a, b }) {
    const comparison = this.#more.versus[`${a}-${b}`];
    if (comparison === undefined)
      throw new Error("This file does not hold this comparison. Look at it with: agentgym view");
    if (typeof comparison === "string") throw new Error(comparison);
    return comparison;
  }

  async content({ key, chunk }) {
    if (chunk === null)
      throw new Error("The contents of this trajectory would make this file too large. Look at it with: agentgym view");
    return (await this.#contents(chunk))[key];
  }

  async tokens(row) {
    return (await this.content(row)).tokens;
  }

  async #contents(number) {
    if (this.#chunk.number !== number) this.#chunk = { number, contents: await unpack(`chunk-${number}`) };
    return this.#chunk.contents;
  }
}

export async function openSource() {
  const source = document.getElementById("head") ? new Report() : new Source();
  await source.refresh();
  return source;
}
