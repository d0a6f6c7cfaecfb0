"""`Conversation`: a token policy's side of an episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

from agentgym.dialects.text import THINK
from agentgym.endings import Reason
from agentgym.errors import InfrastructureError
from agentgym.messages import Message, shown_pictures
from agentgym.policy import Codec, Generation, SeeingPolicy, StreamingPolicy, TokenPolicy
from agentgym.records.fields import is_count, is_counts, is_numbers
from agentgym.rollout.asking import asked, patience_s
from agentgym.rollout.deadlines import within
from agentgym.rollout.limits import Limits
from agentgym.trajectory import Tokens

_TOKENS_OF_THINK = 12
"""Most tokens that `<think>` and the line break after it take."""


class Conversation:
    """The tokens of one episode, and the pictures that the policy has seen.

    Args:
        policy: Samples the turns.
        limits: Limits of the episode.
        codec: The codec of the conversation; by default the policy's.
    """

    def __init__(self, policy: TokenPolicy, limits: Limits, codec: Codec | None = None):
        self._policy, self._limits = policy, limits
        self._codec = codec or policy.codec
        self._eyes = policy if isinstance(policy, SeeingPolicy) and policy.sees else None
        self._pictures: list[bytes] = []
        self._picture_tokens = 0
        self.tokens = Tokens()

    def begin(self, messages: list[Message], tools: Sequence[Mapping[str, Any]]) -> Tokens:
        """Read the opening messages; return the tokens, which grow from now on."""
        self.tokens = Tokens(prompt_ids=self._checked(self._codec.open(messages, tools)))
        self._see(messages)
        return self.tokens

    def room(self) -> int | Reason:
        """Return the most tokens for the next turn, or the reason why there can be no further turn."""
        tokens, limits = self.tokens, self._limits
        room = min(limits.max_new_tokens, self._policy.context - len(tokens) - self._picture_tokens)
        if room < 1:
            return Reason.CONTEXT
        if limits.max_tokens is not None:
            room = min(room, limits.max_tokens - tokens.sampled)
        return room if room > 0 else Reason.TOKEN_BUDGET

    async def sample(
        self,
        room: int,
        session: str,
        limit_s: float | None,
        on_tokens: Callable[[Sequence[int]], None] | None = None,
    ) -> Generation:
        """Return the next turn, cut off at its time limit. It is not part of the conversation until `say`.

        Args:
            room: The most tokens to sample.
            session: Names the conversation to the policy.
            limit_s: Seconds after which the turn is cut off.
            on_tokens: Called with the tokens as they are sampled, if the policy streams (`StreamingPolicy`).

        Raises:
            InfrastructureError: The policy failed, took far too long or returned an invalid turn.
        """
        tokens, policy = self.tokens, self._policy
        more: dict[str, Any] = {"pictures": tuple(self._pictures)} if self._pictures else {}
        if on_tokens is not None and isinstance(policy, StreamingPolicy) and policy.streams:
            more["on_tokens"] = on_tokens
        history = tokens.prompt_ids + tokens.completion_ids
        turn = asked(policy.generate(history, room, session, timeout_s=limit_s, **more), policy.name)
        generation = await within(
            turn, patience_s(self._limits, limit_s), Reason.INFRASTRUCTURE, "a turn of the policy"
        )
        if problem := _problem(generation, room):
            raise InfrastructureError(f"policy {policy.name!r} {problem}")
        return generation

    def say(self, generation: Generation) -> tuple[str, tuple[int, int]]:
        """Add a turn; return its text and its place in the tokens."""
        text = self.turn_prefix() + self._codec.decode(generation.ids)
        return text, self.tokens.append_sampled(generation.ids, generation.logprobs, generation.version)

    def turn_prefix(self) -> str:
        """Return the text to put before the next turn's own: `<think>` if the prompt has opened the reasoning.

        Calls within reasoning do not count.
        """
        last = (self.tokens.completion_ids or self.tokens.prompt_ids)[-_TOKENS_OF_THINK:]
        return f"{THINK}\n" if self._codec.decode(last).rstrip().endswith(THINK) else ""

    def hear(self, observation: list[Message]) -> None:
        """Add the observation that follows the last turn."""
        ids = self._codec.extend(observation, self.tokens.completion_ids[-1])
        self.tokens.append_observed(self._checked(ids))
        self._see(observation)

    def copy(self) -> Self:
        """Return the same conversation, to be continued in another way."""
        other = copy(self)
        lists = {name: list(value) for name, value in vars(self.tokens).items()}
        other.tokens = replace(self.tokens, **lists)
        other._pictures = list(self._pictures)
        return other

    def _checked(self, ids: list[int]) -> list[int]:
        if not is_counts(ids):
            raise InfrastructureError(
                f"the codec of policy {self._policy.name!r} must return a list of whole numbers from 0"
            )
        return ids

    def _see(self, messages: list[Message]) -> None:
        """Keep the pictures in messages, if the policy sees. For other policies, the codec describes them."""
        if self._eyes is not None and (pictures := shown_pictures(messages)):
            self._pictures += pictures
            self._picture_tokens += sum(map(self._eyes.picture_tokens, pictures))


def _problem(generation: Any, room: int) -> str | None:
    """Return why a sampled turn could not be recorded or trained on, or `None`."""
    if not isinstance(generation, Generation):
        return f"sampled a {type(generation).__name__}, not a Generation"
    ids, logprobs = (
        list(values) if type(values) is tuple else values for values in (generation.ids, generation.logprobs)
    )
    if not is_counts(ids):
        return "sampled ids that are not a list of whole numbers from 0"
    if not is_numbers(logprobs):
        return "sampled log-probabilities that are not a list of finite numbers"
    if len(generation.logprobs) != len(generation.ids):
        return f"sampled {len(generation.ids)} ids, with {len(generation.logprobs)} log-probabilities"
    if not is_count(generation.version):
        return f"sampled with the version {generation.version!r}, which is not a whole number from 0"
    if len(generation.ids) > room:
        return f"sampled {len(generation.ids)} ids, more than the {room} allowed"
    if not generation.ids and generation.finish != "time":
        return "sampled nothing, not even the end of its turn"
    return None
