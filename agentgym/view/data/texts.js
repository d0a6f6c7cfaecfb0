// Reads messages, whatever shape a model or a foreign file gave them.

export function messageText(message) {
  const content = message?.content;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content == null ? "" : JSON.stringify(content);
  return content.map((block) => (block?.type === "text" ? String(block.text ?? "") : "")).join("");
}

export function pictures(message) {
  const blocks = Array.isArray(message?.content) ? message.content : [];
  return blocks.filter((block) => block && block.type !== "text");
}

export function callsOf(message) {
  const calls = message?.tool_calls;
  if (!Array.isArray(calls)) return [];
  return calls.map((call) => {
    const inner = call?.function ?? call ?? {};
    return { name: String(inner.name ?? "?"), args: argumentsOf(inner.arguments), id: call?.id };
  });
}

function argumentsOf(given) {
  if (typeof given !== "string") return given ?? {};
  try {
    return given.trim() ? JSON.parse(given) : {};
  } catch {
    return given;
  }
}

export function actionMessage(action) {
  return typeof action === "string" ? { role: "assistant", content: action } : action;
}

// All messages of a trajectory, each with its turn: 0 for the opening.
export function conversation(trajectory) {
  const found = (trajectory.opening ?? []).map((message) => ({ turn: 0, message }));
  (trajectory.turns ?? []).forEach((turn, index) => {
    if (turn.action !== null) found.push({ turn: index + 1, message: actionMessage(turn.action) });
    for (const message of turn.observation ?? []) found.push({ turn: index + 1, message });
  });
  return found;
}

// What full-text search looks through.
export function textsOf(trajectory) {
  const found = [trajectory.id, trajectory.error ?? "", ...leaves(trajectory.details)];
  for (const { message } of conversation(trajectory)) {
    found.push(messageText(message));
    for (const call of callsOf(message)) found.push(call.name, ...leaves(call.args));
  }
  return found;
}

// The texts in JSON data, however deep.
function leaves(value) {
  const found = [];
  const left = [value];
  while (left.length) {
    const one = left.pop();
    if (typeof one === "string") found.push(one);
    else if (one !== null && typeof one === "object") left.push(...Object.values(one).reverse());
  }
  return found;
}

const MOST_DEEP = 100; // deeper data is shown as it is written: indented, it would be mostly blanks

// JSON data as text, on lines of its own where that can be read; `given` is the text it was read from, if any.
export function pretty(value, given, indent = 2) {
  if (depth(value) <= MOST_DEEP) return JSON.stringify(value, null, indent) ?? "null";
  if (given !== undefined) return given;
  try {
    return JSON.stringify(value);
  } catch {
    return "(too deep to be shown)";
  }
}

function depth(value) {
  let level = 0;
  let here = [value];
  while (here.length && level <= MOST_DEEP) {
    here = here.flatMap((one) => (one !== null && typeof one === "object" ? Object.values(one) : []));
    level += 1;
  }
  return level;
}
