// Filters, sorts and sums up rows. The server does the same in Python (overview.py) when it holds the rows.

export const FILTERS = ["env", "policy", "split", "difficulty", "tag", "ending", "solved", "step", "file"];

const SOLVED = {
  yes: (row) => row.success,
  no: (row) => !row.success && !row.failed,
  failed: (row) => row.failed,
};

const VALUES = {
  env: (row) => [row.env],
  policy: (row) => [row.policy],
  split: (row) => [row.split],
  difficulty: (row) => [row.difficulty],
  tag: (row) => row.tags,
  ending: (row) => [row.reason],
  step: (row) => (row.step === null ? [] : [row.step]),
  file: (row) => [row.file],
};

export function matches(row, wanted) {
  for (const [name, values] of Object.entries(VALUES)) {
    const value = wanted[name];
    if (value && !values(row).some((one) => String(one) === value)) return false;
  }
  return !wanted.solved || (SOLVED[wanted.solved]?.(row) ?? true);
}

export function sorted(rows, sort) {
  const name = (sort || "").replace(/^-/, "");
  if (!name) return rows;
  const down = sort.startsWith("-") ? -1 : 1;
  const missing = (value) => value === null || value === undefined;
  return [...rows].sort((a, b) => {
    const [x, y] = [a[name], b[name]];
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a.place - b.place;
    return (x < y ? -down : x > y ? down : 0) || a.place - b.place;
  });
}

export function groupOf(row) {
  return JSON.stringify([row.file, row.env, row.arguments, row.policy, row.task, row.step]);
}

const mean = (values) => (values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null);

function collect(rows, key) {
  const found = new Map();
  for (const row of rows) {
    const name = key(row);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(row);
  }
  return found;
}

// Mean over tasks of the share of attempts that solved them, as `agentgym eval` prints it.
export function rate(rows) {
  const tasks = collect(rows, (row) => JSON.stringify([row.file, row.env, row.policy, row.task]));
  const distinct = new Set(rows.map((row) => JSON.stringify([row.env, row.task])));
  const shares = [...tasks.values()].map((group) => mean(group.map((row) => +row.success)));
  return {
    rate: mean(shares),
    interval: shares.length ? taskInterval(shares, rows.length) : null,
    attempts: rows.length,
    tasks: distinct.size,
  };
}

// A 95 % interval of a mean over tasks, as `agentgym.statistics.task_interval` computes it.
export function taskInterval(shares, attempts) {
  const tasks = shares.length;
  const share = mean(shares);
  const spread = shares.reduce((sum, one) => sum + (one - share) ** 2, 0) / tasks ** 2;
  const worth = share === 0 || share === 1 ? tasks : spread === 0 ? attempts : (share * (1 - share)) / spread;
  const trials = Math.min(Math.max(worth, tasks), attempts);
  const z = 1.959963984540054;
  const centre = share + (z * z) / (2 * trials);
  const reach = z * Math.sqrt((share * (1 - share)) / trials + (z * z) / (4 * trials * trials));
  const scale = 1 + (z * z) / trials;
  return [
    Math.max(0, Math.min((centre - reach) / scale, share)),
    Math.min(1, Math.max((centre + reach) / scale, share)),
  ];
}

// The series of a chart: the policies, or the files if there is one policy; of each, the rates by a column's values.
function rates(rows, by) {
  const apart = new Set(rows.map((row) => row.policy)).size > 1 ? "policy" : "file";
  const single = by === "policy" || by === "file";
  return [...collect(rows, (row) => (single ? "" : row[apart]))].map(([name, part]) => ({
    name,
    values: [...collect(part, (row) => row[by])].map(([value, some]) => [value, rate(some)]).sort(byValue),
  }));
}

function median(values) {
  const known = [...values].sort((a, b) => a - b);
  const half = known.length / 2;
  return known.length % 2 ? known[Math.floor(half)] : (known[half - 1] + known[half]) / 2;
}

// Medians over episodes of the time that their turns waited: for the policy, the environment, and the policy's share.
function generation(rows) {
  const timed = rows.filter((row) => row.generation !== null && row.generation + row.environment > 0);
  if (!timed.length) return null;
  return {
    policy: median(timed.map((row) => row.generation)),
    environment: median(timed.map((row) => row.environment)),
    share: median(timed.map((row) => row.generation / (row.generation + row.environment))),
  };
}

const byNumber = (a, b) => a[0] - b[0];
const byValue = (a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0);

export function overview(rows) {
  const played = rows.filter((row) => !row.failed);
  return {
    count: rows.length,
    failed: rows.length - played.length,
    all: rate(played),
    means: {
      reward: mean(played.map((row) => row.reward)),
      turns: mean(played.map((row) => row.turns)),
      sampled: mean(played.filter((row) => row.sampled !== null).map((row) => row.sampled)),
      seconds: mean(played.map((row) => row.seconds)),
    },
    generation: generation(played),
    difficulty: rates(played, "difficulty"),
    env: rates(played, "env"),
    policy: rates(played, "policy"),
    file: rates(played, "file"),
    turns: [...collect(played, (row) => row.turns)]
      .map(([turns, some]) => [
        turns,
        some.filter((row) => row.success).length,
        some.filter((row) => !row.success).length,
      ])
      .sort(byNumber),
    endings: [...collect(rows, (row) => row.reason)]
      .map(([reason, some]) => [reason, some[0].ending, some.length])
      .sort((a, b) => b[2] - a[2] || (String(a[0]) < String(b[0]) ? -1 : 1)),
    channels: channelMeans(played),
    steps: rates(
      played.filter((row) => row.step !== null),
      "step",
    ),
  };
}

function channelMeans(played) {
  const names = [...new Set(played.flatMap((row) => Object.keys(row.channels)))];
  const of = (rows, name) => mean(rows.filter((row) => name in row.channels).map((row) => row.channels[name]));
  const [solved, others] = [played.filter((row) => row.success), played.filter((row) => !row.success)];
  return names.map((name) => [name, of(solved, name), of(others, name)]);
}

export function options(rows) {
  const found = {};
  for (const [name, values] of Object.entries(VALUES)) {
    const counts = new Map();
    for (const row of rows) for (const value of values(row)) counts.set(value, (counts.get(value) ?? 0) + 1);
    const numeric = [...counts.keys()].every((value) => typeof value === "number");
    found[name] = [...counts].sort((a, b) => (numeric ? a[0] - b[0] : String(a[0]) < String(b[0]) ? -1 : 1));
  }
  return found;
}
