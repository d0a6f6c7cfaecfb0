"""Policy interfaces, and the policies without weights: scripted (the solution), random, silent and function.

A `ChatPolicy` speaks in messages and can be evaluated. A `TokenPolicy` speaks in token ids with log-probabilities and
can also be trained. A `ScriptedPolicy` is not a model: it has access to the environment.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from agentgym.base.errors import BrokenTask, InfrastructureError, ScriptFailed, UsageError
from agentgym.core.dialects.base import Dialect
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action, ActionSpace, Finish, action_message
from agentgym.core.engine.steps import Solution, StepResult
from agentgym.core.engine.threads import blocking, blocks
from agentgym.core.env import Env
from agentgym.core.foreign import describe, place_of
from agentgym.core.messages import Message, ToolCall, assistant, with_call_ids
from agentgym.core.task import Task
from agentgym.core.toolset import Tool, ToolOptions, Toolset

Move = ToolCall | Action
"""A script's move in one turn: a call, to be rendered in the environment's dialect, or a complete action."""

M = TypeVar("M", bound=Move)

ScriptedPlayer = Callable[[Env, Task], Iterable[Move]]
"""Plays a running episode by yielding moves. A generator is sent the observation after each move."""


def solution_player(env: Env, task: Task) -> Solution:
    """Play the environment's own solution."""
    return env.solution(task)


@contextmanager
def _failing_as_script() -> Iterator[None]:
    """Turn errors of a script into `ScriptFailed`, except those about the task, the caller or the infrastructure."""
    try:
        yield
    except (BrokenTask, EndEpisode, InfrastructureError, ScriptFailed, UsageError):
        raise
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise  # may come from outside
    except BaseException as error:
        raise ScriptFailed(f"the script cannot continue: {describe(error)}{place_of(error)}") from error


class Script(Generic[M]):
    """Takes moves one at a time.

    Args:
        moves: The moves, e.g. `env.solution(task)`. A generator is sent each observation.
    """

    def __init__(self, moves: Iterable[M]):
        self._moves = iter(moves)
        self._started = False

    def next_move(self, observation: list[Message]) -> M | None:
        """Return the next move, given the messages since the last one; `None` at the end of the script.

        Raises:
            ScriptFailed: The script raised an error of its own.
        """
        with _failing_as_script():
            try:
                if self._started and isinstance(self._moves, Generator):
                    return self._moves.send(observation)
                self._started = True
                return next(self._moves)
            except StopIteration:
                return None


def as_action(env: Env, move: Move) -> Action:
    """Return a move as an action, in the environment's dialect if it can express the move."""
    if not isinstance(move, ToolCall):
        return move
    try:
        return env.dialect.render("", [move], env.tools)
    except ValueError:
        # Not every dialect can express every call; an assistant message can.
        return assistant("", [move])


def steps(env: Env, moves: Iterable[Move]) -> Iterator[StepResult]:
    """Play moves in the running episode of `env` and yield each result, until the episode or the moves end."""
    script = Script(moves)
    observation: list[Message] = []
    while (move := script.next_move(observation)) is not None:
        result = env.step(as_action(env, move))
        yield result
        if result.terminated or result.truncated:
            return
        observation = result.observation


@dataclass(frozen=True)
class Seat:
    """A player's place in one episode."""

    tools: Toolset
    """The available tools as described to the model. They validate calls but cannot run them."""
    dialect: Dialect
    """The dialect of the model's calls."""
    seed: int
    """The player's random seed."""
    max_calls: int = 1
    """Tool calls allowed in one turn."""

    @classmethod
    def at(cls, env: Env, seed: int) -> Self:
        """Return a seat in the running episode of `env`."""
        return cls.of(env.tools.schemas, env.dialect, seed, env.max_calls_per_turn)

    @classmethod
    def of(cls, schemas: Iterable[Mapping[str, Any]], dialect: Dialect, seed: int, max_calls: int = 1) -> Self:
        """Return a seat in an episode whose tools have these schemas."""
        return cls(Toolset(map(_DescribedTool, schemas)), dialect, seed, max_calls)


