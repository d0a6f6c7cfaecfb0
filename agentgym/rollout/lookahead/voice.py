"""`Voice`: the policy's side of a line of play, which can branch."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol, TypeVar

from agentgym.core.dialects import get_dialect
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action, Finish, as_played, text_in
from agentgym.core.messages import Message, user
from agentgym.core.policy import ChatPolicy, EndEpisode, Past, Player, ResumablePolicy, Seat, TokenPolicy
from agentgym.core.trajectory import Tokens
from agentgym.rollout.conversation import Conversation, acted, asked, turn_limit, usage_of
from agentgym.rollout.limits import Limits, within
from agentgym.rollout.lookahead.cost import SearchCost
from agentgym.rollout.workers.base import EpisodeOpening

_T = TypeVar("_T")


class Voice(Protocol):
    """The policy's state on a line."""

    @property
    def branches(self) -> bool:
        """Whether `say` can be called several times, so that the line can branch."""
        ...

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of the line; `None` if the policy speaks in messages."""
        ...

    async def say(self, key: str, left_s: float) -> TurnSample:
        """Return a turn.

        Args:
            key: Identifies the sample. A seeded policy returns the same sample for the same key.
            left_s: Seconds left for the search, after which a token policy's turn is cut off.
        """
        ...

    def hear(self, observation: list[Message]) -> None:
        """Add the environment's answer to the turn that led to this voice."""
        ...


@dataclass(frozen=True, eq=False)
class TurnSample:
    """A sampled turn of the policy, before it is played."""

    voice: Voice
    """The voice after the turn."""
    action: Action | None
    reason: Reason | None = None
    """Why the episode ends here, if it does."""
    span: tuple[int, int] | None = None
    usage: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    finish: Finish | None = None
    """How the turn ended, if the policy samples tokens."""
    share: float = 1.0
    """Share of equal samples among those drawn at this point."""

    @property
    def move(self) -> Action | None:
        """The action as an environment plays it (`Turn.move`)."""
        return as_played(self.action, self.finish, self.span)


class TokenVoice:
    """The conversation of a token policy."""

    branches = True

    def __init__(self, policy: TokenPolicy, limits: Limits, cost: SearchCost, conversation: Conversation):
        self._policy, self._limits, self._cost, self._conversation = policy, limits, cost, conversation

    @classmethod
    def opening(cls, policy: TokenPolicy, limits: Limits, cost: SearchCost, opening: EpisodeOpening) -> TokenVoice:
        """Return the voice that has read the opening messages."""
        conversation = Conversation(policy, limits)
        cost.observed_tokens += len(conversation.begin(opening.messages, opening.tools))
        return cls(policy, limits, cost, conversation)

    @property
    def tokens(self) -> Tokens:
        """The tokens of the line."""
        return self._conversation.tokens

    async def say(self, key: str, left_s: float) -> TurnSample:
        """Sample a turn."""
        max_tokens = self._conversation.tokens_left()
        if isinstance(max_tokens, Reason):
            return TurnSample(self, None, max_tokens)
        try:
            limit_s, late = turn_limit(self._limits, left_s)
            generation = await self._conversation.sample(max_tokens, key, limit_s)
        finally:
            self._policy.release(key)
        self._cost.sampled_tokens += len(generation.ids)
        mine = self._conversation.copy()
        text, span = mine.say(generation)
        reason = late if generation.finish == "time" else None
        voice = TokenVoice(self._policy, self._limits, self._cost, mine)
        return TurnSample(voice, text, reason, span, finish=generation.finish)

    def hear(self, observation: list[Message]) -> None:
        """Add the tokens of the observation."""
        before = len(self.tokens)
        self._conversation.hear(observation)
        self._cost.observed_tokens += len(self.tokens) - before


class ChatVoice:
    """The messages so far. A policy that cannot resume has one player and can play only one line."""

    tokens = None

    def __init__(
        self,
        policy: ChatPolicy | None,
        limits: Limits,
        cost: SearchCost,
        opening: EpisodeOpening,
        player: Player | None = None,
        name: str = "",
    ):
        self._policy, self._limits, self._cost, self._opening, self._player = policy, limits, cost, opening, player
        self._name = policy.name if policy is not None else name
        self._past: Past = ()
        self._observation = opening.messages

    @property
    def branches(self) -> bool:
        """Whether the policy can continue from the middle of an episode."""
        return self._player is None and isinstance(self._policy, ResumablePolicy)

    async def say(self, key: str, left_s: float) -> TurnSample:
        """Ask for a turn."""
        player = self._player_for(key)
        before = usage_of(player, self._name)
        turn = within(
            asked(acted(player, self._observation, self._name), self._name),
            self._limits.generation_timeout_s,
            Reason.INFRASTRUCTURE,
            "a turn of the policy",
        )
        reason, action = None, None
        try:
            action = await turn
            reason = Reason.GAVE_UP if action is None else None
        except EndEpisode as end:
            reason = end.reason
        usage = {name: value - before.get(name, 0) for name, value in usage_of(player, self._name).items()}
        self._cost.add(usage)
        return TurnSample(self if action is None else self._after(action), action, reason, usage=usage)

    def hear(self, observation: list[Message]) -> None:
        """Store the observation."""
        self._observation = observation

    def _player_for(self, key: str) -> Player:
        if self._player is not None:
            return self._player
        assert self._policy is not None
        opening = self._opening
        seat = Seat.of(opening.tools, opening.dialect, seed_from(key), opening.max_calls)
        if isinstance(self._policy, ResumablePolicy):
            return self._policy.resume(seat, self._past)
        self._player = self._policy.player(seat)
        return self._player

    def _after(self, action: Action) -> ChatVoice:
        after = ChatVoice(self._policy, self._limits, self._cost, self._opening, self._player, self._name)
        after._past = (*self._past, (self._observation, action))
        return after


def seed_from(key: str) -> int:
    """Return a 31-bit seed derived from a text."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") >> 1


async def together(work: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run coroutines concurrently and return their results in order. Raises the first error."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def answer_of(policy: ChatPolicy | TokenPolicy, question: str, key: str, limits: Limits, cost: SearchCost) -> str:
    """Return a policy's answer; empty if it gives none or the question exceeds its context.

    Args:
        policy: The policy to ask.
        question: The question.
        key: Identifies the question. The seed derives from it.
        limits: Limits of the answer.
        cost: Counts the cost of the answer.

    Raises:
        InfrastructureError: The policy failed.
    """
    opening = EpisodeOpening([user(question)], [], get_dialect("native"))
    voice = (
        TokenVoice.opening(policy, limits, cost, opening)
        if isinstance(policy, TokenPolicy)
        else ChatVoice(policy, limits, cost, opening)
    )
    sample = await voice.say(key, inf)
    return "" if sample.action is None else text_in(sample.action)
