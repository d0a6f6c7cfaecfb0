"""What a client and a server of environments send each other: JSON objects, one for a request, one for its reply.

A request has an operation (`op`), mostly a `session`, and for operations that change an episode a `number`: requests of
a session are numbered from 1, so that one that is sent again after a lost connection is answered, not played, again.
A reply has either a `result` or an `error` with a `kind`, a `message` and sometimes `facts`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isfinite
from typing import Any

from gymnasium.error import ResetNeeded
from pydantic_core import from_json, to_json, to_jsonable_python

from agentgym.endings import Reason
from agentgym.engine.answers import as_data, finite, plain_data
from agentgym.engine.steps import StepResult
from agentgym.errors import AgentGymError, BrokenTask, InfrastructureError, NoSolution, TaskError, UsageError
from agentgym.foreign.errors import describe
from agentgym.messages import Message, ToolCall
from agentgym.rollout.deadlines import OutOfTime
from agentgym.task import Task

PROTOCOL = 1
"""Version of the requests and replies. A client refuses a server of another version."""

STREAM = "/stream"
"""The path of the WebSocket that carries requests and replies."""

OPERATIONS = ("open", "reset", "step", "interrupt", "task", "attempt", "move", "failing_exists", "close")
"""What a client can ask for."""

GONE = "gone"
"""The kind of error of a request to a session that has ended."""
BUSY = "busy"
"""The kind of error of a request that the server has no room for at present."""

_KINDS: Mapping[str, type[Exception]] = {
    "reset_needed": ResetNeeded,
    "broken_task": BrokenTask,
    "task": TaskError,
    "no_solution": NoSolution,
    "usage": UsageError,
    "infrastructure": InfrastructureError,
}
"""The classes of errors by kind; subclasses come before their bases."""


_REQUEST = json.JSONEncoder(default=lambda value: to_jsonable_python(value, fallback=repr))
"""What a model writes may hold NaN: it reaches the environment as it would without a server."""
_REPLY = json.JSONEncoder(default=as_data, allow_nan=False)
"""Clients in any language read replies, and in most of them NaN is no JSON."""
_TOO_MANY_DIGITS = re.compile(rb"[0-9]{4301}")
"""More than Python reads as a number."""
_TASK_FIELDS = tuple(item.name for item in fields(Task))
_NOT_ENCODED = (TypeError, ValueError, RecursionError)


def encoded(data: Mapping[str, Any]) -> bytes:
    """Return a request as JSON text. An action that JSON cannot hold, say for its depth, becomes a note in words.

    Raises:
        UsageError: Anything else is no JSON data.
    """
    text = _quickly_encoded(data, repr)
    return _slowly_encoded(data) if text is None else text


def _slowly_encoded(data: Mapping[str, Any]) -> bytes:
    try:
        return _REQUEST.encode(data).encode()
    except _NOT_ENCODED:
        pass
    try:
        return _REQUEST.encode({**data, "action": as_data(data.get("action"))}).encode()
    except _NOT_ENCODED as error:
        raise UsageError(f"the request is no JSON data: {describe(error)}") from None


def encoded_reply(data: Mapping[str, Any]) -> bytes:
    """Return a reply, or its result alone, as JSON text. What is no JSON data in `info` is replaced by a note.

    Raises:
        InfrastructureError: Anything else is no JSON data.
    """
    text = _quickly_encoded(data, plain_data)
    if text is None or b"NaN" in text or b"Infinity" in text:
        return _slowly_encoded_reply(data)
    return text


def _quickly_encoded(data: Mapping[str, Any], fallback: Callable[[Any], Any]) -> bytes | None:
    """Return data as JSON text if nothing about it needs care: lone surrogates, loops, numbers of many digits."""
    try:
        text = to_json(data, inf_nan_mode="constants", fallback=fallback)
    except Exception:  # reading what an author made may raise anything
        return None
    return None if _TOO_MANY_DIGITS.search(text) else text


def _slowly_encoded_reply(data: Mapping[str, Any]) -> bytes:
    try:
        return _REPLY.encode(data).encode()
    except _NOT_ENCODED:
        pass
    try:
        return _REPLY.encode(_with_notes(data)).encode()
    except _NOT_ENCODED as error:
        raise InfrastructureError(f"what the environment answers is no JSON data: {describe(error)}") from None


def _with_notes(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply whose `info` has notes where an environment's details are no JSON data, as records have them."""
    noted = dict(data)
    if isinstance(noted.get("result"), Mapping):
        noted["result"] = _with_notes(noted["result"])
    if isinstance(noted.get("info"), Mapping):
        noted["info"] = {str(name): as_data(value) for name, value in noted["info"].items()}
    return noted


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
    message = describe(error)
    if isinstance(error, AgentGymError | ResetNeeded):
        message = message.removeprefix(f"{type(error).__name__}: ")
    return {"kind": kind, "message": message}


