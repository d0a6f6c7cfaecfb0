"""The protocol between environment clients and servers: a JSON object per request, and one per reply.

A request has an operation (`op`), usually a `session`, and a `number` if it changes the episode. Numbers count a
session's requests from 1, so that a request sent again after a lost connection is answered but not played twice. A
reply has either a `result` or an `error` with a `kind`, a `message` and sometimes `facts`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import isfinite
from typing import Any, Self

from gymnasium.error import ResetNeeded
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from agentgym.base.errors import (
    AgentGymError,
    BrokenTask,
    InfrastructureError,
    NoSolution,
    ScriptFailed,
    TaskError,
    UsageError,
)
from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.steps import StepResult, as_data, finite, plain_data
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.messages import Message, ToolCall
from agentgym.core.rewards import Channel, Scheme
from agentgym.core.task import KEYED, Task
from agentgym.rollout.limits import OutOfTime

PROTOCOL = 1
"""Version of the protocol. A client refuses a server with another version."""

STREAM = "/stream"
"""The path of the WebSocket that carries requests and replies."""

OPERATIONS = ("open", "reset", "step", "interrupt", "task", "attempt", "move", "failing_exists", "close")
"""The operations that a client can request."""

GONE = "gone"
"""Error kind: the session has ended."""
BUSY = "busy"
"""Error kind: the server has no room at present."""

_KINDS: Mapping[str, type[Exception]] = {
    "reset_needed": ResetNeeded,
    "broken_task": BrokenTask,
    "task": TaskError,
    "no_solution": NoSolution,
    "usage": UsageError,
    "script": ScriptFailed,
    "infrastructure": InfrastructureError,
}
"""Error classes by kind; subclasses come before their bases."""


_REQUEST = json.JSONEncoder(default=lambda value: to_jsonable_python(value, fallback=repr))
"""Allows NaN, since a model's action may contain it and must reach the environment unchanged."""
_REPLY = json.JSONEncoder(default=as_data, allow_nan=False)
"""Refuses NaN, since JSON parsers of most languages do not accept it."""
_TOO_MANY_DIGITS = re.compile(rb"[0-9]{4301}")
"""More digits than Python converts to a number."""
_TASK_FIELDS = tuple(item.name for item in fields(Task))
_NOT_ENCODED = (TypeError, ValueError, RecursionError)


def encoded(data: Mapping[str, Any]) -> bytes:
    """Return a request as JSON text. An action that JSON cannot represent, e.g. a deep one, becomes a note in words.

    Raises:
        UsageError: Something else in the request cannot be represented as JSON.
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
        raise UsageError(f"the request cannot be encoded as JSON: {describe(error)}") from None


def encoded_reply(data: Mapping[str, Any]) -> bytes:
    """Return a reply, or only its result, as JSON text. Values in `info` that are not JSON data become notes.

    Raises:
        InfrastructureError: Something else in the reply cannot be represented as JSON.
    """
    text = _quickly_encoded(data, plain_data)
    if text is None or b"NaN" in text or b"Infinity" in text:
        return _slowly_encoded_reply(data)
    return text


def _quickly_encoded(data: Mapping[str, Any], fallback: Callable[[Any], Any]) -> bytes | None:
    """Return data as JSON text; `None` if it needs care because of lone surrogates, cycles or very long numbers."""
    try:
        text = to_json(data, inf_nan_mode="constants", fallback=fallback)
    except Exception:  # an author's objects may raise anything
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
        raise InfrastructureError(f"the environment's answer cannot be encoded as JSON: {describe(error)}") from None


def _with_notes(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reply with notes in place of values of `info` that are not JSON data, as in records."""
    noted = dict(data)
    if isinstance(noted.get("result"), Mapping):
        noted["result"] = _with_notes(noted["result"])
    if isinstance(noted.get("info"), Mapping):
        noted["info"] = {str(name): as_data(value) for name, value in noted["info"].items()}
    return noted


def decoded(text: bytes) -> dict[str, Any]:
    """Parse a request or a reply. Raises `UsageError` if the text is not a JSON object."""
    try:
        data = from_json(text)
    except ValueError:
        data = _slowly_decoded(text)
    if not isinstance(data, dict):
        raise UsageError(f"expected a JSON object, not {type(data).__name__!r}")
    return data