class _DescribedTool(Tool):
    """A tool rebuilt from its schema. The original may be bound to the environment, so it is not exposed.

    Args:
        schema: Schema of the tool; this object owns it.
    """

    def __init__(self, schema: Mapping[str, Any]):
        function = schema["function"]
        super().__init__(
            function["name"], function["description"], function["parameters"], ToolOptions(), is_async=False
        )

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments if the schema allows them. The environment may be more lenient."""
        from agentgym.core.schema_tool import SchemaTool

        return SchemaTool(self.schema, self.bound_to(None)).check(arguments)

    def bound_to(self, env: Any) -> Callable[..., Any]:
        """Return a function that always raises: calls are played as actions."""

        def refuse(*_: Any, **__: Any) -> Any:
            raise UsageError(f"{self.name!r} runs in the environment only; return its call as an action")

        return refuse


_OF_POLICIES = frozenset({Reason.GAVE_UP, Reason.CONTEXT, Reason.TOKEN_BUDGET, Reason.GENERATION_TIME})


class EndEpisode(Exception):
    """Raised by `Player.act` to end the episode; it is graded as it stands.

    Args:
        reason: Why: `gave_up`, `context`, `token_budget` or `generation_time`.

    Raises:
        UsageError: The reason is not one that a policy may use.
    """

    def __init__(self, reason: Reason):
        if reason not in _OF_POLICIES:
            raise UsageError(
                f"a policy cannot end an episode as {reason!r}; its reasons: {', '.join(sorted(_OF_POLICIES))}"
            )
        super().__init__(reason)
        self.reason = reason


@runtime_checkable
class Player(Protocol):
    """A chat policy's side of one episode.

    An optional mapping `usage`, such as the tokens and costs that an endpoint reports, is recorded in
    `Trajectory.usage`.
    """

    async def act(self, observation: list[Message]) -> Action | None:
        """Return the next action, given the messages since the last one; `None` gives up.

        Raises:
            EndEpisode: The policy ends the episode.
        """
        ...


@runtime_checkable
class ChatPolicy(Protocol):
    """A policy that speaks in messages. It gets a seat, never the environment, because the task holds the gold."""

    name: str

    def player(self, seat: Seat) -> Player:
        """Return a player for one running episode."""
        ...


Past = Sequence[tuple[list[Message], Action]]
"""The turns played so far: each observation, and the action that answered it."""


@runtime_checkable
class ResumablePolicy(ChatPolicy, Protocol):
    """A chat policy that can continue from the middle of an episode, as beam search and tree search require."""

    def resume(self, seat: Seat, past: Past) -> Player:
        """Return a player that continues an episode after `past`, which any player may have played."""
        ...


@dataclass(frozen=True)
class Generation:
    """The tokens that a token policy sampled in one turn."""

    ids: list[int]
    logprobs: list[float]
    """Log-probability of each id under the sampling policy."""
    finish: Finish
    """Whether the model ended its turn, or hit the token limit or the time limit."""
    version: int = 0
    """Version of the weights that sampled the turn: in training, the number of steps that they have learned from."""
    queued_s: float | None = field(default=None, compare=False)
    """Seconds that the request waited before its first pass, if known."""


class Codec(Protocol):
    """Converts between messages and token ids. Renders only new messages, never the history again."""

    def open(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the ids of the opening messages, ready for the model's first turn."""
        ...

    def extend(self, observation: Sequence[Message], last_id: int) -> list[int]:
        """Return the ids that follow a model turn whose last token was `last_id`, ready for its next turn."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids, without the token that ends a turn."""
        ...


@runtime_checkable
class TokenPolicy(Protocol):
    """A policy that speaks in token ids."""

    name: str
    codec: Codec
    context: int
    """Maximum number of tokens in a conversation, prompt and completion together."""

    async def generate(
        self, ids: Sequence[int], max_new_tokens: int, session: str, *, timeout_s: float | None = None
    ) -> Generation:
        """Sample one turn after `ids`.

        Args:
            ids: The conversation so far.
            max_new_tokens: The most tokens to sample.
            session: Names the conversation. Successive calls with the same name extend it, so state can be reused.
            timeout_s: Seconds of sampling, not counting time in a queue, after which the turn is cut off and returned,
                possibly empty, with the finish `"time"`.
        """
        ...

    def release(self, session: str) -> None:
        """Drop the state kept for `session`."""
        ...


@runtime_checkable
class SeeingPolicy(TokenPolicy, Protocol):
    """A token policy that may see pictures. Its codec writes a placeholder for each into the tokens."""

    sees: bool
    """Whether this policy sees pictures; its model may be text-only."""

    def picture_tokens(self, picture: bytes) -> int:
        """Return the number of tokens that a picture (PNG) takes besides its placeholder."""
        ...

    async def generate(
        self,
        ids: Sequence[int],
        max_new_tokens: int,
        session: str,
        *,
        timeout_s: float | None = None,
        pictures: Sequence[bytes] = (),
    ) -> Generation:
        """Sample one turn after `ids`, as a `TokenPolicy` does.

        Args:
            ids: The conversation so far.
            max_new_tokens: The most tokens to sample.
            session: Names the conversation.
            timeout_s: Seconds after which to cut the turn off.
            pictures: PNG files, in the order of their placeholders in `ids`.
        """
        ...


