"""`RemoteEnv`: an environment on a server, as a `gymnasium.Env` of this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agentgym.base.errors import InfrastructureError, TaskError, UsageError
from agentgym.core.endings import AnyReason, Reason, own_reasons
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import Solution, StepResult, training_step_in
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.messages import Message
from agentgym.core.schema_tool import schema_tools
from agentgym.core.task import Task, check_split
from agentgym.core.toolset import Toolset
from agentgym.interop.served.connection import Address, EnvConnection
from agentgym.interop.served.wire import Description, move_of, read_reset, read_step, task_of

_CACHED = 1024


class RemoteTasks:
    """A task source over the wire. Unless the server reveals them, tasks come without their data and gold."""

    def __init__(self, connection: EnvConnection, sizes: Mapping[str, int | None]):
        self._connection, self._sizes = connection, dict(sizes)
        self._cache: OrderedDict[tuple[Any, ...], Task] = OrderedDict()

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._sizes)

    def size(self, split: str) -> int | None:
        """Number of tasks in `split`; `None` if it is endless."""
        return self._sizes[check_split(self, split)]

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        size = self.size(split)
        if index < 0 or (size is not None and index >= size):
            raise TaskError(f"split {split!r} has no task {index}; it has {'no end' if size is None else size}")
        return self._fetch((split, index), {"split": split, "index": index})

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        return self._fetch((task_id,), {"task": task_id})

    def _fetch(self, key: tuple[Any, ...], selector: Mapping[str, Any]) -> Task:
        task = self._cache.get(key)
        if task is None:
            task = self._cache[key] = task_of(self._connection.ask("task", wanted=selector)["task"])
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return task


class RemoteEnv(Env):
    """An environment served by `agentgym serve env`. The same seeds give the same episodes as on the server.

    Each instance is one session of the server. If the connection breaks, it reconnects to the same session; if the
    server stays unreachable, steps raise `InfrastructureError`, like other failures around the model.

    Args:
        url: The server's URL, such as `http://127.0.0.1:8000`.
        env: Which of its environments; not needed if it serves one.
        token: The server's token; by default the environment variable `AGENTGYM_TOKEN`.
        answer_s: Seconds to wait for a reply; by default the server's own time limit and a margin.
        reconnect_s: Seconds to keep retrying while the server is unreachable or full.
        arguments: Arguments of the environment that it declares as harmless.
    """

    harmless_arguments = frozenset(Env.harmless_arguments | {"env"})

    def __init__(
        self,
        url: str,
        env: str | None = None,
        *,
        token: str | None = None,
        answer_s: float | None = None,
        reconnect_s: float = 30.0,
        render_mode: str | None = None,
        **arguments: Any,
    ):
        dialect = arguments.get("dialect")
        own = {"url": url, "env": env, "token": token, "answer_s": answer_s, "reconnect_s": reconnect_s}
        self._arguments = {**own, "render_mode": render_mode, **arguments}
        if dialect is not None and not isinstance(dialect, str):
            arguments["dialect"] = dialect.name
        self._connection = EnvConnection(
            Address(url, token, answer_s, reconnect_s), {"env": env, "arguments": arguments}
        )
        self.served = served = self._begin_session()
        """The server's description of the environment."""
        self.tools = _toolset(served.tools)
        self.max_concurrent = served.max_concurrent
        # The server's ranges cover whole turns already.
        self.channels = {name: replace(channel, per_call=False) for name, channel in served.channels.items()}
        super().__init__(
            tasks=RemoteTasks(self._connection, served.splits),
            split=served.split,
            dialect=dialect or served.dialect,
            scheme=replace(served.scheme, allow_unsound=True),
            max_turns=served.max_turns,
            max_calls_per_turn=served.max_calls_per_turn,
            render_mode=render_mode,
        )
        self.channels, self.scheme = served.channels, served.scheme
        self._reasons = own_reasons(served.reasons)

    def _begin_session(self) -> Description:
        try:
            return Description.from_data(self._connection.begin())
        except BaseException:
            self._connection.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), self._arguments)

    async def _reset(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[list[Message], dict[str, Any]]:
        if seed is not None:
            self._reseed(seed)
        step = training_step_in(options)
        reply = self._act("reset", seed=seed, options=_options_data(options))
        with self._reading():
            observation, info, task = read_reset(reply)
            tools = None if info["tools"] == self.tools.schemas else _toolset(info["tools"])
        self._seed, self._reason, self._training_step = seed, None, step
        self._task = self._played_task(options, task)
        self._turns, self._actions, self._transcript = [], [], []
        if tools is not None:
            self.tools = tools
            self._offer(tools)
        if self.render_mode is not None:
            self._show(observation)
        return observation, info

    async def _step(self, action: Action) -> StepResult:
        self._actions.append(action)
        return self._result(self._act("step", action=action))

    async def _interrupt(self, reason: AnyReason) -> StepResult:
        return self._result(self._act("interrupt", reason=reason.value))

    def _act(self, op: str, **content: Any) -> dict[str, Any]:
        """Change the episode on the server. An infrastructure error ends the episode here too."""
        try:
            return self._connection.act(op, **content)
        except InfrastructureError:
            self._reason = Reason.INFRASTRUCTURE
            raise

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Treat errors in the block as a malformed reply, which fails the episode."""
        try:
            yield
        except Exception as error:
            self._reason = Reason.INFRASTRUCTURE
            self._connection.leave()
            raise InfrastructureError(f"malformed reply of the server: {describe(error)}") from error

    def _result(self, reply: Mapping[str, Any]) -> StepResult:
        with self._reading():
            result = read_step(reply)
            ending = result.info.get("ending")
            reason = None if ending is None else self._reasons.get(ending) or Reason(ending)
        self._turns.append(result.info["rewards"])
        if reason is not None:
            self._reason = reason
        if self.render_mode is not None:
            self._show(result.observation)
        return result

    def _played_task(self, options: Mapping[str, Any] | None, served_task: Task) -> Task:
        task = (options or {}).get("task")
        return task if isinstance(task, Task) else served_task

    def solution(self, task: Task) -> Solution:
        """Yield the server's solution. Raises `UsageError` unless the server runs with `--reveal`."""
        return self._attempt("solution", task)

    def failing(self, task: Task) -> Solution | None:
        """Return the server's honest failing attempt; `None` if it has none."""
        if not self._connection.ask("failing_exists", task=task.id)["exists"]:
            return None
        return self._attempt("failing", task)

    def _attempt(self, kind: str, task: Task) -> Generator[Any, list[Message], None]:
        self._connection.act("attempt", kind=kind, task=task.id)
        observation: list[Message] | None = None
        while (move := move_of(self._connection.act("move", observation=observation))) is not None:
            observation = yield move

    def close(self) -> None:
        """End the session. Safe to call twice; `reset` begins a new session."""
        self._connection.close()

    async def aclose(self) -> None:
        """`close` for asynchronous callers."""
        await self._away(self._closing())

    async def _closing(self) -> None:
        self.close()


def _make(env_class: type[RemoteEnv], arguments: Mapping[str, Any]) -> RemoteEnv:
    return env_class(**arguments)


def _toolset(schemas: list[dict[str, Any]]) -> Toolset:
    """Return the tools that the server describes; only the server can run them."""
    return Toolset(schema_tools(schemas, _refuse))


def _refuse(name: str, _: dict[str, Any]) -> Any:
    raise UsageError(f"tool {name!r} runs on the server: call it with step()")


def _options_data(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return reset options as data; a task becomes its id and its hash, which the server compares."""
    if options is None:
        return None
    task = options.get("task")
    return {**options, "task": {"id": task.id, "hash": task.hash}} if isinstance(task, Task) else dict(options)
