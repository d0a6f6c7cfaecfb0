// Where trajectories come from: a server of this machine, or what this file itself holds.

import { groupOf, matches, options, overview, sorted } from "./query.js";
import { textsOf } from "./texts.js";

class Live {
  live = true;

  async get(name, parameters = {}) {
    const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
    const answer = await fetch(`api/${name}?${query}`);
    if (!answer.ok)
      throw new Error((await answer.json().catch(() => ({}))).detail ?? `the server answered ${answer.status}`);
    return answer.json();
  }
}

async function unpack(id) {
  const text = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

class Embedded {
  live = false;
  #chunk = [null, null]; // number and contents of the one that was read last
  #found = ["", null]; // the last search

  static async open() {
    const source = new Embedded();
    source.head = await unpack("head");
    source.rows = source.head.rows;
    source.places = new Map(source.rows.map((row) => [row.key, row.place]));
    return source;
  }

  get(name, parameters = {}) {
    return this[name](parameters);
  }

  async state() {
    const { files, title, version, note, sides } = this.head;
    return { files, title, version, note, sides, total: this.rows.length, options: options(this.rows) };
  }

  async #select(wanted) {
    const found = wanted.q ? await this.#search(wanted.q) : null;
    return sorted(
      this.rows.filter((row) => matches(row, wanted) && (!found || found.has(row.key))),
      wanted.sort,
    );
  }

  async list(wanted) {
    const rows = await this.#select(wanted);
    const from = Math.max(0, Number(wanted.from ?? 0));
    return { total: rows.length, from, rows: rows.slice(from, from + Number(wanted.count ?? 100)) };
  }

  async overview(wanted) {
    return { ...overview(await this.#select(wanted)), metrics: this.head.metrics };
  }

  async versus({ a = 0, b = 1 }) {
    const found = this.head.versus[`${a}-${b}`];
    if (found === undefined) throw new Error("This file does not hold this comparison. Look at it with: agentgym view");
    if (typeof found === "string") throw new Error(found);
    return found;
  }

  async place(wanted) {
    const rows = await this.#select(wanted);
    const at = rows.findIndex((row) => row.key === wanted.key);
    return {
      at,
      total: rows.length,
      previous: rows[at - 1]?.key ?? null,
      next: at < 0 ? null : (rows[at + 1]?.key ?? null),
    };
  }

  async trajectory({ key }) {
    const row = this.#row(key);
    const content = await this.#content(row);
    if (!content)
      throw new Error("The contents of this trajectory would make this file too large. Look at it with: agentgym view");
    const wanted = groupOf(row);
    const group = this.rows.filter((one) => groupOf(one) === wanted).sort((a, b) => a.attempt - b.attempt);
    return { ...content, row, group };
  }

  async tokens({ key }) {
    return (await this.#content(this.#row(key))).tokens;
  }

  #row(key) {
    if (!this.places.has(key)) throw new Error(`There is no trajectory ${key} here.`);
    return this.rows[this.places.get(key)];
  }

  async #content(row) {
    return row.chunk === null ? null : (await this.#contents(row.chunk))[row.key];
  }

  async #contents(number) {
    if (this.#chunk[0] !== number) this.#chunk = [number, await unpack(`chunk-${number}`)];
    return this.#chunk[1];
  }

  async #search(text) {
    if (this.#found[0] === text) return this.#found[1];
    const [wanted, found] = [text.toLowerCase(), new Set()];
    for (let number = 0; number < this.head.chunks; number += 1) {
      for (const [key, content] of Object.entries(await this.#contents(number))) {
        if (textsOf(content.trajectory).some((one) => one.toLowerCase().includes(wanted))) found.add(key);
      }
    }
    this.#found = [text, found];
    return found;
  }
}

export async function openSource() {
  return document.getElementById("head") ? Embedded.open() : new Live();
}