@runtime_checkable
class StreamingPolicy(TokenPolicy, Protocol):
    """A token policy that reports tokens while it samples a turn."""

    streams: bool
    """Whether this policy streams."""

    async def generate(
        self,
        ids: Sequence[int],
        max_new_tokens: int,
        session: str,
        *,
        timeout_s: float | None = None,
        on_tokens: Callable[[Sequence[int]], None] | None = None,
    ) -> Generation:
        """Sample one turn after `ids`, as a `TokenPolicy` does.

        Args:
            ids: The conversation so far.
            max_new_tokens: The most tokens to sample.
            session: Names the conversation.
            timeout_s: Seconds after which to cut the turn off.
            on_tokens: Called with the tokens sampled since its last call, in the thread that awaits the turn. It blocks
                other turns, so it must be quick, and it must not raise.
        """
        ...


class ScriptedPolicy:
    """Plays a script with access to the environment and the task's gold. Do not compare its results with a model's.

    Args:
        script: The script to play; by default each environment's own solution.
        name: Name in reports.
    """

    def __init__(self, script: ScriptedPlayer = solution_player, name: str = "scripted"):
        self.script, self.name = script, name

    def begin(self, env: Env) -> Player:
        """Return the script's player for the running episode of `env`."""
        return _Scripted(env, self.script)


class _Scripted:
    def __init__(self, env: Env, script: ScriptedPlayer):
        self._env, self._make = env, script
        self._script: Script[Any] | None = None
        self._ids: set[str] = set()

    async def act(self, observation: list[Message]) -> Action | None:
        move = await self._next_move(observation)
        action = None if move is None else as_action(self._env, move)
        return with_call_ids(action, self._ids) if isinstance(action, Mapping) else action

    async def _next_move(self, observation: list[Message]) -> Any:
        """Return the next move. A script may block, so it runs in a thread where others wait for the event loop."""
        return self._next(observation) if blocks.get() else await blocking.run(lambda: self._next(observation))

    def _next(self, observation: list[Message]) -> Any:
        if self._script is None:
            with _failing_as_script():
                self._script = Script(self._make(self._env, self._env.task))
        return self._script.next_move(observation)


Policy = ChatPolicy | TokenPolicy | ScriptedPolicy


class _Random:
    def __init__(self, seat: Seat):
        self._space = ActionSpace(seat.tools, seat.dialect, seat.seed)

    async def act(self, observation: list[Message]) -> Action:
        return self._space.sample()


class RandomPolicy:
    """Calls random tools with random arguments of the right types."""

    name = "random"

    def player(self, seat: Seat) -> Player:
        """Return a player that samples from the seat's action space."""
        return _Random(seat)

    def resume(self, seat: Seat, past: Past) -> Player:
        """Return such a player; what was played does not matter to it."""
        return _Random(seat)


class _Silent:
    async def act(self, observation: list[Message]) -> Action:
        return ""


class SilentPolicy:
    """Says nothing in every turn: a lower bound that every environment's reward must respect."""

    name = "silent"

    def player(self, seat: Seat) -> Player:
        """Return a player that says nothing."""
        return _Silent()

    def resume(self, seat: Seat, past: Past) -> Player:
        """Return such a player; what was played does not matter to it."""
        return _Silent()


class _FunctionPlayer:
    def __init__(self, ask: Callable[[list[Message]], Awaitable[Action | None]]):
        self._ask = ask

    async def act(self, observation: list[Message]) -> Action | None:
        return await self._ask(observation)


def _has_parameter(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False


class FunctionPolicy:
    """Plays the actions that a function returns: a model endpoint, a human, a rule.

    Args:
        name: Name in reports.
        ask: `(messages) -> action` or `(messages, tools) -> action`, plain or `async def`; receives the whole
            conversation so far, and the tools' schemas if it has a parameter `tools`. Missing or repeated ids of the
            calls it returns are replaced. A plain function runs on the event loop of the rollout; make it `async def`
            if it waits, for example for a model: otherwise it blocks every other episode, and no time limit stops it.
        history: Transforms the conversation first, e.g. `agentgym.core.history.shorten_observations`.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[..., Any],
        history: Callable[[list[Message]], list[Message]] | None = None,
    ):
        self.name = name
        self._ask, self._history = ask, history
        self._wants_tools = _has_parameter(ask, "tools")

    def player(self, seat: Seat) -> Player:
        """Return a player that keeps the conversation and asks the function."""
        return self.resume(seat, ())

    def resume(self, seat: Seat, past: Past) -> Player:
        """Return a player whose conversation begins with `past`."""
        conversation: list[Message] = []
        ids: set[str] = set()
        for observation, action in past:
            conversation += [*observation, action_message(_with_ids(action, ids))]
        schemas = {"tools": seat.tools.schemas} if self._wants_tools else {}

        async def ask(observation: list[Message]) -> Action | None:
            conversation.extend(observation)
            action = self._ask(self._history(conversation) if self._history else conversation, **schemas)
            action = await action if asyncio.iscoroutine(action) else action
            if action is None:
                return None
            action = _with_ids(action, ids)
            conversation.append(action_message(action))
            return action

        return _FunctionPlayer(ask)


def _with_ids(action: Action, ids: set[str]) -> Action:
    return with_call_ids(action, ids) if isinstance(action, Mapping) else action
