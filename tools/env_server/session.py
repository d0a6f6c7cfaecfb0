"""`Session`: one client's environment, and the requests to it, one after another."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.threads import blocking
from agentgym.env import Env
from agentgym.errors import TaskError, UsageError
from agentgym.foreign.errors import describe, ends_work
from agentgym.interop.remote.wire import error_data, move_data, task_data
from agentgym.messages import Message
from agentgym.rollout.deadlines import OutOfTime, within
from agentgym.task import Task

_INTERRUPTIONS = {reason.value: reason for reason in (Reason.TOKEN_BUDGET, Reason.CONTEXT, Reason.TIME,
                                                      Reason.GENERATION_TIME, Reason.CANCELLED)}  # fmt: skip
_log = logging.getLogger(__name__)

Content = Mapping[str, Any]


class Session:
    """An environment that one client plays.

    Args:
        name: Its name, which nobody else can guess.
        env: The environment; the session closes it.
        is_revealed: Whether the client may see gold and solutions.
        request_s: Seconds that a request may take.
    """

    def __init__(self, name: str, env: Env, *, is_revealed: bool, request_s: float):
        self.name, self._env = name, env
        self._is_revealed, self._request_s = is_revealed, request_s
        self._turn = asyncio.Lock()
        self._number, self._last = 0, {}
        self._attempt: Generator[Any, list[Message], None] | None = None
        self.used_at = time.monotonic()
        self.is_lost = False
        """Whether a request took too long. What it started may still run, so nothing else can."""
        self._operations: Mapping[str, Callable[[Content], Awaitable[dict[str, Any]]]] = {
            "reset": self._reset,
            "step": self._step,
            "interrupt": self._interrupt,
            "task": self._task,
            "attempt": self._begin_attempt,
            "move": self._move,
            "failing_exists": self._has_failing,
        }

    @property
    def is_busy(self) -> bool:
        """Whether a request is running."""
        return self._turn.locked()

    async def answer(self, content: Content) -> dict[str, Any]:
        """Return the reply to a request: a result, or an error. A request that was answered before is not run again."""
        async with self._turn:
            self.used_at = time.monotonic()
            number = content.get("number")
            if number is None:
                return await self._reply(content)
            if number == self._number and self._last:
                return self._last
            if number != self._number + 1:
                problem = UsageError(f"request {number!r} of this session is out of order; {self._number + 1} is next")
                return {"error": error_data(problem)}
            self._number, self._last = number, {}
            self._last = await self._reply(content)
            self.used_at = time.monotonic()
            return self._last

    async def _reply(self, content: Content) -> dict[str, Any]:
        op = content.get("op")
        operation = self._operations.get(op) if isinstance(op, str) else None
        if operation is None:
            return {"error": error_data(UsageError(f"there is no operation {op!r}"))}
        reason = Reason.RESET_TIME if op == "reset" else Reason.STEP_TIME
        try:
            return {"result": await within(operation(content), self._request_s, reason, f"a {op} on the server")}
        except BaseException as error:
            if ends_work(error, asyncio.current_task()):
                raise
            self.is_lost = self.is_lost or isinstance(error, OutOfTime)
            return {"error": error_data(error)}

    async def close(self) -> None:
        """Close the environment. Never raises."""
        try:
            await within(self._env.aclose(), self._request_s, Reason.STEP_TIME, "closing an environment")
        except Exception as error:
            _log.warning("an environment could not be closed: %s", describe(error))

    async def _reset(self, content: Content) -> dict[str, Any]:
        self._attempt = None
        options = content.get("options")
        if options is not None:
            if not isinstance(options, Mapping):
                raise UsageError("the options of a reset must be an object")
            options = {**options}
            if isinstance(options.get("task"), Mapping):
                options["task"] = await blocking.run(lambda: self._known(options["task"]))
        observation, info = await self._env.areset(seed=content.get("seed"), options=options)
        return {"observation": observation, "info": info, "task": task_data(self._env.task, reveal=self._is_revealed)}

    def _known(self, wanted: Mapping[str, Any]) -> Task:
        """Return the task that a client means. Raises `TaskError` if it is another one here."""
        task = self._env.tasks.find(str(wanted.get("id")))
        if wanted.get("hash") not in (None, task.hash):
            raise TaskError(f"task {task.id!r} is another one on the server: its content differs")
        return task

    async def _step(self, content: Content) -> dict[str, Any]:
        action = content.get("action")
        if not isinstance(action, str | Mapping):
            raise UsageError("an action is text, or an assistant message")
        return _played(await self._env.astep(action))

    async def _interrupt(self, content: Content) -> dict[str, Any]:
        reason = _INTERRUPTIONS.get(str(content.get("reason")))
        if reason is None:
            raise UsageError(f"an episode is interrupted for one of: {', '.join(_INTERRUPTIONS)}")
        return _played(await self._env.ainterrupt(reason))

    async def _task(self, content: Content) -> dict[str, Any]:
        wanted = content.get("wanted")
        if not isinstance(wanted, Mapping):
            raise UsageError("a task is wanted by its id, or by split and index")
        task = await blocking.run(lambda: self._found(wanted))
        return {"task": task_data(task, reveal=self._is_revealed)}

    def _found(self, wanted: Mapping[str, Any]) -> Task:
        if "task" in wanted:
            return self._env.tasks.find(str(wanted["task"]))
        split, index = wanted.get("split"), wanted.get("index")
        if not isinstance(split, str) or not isinstance(index, int):
            raise UsageError("a task is wanted by its id, or by split and index")
        return self._env.tasks.get(split, index)

    async def _has_failing(self, content: Content) -> dict[str, Any]:
        attempt = await blocking.run(lambda: self._env.failing(self._revealed(content)))
        return {"exists": attempt is not None}

    async def _begin_attempt(self, content: Content) -> dict[str, Any]:
        make = self._env.failing if content.get("kind") == "failing" else self._env.solution
        self._attempt = await blocking.run(lambda: make(self._revealed(content)))
        return {}

    async def _move(self, content: Content) -> dict[str, Any]:
        attempt = self._attempt
        if attempt is None:
            raise UsageError("no solution was asked for")
        return move_data(await blocking.run(lambda: _next(attempt, content.get("observation"))))

    def _revealed(self, content: Content) -> Task:
        """Return the task whose solution is wanted. Raises `UsageError` unless clients may see it."""
        if not self._is_revealed:
            raise UsageError("this server does not reveal solutions; it was started without --reveal")
        return self._env.tasks.find(str(content.get("task")))


def _next(attempt: Generator[Any, list[Message], None], observation: Any) -> Any:
    try:
        return next(attempt) if observation is None else attempt.send(observation)
    except StopIteration:
        return None


def _played(step: tuple[Any, ...]) -> dict[str, Any]:
    observation, reward, terminated, truncated, info = step
    return {
        "observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info
    }  # fmt: skip
