"""`EnvSession`: one client's environment. It answers requests one after another."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any

from agentgym.base.choices import named
from agentgym.base.errors import InfrastructureError, TaskError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.drive import start_on_loop
from agentgym.core.engine.threads import blocking
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.policy import Script
from agentgym.core.task import Task, may_be_same
from agentgym.interop.served.wire import GONE, error_data, keyed_hash, move_data, task_data

_POLICY_ENDS = (
    Reason.GAVE_UP,
    Reason.MAX_TURNS,
    Reason.TOKEN_BUDGET,
    Reason.CONTEXT,
    Reason.TIME,
    Reason.GENERATION_TIME,
    Reason.CANCELLED,
)
INTERRUPTIONS = {reason.value: reason for reason in _POLICY_ENDS}
"""Why a client may end an episode: reasons on the policy's side, by name."""
_log = logging.getLogger(__name__)

Content = Mapping[str, Any]


class EnvSession:
    """An environment that one client plays. Requests wait for each other; each runs in a thread.

    Args:
        name: Its unguessable name.
        env: The environment; the session closes it.
        key: The secret of the hashes of tasks; `None` if the client may see gold and solutions.
    """

    def __init__(self, name: str, env: Env, key: bytes | None):
        self.name, self._env, self._key = name, env, key
        self._turn = asyncio.Lock()
        self._number, self._last = 0, {}
        self._attempt: Script[Any] | None = None
        self._on_loop: Future[Any] | None = None
        self.used_at = time.monotonic()
        self.over = ""
        """Why the session has ended, once it has."""
        self._operations: Mapping[str, Callable[[Content], dict[str, Any]]] = {
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
        """Return the reply to a request: a result or an error. A repeated request gets the same reply."""
        async with self._turn:
            if self.over:
                return {"error": {"kind": GONE, "message": self.over}}
            try:
                return await self._answer(content)
            finally:
                self.used_at = time.monotonic()

    async def _answer(self, content: Content) -> dict[str, Any]:
        number = content.get("number")
        if number is None:
            return await blocking.run(partial(self._reply, content))
        if not isinstance(number, int) or isinstance(number, bool):
            return {"error": error_data(UsageError("the number of a request must be a whole number from 1"))}
        if number == self._number and self._last:
            return self._last
        if number != self._number + 1:
            problem = UsageError(f"request {number!r} of this session is out of order; {self._number + 1} is next")
            return {"error": error_data(problem)}
        self._number, self._last = number, {}
        self._last = await blocking.run(partial(self._reply, content))
        return self._last

    def _reply(self, content: Content) -> dict[str, Any]:
        op = content.get("op")
        operation = self._operations.get(op) if isinstance(op, str) else None
        if operation is None:
            return {"error": error_data(UsageError(f"there is no operation {op!r}"))}
        try:
            return {"result": operation(content)}
        except BaseException as error:  # an environment may raise anything, even what would end the event loop
            return {"error": error_data(error)}

    async def close(self, wait_s: float) -> None:
        """Close the environment after waiting up to `wait_s` seconds for a running request. Never raises."""
        if (work := self._on_loop) is not None:
            work.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s), self._turn:
                pass  # later requests are refused
        try:
            await blocking.run(self._close)
        except RuntimeError:  # the machine has no more threads
            self._close()

    def _close(self) -> None:
        try:
            self._env.close()
        except BaseException as error:
            _log.warning("an environment could not be closed: %s", describe(error))

    def _reset(self, content: Content) -> dict[str, Any]:
        self._attempt = None
        seed, options = content.get("seed"), content.get("options")
        if options is not None:
            if not isinstance(options, Mapping):
                raise UsageError("the options of a reset must be an object")
            options = {**options}
            if isinstance(options.get("task"), Mapping):
                options["task"] = self._same_task(options["task"])
        env = self._env
        observation, info = (
            self._awaited(env.areset(seed=seed, options=options))
            if env.is_async
            else env.reset(seed=seed, options=options)
        )
        return {"observation": observation, "info": info, "task": task_data(env.task, key=self._key)}

    def _same_task(self, reference: Mapping[str, Any]) -> Task:
        """Return the task with a client's id. Raises `TaskError` if its hash differs from the client's.

        A hash without the key is compared only if the client may see the gold: the reply would tell if it is right.
        """
        task = self._env.tasks.find(str(reference.get("id")))
        own_hash = task.hash if self._key is None else keyed_hash(task, self._key)
        client_hash = reference.get("hash")
        if client_hash is not None and not may_be_same(str(client_hash), own_hash):
            raise TaskError(f"task {task.id!r} differs on the server: its content has another hash")
        return task

    def _step(self, content: Content) -> dict[str, Any]:
        action, env = content.get("action"), self._env
        if not isinstance(action, str | dict):
            raise UsageError("an action is text, or an assistant message")
        return _step_data(self._awaited(env.astep(action)) if env.is_async else env.step(action))

    def _interrupt(self, content: Content) -> dict[str, Any]:
        reason, env = INTERRUPTIONS.get(str(content.get("reason"))), self._env
        if reason is None:
            raise UsageError(f"the reason of an interruption must be one of: {', '.join(INTERRUPTIONS)}")
        return _step_data(self._awaited(env.ainterrupt(reason)) if env.is_async else env.interrupt(reason))

    def _awaited(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run asynchronous work on the event loop of this process, so that `close` can cancel it."""
        self._on_loop = pending = start_on_loop(work)
        try:
            result = pending.result()
        except (CancelledError, asyncio.CancelledError):
            raise InfrastructureError("the request was given up") from None
        finally:
            self._on_loop = None
        if isinstance(result, BaseException):
            raise result
        return result

    def _task(self, content: Content) -> dict[str, Any]:
        selector = content.get("wanted")
        if not isinstance(selector, Mapping):
            raise UsageError("select a task by its id, or by split and index")
        return {"task": task_data(self._selected_task(selector), key=self._key)}

    def _selected_task(self, selector: Mapping[str, Any]) -> Task:
        if "task" in selector:
            return self._env.tasks.find(str(selector["task"]))
        split, index = selector.get("split"), selector.get("index")
        if not isinstance(split, str) or type(index) is not int:
            raise UsageError("select a task by its id, or by split and index")
        return self._env.tasks.get(split, index)

    def _has_failing(self, content: Content) -> dict[str, Any]:
        return {"exists": self._env.failing(self._revealed(content)) is not None}

    def _begin_attempt(self, content: Content) -> dict[str, Any]:
        makers = {"solution": self._env.solution, "failing": self._env.failing}
        make = named("attempt", content.get("kind"), makers)
        moves = make(self._revealed(content))
        self._attempt = None if moves is None else Script(moves)
        return {}

    def _move(self, content: Content) -> dict[str, Any]:
        attempt = self._attempt
        if attempt is None:
            raise UsageError("no attempt has begun")
        return move_data(attempt.next_move(content.get("observation") or []))

    def _revealed(self, content: Content) -> Task:
        """Return the task whose solution is requested. Raises `UsageError` unless clients may see it."""
        if self._key is not None:
            raise UsageError("this server does not reveal solutions; start it with --reveal")
        return self._env.tasks.find(str(content.get("task")))


def _step_data(step: tuple[Any, ...]) -> dict[str, Any]:
    observation, reward, terminated, truncated, info = step
    return {
        "observation": observation, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info
    }  # fmt: skip
