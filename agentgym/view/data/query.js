// Filters, sorts and sums up rows.

/**
 * The short facts of a trajectory. Attempts at one task share the number `group`; what the same player of the same file
 * did at one task has the same `player`. `chunk` is where a report holds the contents, if it does.
 * @typedef {{
 *   key: string, file: string, id: string, env: string, policy: string, task: string, attempt: number, group: number,
 *   step: number | null, split: string, difficulty: number, tags: string[], reason: string | null,
 *   ending: string | null, success: boolean, failed: boolean, reward: number, turns: number, input: number | null,
 *   sampled: number | null, cost: number | null, calls: number, tool_errors: number, format_errors: number,
 *   seconds: number, generation: number | null, environment: number | null, channels: Record<string, number>,
 *   player: string, chunk?: number | null,
 * }} Row
 * @typedef {Record<string, string>} Filters  By the names below, and `sort`, `q` and `from` with them.
 * @typedef {{ rate: number | null, interval: [number, number] | null }} Rate
 * @typedef {{ name: string, values: [any, Rate][] }} Series
 * @typedef {{ reward: number | null, turns: number | null, input: number | null, sampled: number | null,
 *   cost: number | null, seconds: number | null }} Means  Of an episode.
 * @typedef {{ file: string, policy: string, rows: Row[], played: Row[], tasks: number, rate: Rate, means: Means,
 *   steps: [number, number] | null }} Part  What one policy did in one file; of a training, its first and last step.
 */

/** @type {Record<string, (row: Row) => (string | number | null)[]>} */
const VALUES = {
  env: (row) => [row.env],
  policy: (row) => [row.policy],
  split: (row) => [row.split],
  difficulty: (row) => [row.difficulty],
  tag: (row) => row.tags,
  ending: (row) => [row.reason],
  solved: (row) => [row.success ? "yes" : row.failed ? "failed" : "no"],
  step: (row) => (row.step === null ? [] : [row.step]),
  file: (row) => [row.file],
};

export const FILTERS = Object.keys(VALUES);

/** @type {(row: Row, filters: Filters) => boolean} */
export function matches(row, filters) {
  return FILTERS.every((name) => !filters[name] || VALUES[name](row).some((value) => String(value) === filters[name]));
}

/** @type {(rows: Row[], sort?: string) => Row[]} */
export function sorted(rows, sort = "") {
  const name = /** @type {keyof Row} */ (sort.replace(/^-/, ""));
  const down = sort.startsWith("-") ? -1 : 1;
  const [present, missing] = [rows.filter((row) => row[name] != null), rows.filter((row) => row[name] == null)];
  return [...present.sort((a, b) => down * compared(a[name], b[name])), ...missing];
}

