"""What a policy is, and the policies without weights: scripted (the solution), random, do-nothing and human.

A `ChatPolicy` speaks in messages and can be evaluated. A `TokenPolicy` speaks in token ids with log-probabilities and
can also be trained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from agentgym.env import Env
from agentgym.messages import Message, assistant
from agentgym.spaces import Action
from agentgym.steps import Solution


@runtime_checkable
class Player(Protocol):
    """A chat policy's side of one episode."""

    async def act(self, observation: list[Message]) -> Action | None:
        """Return the next action, given the messages since the last; `None` gives up."""
        ...


@runtime_checkable
class ChatPolicy(Protocol):
    """A policy that speaks in messages."""

    name: str

    def player(self, env: Env, seed: int) -> Player:
        """Return a player for one episode of `env`, which has been reset."""
        ...


@dataclass(frozen=True)
class Generation:
    """What a token policy sampled in one turn."""

    ids: list[int]
    logprobs: list[float]
    """Log-probability of each id under the sampling policy."""
    finish: Literal["stop", "length"]
    """Whether the model ended its turn, or ran into the limit."""
    version: int = 0
    """Number of weight updates that the sampling policy had seen."""


class Codec(Protocol):
    """Between messages and token ids. Renders only what is new: history is never rendered again."""

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
    """Greatest number of tokens of a conversation, prompt and completion together."""

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str) -> Generation:
        """Sample one turn after `ids`. Calls with the same `session` extend each other, so work can be kept."""
        ...

    def release(self, session: str) -> None:
        """Forget what was kept for `session`."""
        ...


Policy = ChatPolicy | TokenPolicy


class _Scripted:
    """Plays what a solution yields, written in the environment's dialect where it can be."""

    def __init__(self, env: Env):
        self._env = env
        self._script: Solution = env.solution(env.task)
        self._begun = False

    async def act(self, observation: list[Message]) -> Action | None:
        try:
            move = self._script.send(observation) if self._begun else next(self._script)
        except StopIteration:
            return None
        self._begun = True
        if isinstance(move, str):
            return move
        try:
            return self._env.dialect.render("", [move], self._env.tools)
        except ValueError:
            # No dialect can write everything; an assistant message can.
            return assistant("", [move])


class ScriptedPolicy:
    """Plays each environment's own solution."""

    name = "scripted"

    def player(self, env: Env, seed: int) -> Player:
        """Return a player of `env.solution`."""
        return _Scripted(env)


class _Random:
    def __init__(self, env: Env, seed: int):
        self._space = env.action_space
        self._space.seed(seed)

    async def act(self, observation: list[Message]) -> Action:
        return self._space.sample()


class RandomPolicy:
    """Calls random tools with random arguments of the right types."""

    name = "random"

    def player(self, env: Env, seed: int) -> Player:
        """Return a player that samples from `env.action_space`."""
        return _Random(env, seed)


class _Silent:
    async def act(self, observation: list[Message]) -> Action:
        return ""


class SilentPolicy:
    """Says nothing, turn after turn: the floor that every environment's reward must respect."""

    name = "silent"

    def player(self, env: Env, seed: int) -> Player:
        """Return a player that says nothing."""
        return _Silent()


class _Asked:
    def __init__(self, ask: Callable[[list[Message]], Awaitable[Action | None]]):
        self._ask = ask

    async def act(self, observation: list[Message]) -> Action | None:
        return await self._ask(observation)


class FunctionPolicy:
    """Plays what a function of the observation returns: a model endpoint, a human, a rule.

    Args:
        name: What reports call it.
        ask: `(messages) -> action`, plain or `async def`; is given the whole conversation so far.
        history: What it is given of that conversation, e.g. `agentgym.history.shorten_observations`; all if not given.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[list[Message]], Any],
        history: Callable[[list[Message]], list[Message]] | None = None,
    ):
        self.name = name
        self._ask, self._history = ask, history

    def player(self, env: Env, seed: int) -> Player:
        """Return a player that keeps the conversation and asks the function."""
        conversation: list[Message] = []

        async def ask(observation: list[Message]) -> Action | None:
            conversation.extend(observation)
            action = self._ask(self._history(conversation) if self._history else conversation)
            action = await action if asyncio.iscoroutine(action) else action
            if action is not None:
                said: Any = {"role": "assistant", "content": action} if isinstance(action, str) else action
                conversation.append(said)
            return action

        return _Asked(ask)
