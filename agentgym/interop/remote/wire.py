"""What a client and a server of environments send each other: JSON objects, one for a request, one for its reply.

A request has an operation (`op`), mostly a `session`, and for operations that change an episode a `number`: requests of
a session are numbered from 1, so that one that is sent again after a lost connection is answered, not played, again.
A reply has either a `result` or an `error` with a `kind`, a `message` and sometimes `facts`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gymnasium.error import ResetNeeded
from pydantic_core import from_json, to_json, to_jsonable_python

from agentgym.endings import Reason
from agentgym.engine.answers import as_data, plain_data
from agentgym.engine.spaces import Action
from agentgym.errors import AgentGymError, BrokenTask, InfrastructureError, TaskError, UsageError
from agentgym.messages import ToolCall
from agentgym.rollout.deadlines import OutOfTime
from agentgym.task import Task

PROTOCOL = 1
"""Version of the requests and replies. A client refuses a server of another version."""

STREAM = "/stream"
"""The path of the WebSocket that carries requests and replies."""

GONE = "gone"
"""The kind of error of a request to a session that has ended."""
BUSY = "busy"
"""The kind of error of a request that the server has no room for at present."""

_KINDS: Mapping[str, type[Exception]] = {
    "reset_needed": ResetNeeded,
    "broken_task": BrokenTask,
    "task": TaskError,
    "usage": UsageError,
    "infrastructure": InfrastructureError,
}
"""The classes of errors by kind; subclasses come before their bases."""


def encoded(data: Mapping[str, Any]) -> bytes:
    """Return a request or a reply as JSON text. What is no JSON data is replaced by a note."""
    try:
        return to_json(data, inf_nan_mode="constants", fallback=plain_data)
    except Exception:  # lone surrogates, loops; reading an author's object may raise anything
        return _slowly_encoded(data)


def _slowly_encoded(data: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(data, default=as_data)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(as_data(data))
    return text.encode()


def decoded(text: bytes) -> dict[str, Any]:
    """Return the request or reply in a text. Raises `UsageError` if there is none."""
    try:
        data = from_json(text)
    except ValueError:
        data = _slowly_decoded(text)
    if not isinstance(data, dict):
        raise UsageError(f"a JSON object is needed, not {type(data).__name__!r}")
    return data


def _slowly_decoded(text: bytes) -> Any:
    """Decode what `from_json` refuses: lone surrogates, which Python's strings may have."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}") from None


def error_data(error: BaseException) -> dict[str, Any]:
    """Return an error as data. Errors that are not ours count as infrastructure."""
    if isinstance(error, OutOfTime):
        facts = {"reason": error.reason.value, "what": error.what, "limit_s": error.limit_s}
        return {"kind": "out_of_time", "message": str(error), "facts": facts}
    kind = next((kind for kind, known in _KINDS.items() if isinstance(error, known)), "infrastructure")
    is_ours = isinstance(error, AgentGymError | ResetNeeded)
    return {"kind": kind, "message": str(error) if is_ours else f"{type(error).__name__}: {error}"}


def error_of(data: Any) -> Exception:
    """Return the error that `error_data` described. Unknown kinds are `InfrastructureError`s."""
    if not isinstance(data, Mapping):
        return InfrastructureError(f"the server sent an error without a kind: {data!r}")
    kind, message, facts = data.get("kind"), str(data.get("message")), data.get("facts")
    if kind == "out_of_time" and isinstance(facts, Mapping):
        return OutOfTime(Reason(facts["reason"]), str(facts["what"]), float(facts["limit_s"]))
    return _KINDS.get(str(kind), InfrastructureError)(message)


def action_data(action: Action) -> Any:
    """Return an action as JSON data. What is no JSON data in a message is replaced by a note, as text would show it."""
    return action if isinstance(action, str) else to_jsonable_python(action, fallback=repr)


def task_data(task: Task, *, reveal: bool) -> dict[str, Any]:
    """Return a task as data; without `reveal`, only what its policy may know, with the hash of the whole."""
    data = task.to_dict()
    return data if reveal else data | {"data": {}, "gold": {}}


def task_of(data: Mapping[str, Any]) -> Task:
    """Return the task that `task_data` described. It keeps the hash of the whole task."""
    content = dict(data)
    recorded = content.pop("hash", None)
    task = Task.from_dict(content)
    if recorded is not None:
        task.__dict__["hash"] = recorded
    return task


def move_data(move: ToolCall | str | None) -> dict[str, Any]:
    """Return a move of a reference policy as data: a call, text, or nothing if it has ended."""
    if isinstance(move, ToolCall):
        return {"call": {"name": move.name, "arguments": dict(move.arguments), "id": move.id}}
    return {"text": move}


def move_of(data: Mapping[str, Any]) -> ToolCall | str | None:
    """Return the move that `move_data` described."""
    call = data.get("call")
    return data.get("text") if call is None else ToolCall(call["name"], call["arguments"], call["id"])