def _slowly_decoded(text: bytes) -> Any:
    """Decode text that `from_json` refuses, such as lone surrogates, which Python's strings may have."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"invalid JSON: {error}") from None


def error_data(error: BaseException) -> dict[str, Any]:
    """Return an error as data. Errors of other classes become `infrastructure`."""
    if isinstance(error, OutOfTime):
        facts = {"reason": error.reason.value, "what": error.what, "limit_s": error.limit_s}
        return {"kind": "out_of_time", "message": str(error), "facts": facts}
    kind = next((kind for kind, error_class in _KINDS.items() if isinstance(error, error_class)), "infrastructure")
    message = describe(error)
    if isinstance(error, AgentGymError | ResetNeeded):
        message = message.removeprefix(f"{type(error).__name__}: ")
    return {"kind": kind, "message": message}


def error_of(data: Any) -> Exception:
    """Return the error that `error_data` described; `InfrastructureError` for unknown kinds."""
    if not isinstance(data, Mapping):
        return InfrastructureError(f"the server sent an error without a kind: {data!r}")
    kind, message, facts = data.get("kind"), str(data.get("message")), data.get("facts")
    if kind == "out_of_time" and isinstance(facts, Mapping):
        try:
            return OutOfTime(Reason(facts["reason"]), str(facts["what"]), float(facts["limit_s"]))
        except (KeyError, TypeError, ValueError):
            return InfrastructureError(message)
    return _KINDS.get(str(kind), InfrastructureError)(message)


def task_data(task: Task, *, key: bytes | None) -> dict[str, Any]:
    """Return a task as data with the hash of the whole.

    Args:
        task: The task.
        key: The server's secret. With it, `data` and `gold` are empty, and the hash is keyed: a client could find out a
            small gold by computing the hash of every candidate. `None` reveals the whole task.
    """
    data = {name: getattr(task, name) for name in _TASK_FIELDS} | {"hash": task.hash}  # like `to_dict`, without copies
    return data if key is None else data | {"data": {}, "gold": {}, "hash": keyed_hash(task, key)}


def keyed_hash(task: Task, key: bytes) -> str:
    """Return a hash of a task that only servers with this key can compute."""
    return KEYED + hmac.new(key, task.hash.encode(), hashlib.sha256).hexdigest()


def task_of(data: Mapping[str, Any]) -> Task:
    """Return the task that `task_data` described. It keeps the hash of the whole task."""
    content = dict(data)
    recorded = content.pop("hash", None)
    task = Task.from_dict(content)
    if recorded is not None:
        task.__dict__["hash"] = recorded
    return task


def read_reset(reply: Mapping[str, Any]) -> tuple[list[Message], dict[str, Any], Task]:
    """Return the observation, info and task in a reply to `reset`. A malformed reply raises any exception."""
    if not isinstance(reply["info"], dict):
        raise TypeError("info is not an object")
    return _messages(reply["observation"]), reply["info"], task_of(reply["task"])


def read_step(reply: Mapping[str, Any]) -> StepResult:
    """Return the result in a reply to `step`. A malformed reply raises any exception: it must not pass for a reward."""
    info, reward, terminated, truncated = reply["info"], reply["reward"], reply["terminated"], reply["truncated"]
    if type(reward) not in (int, float) or not isfinite(reward):
        raise ValueError(f"the reward is {reward!r}")
    if type(terminated) is not bool or type(truncated) is not bool:
        raise TypeError("terminated and truncated must be booleans")
    if (terminated or truncated) is (info.get("ending") is None):
        raise ValueError(f"the ending is {info.get('ending')!r}, with {terminated=} and {truncated=}")
    finite(info["rewards"])
    return StepResult(_messages(reply["observation"]), reward, terminated, truncated, info)


def _messages(data: Any) -> list[Message]:
    if not isinstance(data, list) or not all(isinstance(message, dict) for message in data):
        raise TypeError("the observation is not a list of messages")
    return data


def move_data(move: ToolCall | str | None) -> dict[str, Any]:
    """Return a move of a reference policy as data: a call or text; `None` means that it has ended."""
    if isinstance(move, ToolCall):
        return {"call": {"name": move.name, "arguments": dict(move.arguments), "id": move.id}}
    return {"text": move}


def move_of(data: Mapping[str, Any]) -> ToolCall | str | None:
    """Return the move that `move_data` described."""
    call = data.get("call")
    return data.get("text") if call is None else ToolCall(call["name"], call["arguments"], call["id"])


_FROZEN = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)


class Description(BaseModel):
    """A served environment, without its tasks, which are fetched one by one."""

    model_config = _FROZEN

    env: str
    """Its name on the server."""
    tools: list[dict[str, Any]]
    """Schemas of its tools; an episode may have other tools, which `reset` reports."""
    channels: dict[str, Channel]
    scheme: Scheme
    reasons: dict[str, Ending]
    """Its own reasons for an ending."""
    splits: dict[str, int | None]
    """Number of tasks by split; `None` if the split is endless."""
    split: str
    dialect: str
    max_turns: int
    max_calls_per_turn: int
    max_concurrent: int | None
    is_revealed: bool
    """Whether the server sends the tasks' data and gold, and solutions."""
    request_s: float
    """Seconds within which the server answers any request."""
    request_bytes: int
    """Maximum size of a request."""

    @classmethod
    def of(cls, name: str, env: Env, *, is_revealed: bool, request_s: float, request_bytes: int) -> Self:
        """Describe an environment.

        Raises:
            UsageError: Its dialect has no name, so a client cannot make it.
        """
        dialect = env.dialect.name
        if not isinstance(dialect, str) or not dialect:
            raise UsageError(f"the dialect of {name!r} has no name, so clients cannot make it")
        return cls(
            env=name,
            tools=env.tools.schemas,
            channels=dict(env.channels),
            scheme=env.scheme,
            reasons=_reasons(type(env)),
            splits={split: env.tasks.size(split) for split in env.tasks.splits},
            split=env.split,
            dialect=dialect,
            max_turns=env.max_turns,
            max_calls_per_turn=env.max_calls_per_turn,
            max_concurrent=env.max_concurrent,
            is_revealed=is_revealed,
            request_s=request_s,
            request_bytes=request_bytes,
        )

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Parse a server's description. Raises `InfrastructureError` if it is malformed."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise InfrastructureError(
                f"the server's description of its environment: {where}: {problem['msg']}"
            ) from error


def _reasons(env_class: type[Env]) -> dict[str, Ending]:
    """Return the reasons for an ending that a class and its bases declare."""
    declared = [vars(base).get("reasons", {}) for base in reversed(env_class.__mro__)]
    return {name: ending for reasons in declared for name, ending in reasons.items()}