/** @type {(a: any, b: any) => number} */
function compared(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** @type {(values: number[]) => number} */
const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** @type {(values: number[]) => number | null} */
const mean = (values) => (values.length ? average(values) : null);

/** @type {<K>(rows: Row[], key: (row: Row) => K) => Map<K, Row[]>} */
function collect(rows, key) {
  const parts = new Map();
  for (const row of rows) {
    const name = key(row);
    if (!parts.has(name)) parts.set(name, []);
    parts.get(name).push(row);
  }
  return parts;
}

// Mean over tasks of the share of attempts that solved them, as `agentgym eval` prints it.
/** @type {(rows: Row[]) => Rate} */
function rate(rows) {
  const tasks = collect(rows, (row) => row.player);
  const groups = [...tasks.values()].map((attempts) => attempts.map((row) => Number(row.success)));
  return { rate: mean(groups.map(average)), interval: groups.length ? successInterval(groups) : null };
}

const Z = 1.959963984540054;

// A 95 % interval of the success rate, as `agentgym.eval.statistics.success_interval` computes it.
/** @type {(groups: number[][]) => [number, number]} */
function successInterval(groups) {
  const share = average(groups.map(average));
  const trials = effectiveTrials(groups);
  const centre = share + (Z * Z) / (2 * trials);
  const reach = Z * Math.sqrt((share * (1 - share)) / trials + (Z * Z) / (4 * trials * trials));
  const scale = 1 + (Z * Z) / trials;
  return [
    Math.max(0, Math.min((centre - reach) / scale, share)),
    Math.min(1, Math.max((centre + reach) / scale, share)),
  ];
}

/** @type {(groups: number[][]) => number} */
function effectiveTrials(groups) {
  const tasks = groups.length;
  const attempts = groups.reduce((sum, group) => sum + group.length, 0);
  const means = groups.map(average);
  const share = average(means);
  if (tasks === 1 || share <= 0 || share >= 1) return tasks;
  const ofMean = means.reduce((sum, one) => sum + (one - share) ** 2, 0) / (tasks - 1) / tasks;
  const trust = (Z / studentQuantile(tasks - 1)) ** 2;
  return Math.min(Math.max(ofMean > 0 ? ((share * (1 - share)) / ofMean) * trust : attempts, tasks), attempts);
}

// The 97.5 % quantile of Student's t distribution, as `agentgym.eval.statistics` computes it.
/** @type {(freedom: number) => number} */
function studentQuantile(freedom) {
  if (freedom === 1) return Math.tan(Math.PI * 0.475);
  if (freedom === 2) return 0.95 / Math.sqrt(2 * 0.975 * 0.025);
  const terms = [
    (Z ** 3 + Z) / 4,
    (5 * Z ** 5 + 16 * Z ** 3 + 3 * Z) / 96,
    (3 * Z ** 7 + 19 * Z ** 5 + 17 * Z ** 3 - 15 * Z) / 384,
  ];
  return terms.reduce((sum, term, index) => sum + term / freedom ** (index + 1), Z);
}

// The series of a chart: the policies, or the files if there is one policy; of each, the rates by a column's values.
/** @type {(rows: Row[], by: "difficulty" | "env" | "step") => Series[]} */
function rates(rows, by) {
  const apart = new Set(rows.map((row) => row.policy)).size > 1 ? "policy" : "file";
  return [...collect(rows, (row) => row[apart])].map(([name, part]) => ({
    name,
    values: [...collect(part, (row) => row[by])]
      .sort(([a], [b]) => compared(a, b))
      .map(([value, some]) => [value, rate(some)]),
  }));
}

/** @type {(values: number[]) => number} */
function median(values) {
  const ordered = [...values].sort((a, b) => a - b);
  const half = ordered.length / 2;
  return ordered.length % 2 ? ordered[Math.floor(half)] : (ordered[half - 1] + ordered[half]) / 2;
}

// Medians over episodes of the time that their turns waited: for the policy, the environment, and the policy's share.
/** @type {(rows: Row[]) => { policy: number, environment: number, share: number } | null} */
function generation(rows) {
  const times = rows
    .map((row) => [row.generation ?? 0, row.environment ?? 0])
    .filter(([policy, environment]) => policy + environment > 0);
  if (!times.length) return null;
  return {
    policy: median(times.map(([policy]) => policy)),
    environment: median(times.map(([, environment]) => environment)),
    share: median(times.map(([policy, environment]) => policy / (policy + environment))),
  };
}

/** @type {(played: Row[]) => Means} */
function means(played) {
  return {
    reward: mean(played.map((row) => row.reward)),
    turns: mean(played.map((row) => row.turns)),
    input: mean(played.flatMap((row) => row.input ?? [])),
    sampled: mean(played.flatMap((row) => row.sampled ?? [])),
    cost: mean(played.flatMap((row) => row.cost ?? [])),
    seconds: mean(played.map((row) => row.seconds)),
  };
}

/** @type {(rows: Row[]) => Part} */
function part(rows) {
  const played = rows.filter((row) => !row.failed);
  const steps = rows.flatMap((row) => row.step ?? []);
  return {
    file: rows[0].file,
    policy: rows[0].policy,
    rows,
    played,
    tasks: new Set(played.map((row) => JSON.stringify([row.env, row.task]))).size,
    rate: rate(played),
    means: means(played),
    steps: steps.length ? steps.reduce(([low, high], step) => [Math.min(low, step), Math.max(high, step)], [steps[0], steps[0]]) : null,
  };
}

/** @param {Row[]} rows */
export function overview(rows) {
  const played = rows.filter((row) => !row.failed);
  return {
    failed: rows.length - played.length,
    parts: [...collect(rows, (row) => JSON.stringify([row.file, row.policy])).values()].map(part),
    means: means(played),
    generation: generation(played),
    difficulty: rates(played, "difficulty"),
    env: rates(played, "env"),
    steps: rates(
      played.filter((row) => row.step !== null),
      "step",
    ),
  };
}

// How many episodes had each number of turns: those that were solved, and the others.
/** @type {(played: Row[]) => [number, number[]][]} */
export function turnCounts(played) {
  return [...collect(played, (row) => row.turns)]
    .map(([turns, some]) => /** @type {[number, number[]]} */ ([turns, splitBySuccess(some).map((one) => one.length)]))
    .sort(([a], [b]) => a - b);
}

/** @type {(rows: Row[]) => [Row[], Row[]]} */
export function splitBySuccess(rows) {
  return [rows.filter((row) => row.success), rows.filter((row) => !row.success)];
}

// The mean total of each channel over each list of episodes; the largest means first.
/** @type {(lists: Row[][]) => [string, (number | null)[]][]} */
export function channelMeans(lists) {
  const names = [...new Set(lists.flat().flatMap((row) => Object.keys(row.channels)))];
  /** @type {(values: (number | null)[]) => number} */
  const size = (values) => Math.max(...values.map((value) => Math.abs(value ?? 0)));
  return names
    .map((name) => /** @type {[string, (number | null)[]]} */ ([
      name,
      lists.map((rows) => mean(rows.flatMap((row) => row.channels[name] ?? []))),
    ]))
    .sort(([, a], [, b]) => size(b) - size(a));
}

// The share of each ending in each list of episodes; the most frequent ones first.
/** @type {(lists: Row[][]) => [string, (number | null)[], string | null][]} */
export function endingShares(lists) {
  return [...collect(lists.flat(), (row) => row.reason)]
    .sort(([a, some], [b, others]) => others.length - some.length || compared(String(a), String(b)))
    .map(([reason, some]) => [
      reason ?? "running",
      lists.map((rows) => rows.filter((row) => row.reason === reason).length / (rows.length || 1)),
      some[0].ending,
    ]);
}

// The values of each filter that occur, and how often.
/** @type {(rows: Row[]) => Record<string, [any, number][]>} */
export function options(rows) {
  return Object.fromEntries(FILTERS.map((name) => [name, occurring(rows, VALUES[name])]));
}

/** @type {(rows: Row[], values: (row: Row) => any[]) => [any, number][]} */
function occurring(rows, values) {
  const counts = new Map();
  for (const row of rows) for (const value of values(row)) counts.set(value, (counts.get(value) ?? 0) + 1);
  const numeric = [...counts.keys()].every((value) => typeof value === "number");
  return [...counts].sort(([a], [b]) => (numeric ? a - b : compared(String(a), String(b))));
}
