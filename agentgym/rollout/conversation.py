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
"""At most so many tokens make up `<think>` and the line break after it."""


class Conversation:
    """The tokens of one episode, and the pictures that the policy has seen.

    Args:
        policy: Samples the turns.
        limits: Limits of the episode.
        codec: Its codec, if it has one of its own; by default the policy's.
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
        """Return how many tokens the next turn may have, or the reason why it may have none."""
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
            InfrastructureError: The policy broke, took far too long or returned nothing.
        """
        tokens, policy = self.tokens, self._policy
        more: dict[str, Any] = {"pictures": tuple(self._pictures)} if self._pictures else {}
        if on_tokens is not None and isinstance(policy, StreamingPolicy) and policy.streams:
            more["on_tokens"] = on_tokens
        history = tokens.prompt_ids + tokens.completion_ids
        turn = asked(policy.generate(history, room, session, timeout_s=limit_s, **more), policy.name)
        said = await within(turn, patience_s(self._limits, limit_s), Reason.INFRASTRUCTURE, "a turn of the policy")
        if problem := _problem(said, room):
            raise InfrastructureError(f"policy {policy.name!r} {problem}")
        return said

    def say(self, said: Generation) -> tuple[str, tuple[int, int]]:
        """Add a turn; return its text and its place in the tokens."""
        text = self.turn_prefix() + self._codec.decode(said.ids)
        return text, self.tokens.append_sampled(said.ids, said.logprobs, said.version)

    def turn_prefix(self) -> str:
        """Return what the text of the next turn begins with besides its tokens.

        If the prompt has opened the reasoning, so does the text: calls in it are no calls.
        """
        last = (self.tokens.completion_ids or self.tokens.prompt_ids)[-_TOKENS_OF_THINK:]
        return f"{THINK}\n" if self._codec.decode(last).rstrip().endswith(THINK) else ""

    def hear(self, observation: list[Message]) -> None:
        """Add what follows the last turn."""
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
            raise InfrastructureError(f"the codec of policy {self._policy.name!r} gave no list of whole numbers from 0")
        return ids

    def _see(self, messages: list[Message]) -> None:
        """Keep the pictures in messages for a policy that sees. The codec tells others in words."""
        if self._eyes is not None and (shown := shown_pictures(messages)):
            self._pictures += shown
            self._picture_tokens += sum(map(self._eyes.picture_tokens, shown))


def _problem(said: Any, room: int) -> str | None:
    """Return what is wrong with a turn that a policy sampled: it could not be recorded, or trained on."""
    if not isinstance(said, Generation):
        return f"sampled a {type(said).__name__}, not a Generation"
    ids, logprobs = (list(given) if type(given) is tuple else given for given in (said.ids, said.logprobs))
    if not is_counts(ids):
        return "sampled ids that are no list of whole numbers from 0"
    if not is_numbers(logprobs):
        return "sampled log-probabilities that are no list of finite numbers"
    if len(said.logprobs) != len(said.ids):
        return f"sampled {len(said.ids)} ids, with {len(said.logprobs)} log-probabilities"
    if not is_count(said.version):
        return f"sampled with the version {said.version!r}, which is no whole number from 0"
    if len(said.ids) > room:
        return f"sampled {len(said.ids)} ids, of which at most {room} were asked for"
    if not said.ids and said.finish != "time":
        return "sampled nothing, not even the end of its turn"
    return None
