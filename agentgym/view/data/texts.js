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

function leaves(value) {
  if (typeof value === "string") return [value];
  if (value === null || typeof value !== "object") return [];
  return Object.values(value).flatMap(leaves);
}