def error_of(data: Any) -> Exception:
    """Return the error that `error_data` described. Unknown kinds are `InfrastructureError`s."""
    if not isinstance(data, Mapping):
        return InfrastructureError(f"the server sent an error without a kind: {data!r}")
    kind, message, facts = data.get("kind"), str(data.get("message")), data.get("facts")
    if kind == "out_of_time" and isinstance(facts, Mapping):
        try:
            return OutOfTime(Reason(facts["reason"]), str(facts["what"]), float(facts["limit_s"]))
        except (KeyError, TypeError, ValueError):
            return InfrastructureError(message)
    return _KINDS.get(str(kind), InfrastructureError)(message)


def task_data(task: Task, *, reveal: bool) -> dict[str, Any]:
    """Return a task as data; without `reveal`, only what its policy may know, with the hash of the whole."""
    data = {name: getattr(task, name) for name in _TASK_FIELDS} | {"hash": task.hash}  # as `to_dict`, without copies
    return data if reveal else data | {"data": {}, "gold": {}}


def task_of(data: Mapping[str, Any]) -> Task:
    """Return the task that `task_data` described. It keeps the hash of the whole task."""
    content = dict(data)
    recorded = content.pop("hash", None)
    task = Task.from_dict(content)
    if recorded is not None:
        task.__dict__["hash"] = recorded
    return task


def begun(told: Mapping[str, Any]) -> tuple[list[Message], dict[str, Any], Task]:
    """Return what a reset led to: observation, info, task. Raises any exception if it is something else."""
    if not isinstance(told["info"], dict):
        raise TypeError("info is no object")
    return _messages(told["observation"]), told["info"], task_of(told["task"])


def played(told: Mapping[str, Any]) -> StepResult:
    """Return what a turn led to. Raises any exception if it is something else: nothing else passes for a reward."""
    info, reward, terminated, truncated = told["info"], told["reward"], told["terminated"], told["truncated"]
    if type(reward) not in (int, float) or not isfinite(reward):
        raise ValueError(f"its reward is {reward!r}")
    if type(terminated) is not bool or type(truncated) is not bool:
        raise TypeError("it does not say whether the episode has ended")
    if (terminated or truncated) is (info.get("ending") is None):
        raise ValueError(f"the ending is {info.get('ending')!r}, with {terminated=} and {truncated=}")
    finite(info["rewards"])
    return StepResult(_messages(told["observation"]), reward, terminated, truncated, info)


def _messages(data: Any) -> list[Message]:
    if not isinstance(data, list) or not all(isinstance(message, dict) for message in data):
        raise TypeError("its observation is no list of messages")
    return data


def move_data(move: ToolCall | str | None) -> dict[str, Any]:
    """Return a move of a reference policy as data: a call, text, or nothing if it has ended."""
    if isinstance(move, ToolCall):
        return {"call": {"name": move.name, "arguments": dict(move.arguments), "id": move.id}}
    return {"text": move}


def move_of(data: Mapping[str, Any]) -> ToolCall | str | None:
    """Return the move that `move_data` described."""
    call = data.get("call")
    return data.get("text") if call is None else ToolCall(call["name"], call["arguments"], call["id"])
