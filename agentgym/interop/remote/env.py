"""`RemoteEnv`: an environment on a server, as a `gymnasium.Env` of this process."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agentgym.endings import AnyReason, Reason, own_reasons
from agentgym.engine.spaces import Action
from agentgym.engine.steps import Solution, StepResult, training_step_in
from agentgym.env import Env
from agentgym.errors import InfrastructureError, UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.remote.connection import Address, Connection
from agentgym.interop.remote.description import Description
from agentgym.interop.remote.tasks import RemoteTasks
from agentgym.interop.remote.wire import begun, move_of, played
from agentgym.messages import Message
from agentgym.schema_tool import schema_tools
from agentgym.task import Task
from agentgym.toolset import Toolset


class RemoteEnv(Env):
    """An environment that `agentgym serve env` serves. Episodes are those of the server, with the same seeds.

    Each instance is one session of the server. If the connection breaks, it goes on in the same session; if the server
    is gone for longer, steps raise `InfrastructureError`, as for anything else that breaks around a model.

    Args:
        url: The server's URL, such as `http://127.0.0.1:8000`.
        env: Which of its environments; not needed if it serves one.
        token: The server's token; by default the environment variable `AGENTGYM_TOKEN`.
        answer_s: Seconds to wait for a reply; by default as long as the server says that a request may take.
        reconnect_s: Seconds to try again while the server cannot be reached or has no room.
        arguments: Arguments of the environment, of those that it declares as harmless.
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
        self._made_with = {**own, "render_mode": render_mode, **arguments}
        if dialect is not None and not isinstance(dialect, str):
            arguments["dialect"] = dialect.name
        self._connection = Connection(Address(url, token, answer_s, reconnect_s), {"env": env, "arguments": arguments})
        self.served = served = self._described()
        """What the server told about the environment."""
        self.tools = _toolset(served.tools)
        self.max_concurrent = served.max_concurrent
        # The ranges are those of whole turns already.
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

    def _described(self) -> Description:
        try:
            return Description.from_data(self._connection.begin())
        except BaseException:
            self._connection.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self._made_with)

    async def _reset(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[list[Message], dict[str, Any]]:
        if seed is not None:
            self._reseed(seed)
        step = training_step_in(options)
        told = self._told("reset", seed=seed, options=_options_data(options))
        with self._readable():
            observation, info, task = begun(told)
            offered = None if info["tools"] == self.tools.schemas else _toolset(info["tools"])
        self._seed, self._reason, self._training_step = seed, None, step
        self._task = self._played_task(options, task)
        self._turns, self._actions, self._transcript = [], [], []
        if offered is not None:
            self.tools = offered
            self._offer(self.tools)
        if self.render_mode is not None:
            self._show(observation)
        return observation, info

    async def _step(self, action: Action) -> StepResult:
        self._actions.append(action)
        return self._after(self._told("step", action=action))

    async def _interrupt(self, reason: AnyReason) -> StepResult:
        return self._after(self._told("interrupt", reason=reason.value))

    def _told(self, op: str, **content: Any) -> dict[str, Any]:
        """Play a part of the episode on the server. An infrastructure error there or on the way ends it here too."""
        try:
            return self._connection.act(op, **content)
        except InfrastructureError:
            self._reason = Reason.INFRASTRUCTURE
            raise

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """End the episode as one around which something broke, if what the server answers cannot be read."""
        try:
            yield
        except Exception as error:
            self._reason = Reason.INFRASTRUCTURE
            self._connection.leave()
            raise InfrastructureError(f"the server's answer cannot be read: {describe(error)}") from error

    def _after(self, told: Mapping[str, Any]) -> StepResult:
        with self._readable():
            result = played(told)
            ending = result.info.get("ending")
            reason = None if ending is None else self._reasons.get(ending) or Reason(ending)
        self._turns.append(result.info["rewards"])
        if reason is not None:
            self._reason = reason
        if self.render_mode is not None:
            self._show(result.observation)
        return result

    def _played_task(self, options: Mapping[str, Any] | None, told: Task) -> Task:
        wanted = (options or {}).get("task")
        return wanted if isinstance(wanted, Task) else told

    def solution(self, task: Task) -> Solution:
        """Yield the server's solution. Raises `UsageError` if it does not reveal it (`--reveal`)."""
        return self._attempt("solution", task)

    def failing(self, task: Task) -> Solution | None:
        """Return the server's honest attempt that fails, if there is one."""
        if not self._connection.ask("failing_exists", task=task.id)["exists"]:
            return None
        return self._attempt("failing", task)

    def _attempt(self, kind: str, task: Task) -> Generator[Any, list[Message], None]:
        self._connection.act("attempt", kind=kind, task=task.id)
        observation: list[Message] | None = None
        while (move := move_of(self._connection.act("move", observation=observation))) is not None:
            observation = yield move

    def close(self) -> None:
        """End the session. Safe to call twice; `reset` begins a new one."""
        self._connection.close()

    async def aclose(self) -> None:
        """`close` for asynchronous callers."""
        await self._away(self._closing())

    async def _closing(self) -> None:
        self.close()


def _again(env_class: type[RemoteEnv], arguments: Mapping[str, Any]) -> RemoteEnv:
    return env_class(**arguments)


def _toolset(schemas: list[dict[str, Any]]) -> Toolset:
    """Return the tools as the server describes them; the server runs them."""
    return Toolset(schema_tools(schemas, _elsewhere))


def _elsewhere(name: str, _: dict[str, Any]) -> Any:
    raise UsageError(f"tool {name!r} runs on the server: call it with step()")


def _options_data(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return reset options as data: of a task, its id, and its hash, which the server compares."""
    if options is None:
        return None
    task = options.get("task")
    return {**options, "task": {"id": task.id, "hash": task.hash}} if isinstance(task, Task) else dict(options)
