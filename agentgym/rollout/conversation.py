"""`Conversation`: a token policy's side of an episode."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from math import inf
from typing import Any, Self

from agentgym.base.errors import BrokenTask, InfrastructureError, ScriptFailed, UsageError
from agentgym.base.fields import is_count, is_counts, is_number, is_numbers
from agentgym.core.dialects.text import THINK
from agentgym.core.endings import Reason
from agentgym.core.engine.drive import close_unbegun
from agentgym.core.engine.spaces import Action
from agentgym.core.foreign import apart, describe, ends_work, running_task
from agentgym.core.messages import Message, deep_copy, shown_pictures
from agentgym.core.policy import Codec, EndEpisode, Generation, Player, SeeingPolicy, StreamingPolicy, TokenPolicy
from agentgym.core.trajectory import Tokens
from agentgym.rollout.limits import Limits, within

_log = logging.getLogger(__name__)

PATIENCE = 4
"""A token policy counts as stuck after this many time limits: it cuts off its turns itself and may queue them first."""


async def asked(question: Any, policy: str) -> Any:
    """Await a policy. Its exceptions become `InfrastructureError`, except those that name another cause."""
    try:
        return await apart(_answer(question, policy))
    finally:
        if inspect.iscoroutine(question):
            close_unbegun(question)


async def _answer(question: Any, policy: str) -> Any:
    task = running_task()
    try:
        return await question
    except (BrokenTask, EndEpisode, InfrastructureError, ScriptFailed, TimeoutError, UsageError):
        raise
    except BaseException as error:
        if ends_work(error, task):
            raise
        raise InfrastructureError(f"policy {policy!r}: {describe(error)}") from error


async def acted(player: Player, observation: list[Message], policy: str) -> Action | None:
    """Return a copy of a player's action; the player also sees copies of the messages.

    Raises:
        InfrastructureError: `act` is not `async def` or returns something other than an action.
    """
    work: Any = player.act(deep_copy(observation))
    if not inspect.isawaitable(work):
        raise InfrastructureError(f"policy {policy!r}: act() must be `async def`")
    action: Any = await work
    if action is None:
        return None
    if isinstance(action, str):
        return str.__str__(action)  # subclasses become plain text, which any process can read
    if isinstance(action, Mapping):
        return _as_data(action, policy)
    raise InfrastructureError(
        f"policy {policy!r} acted with a {type(action).__name__}; an action is text, an assistant message, or None to "
        "give up"
    )


def _as_data(message: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """Return an assistant message as JSON data."""
    try:
        return json.loads(json.dumps(message, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise InfrastructureError(
            f"policy {policy!r} acted with a message that is not JSON data: {describe(error)}"
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot write {type(value).__name__!r} as JSON")


def usage_of(player: Player, policy: str) -> dict[str, float]:
    """Return the usage that a player reports. Values that are not numbers are dropped with a warning."""
    try:
        usage = dict(getattr(player, "usage", {}))
    except Exception as error:
        _log.warning("cannot read the usage of policy %s: %s", policy, describe(error))
        return {}
    if wrong := [name for name, used in usage.items() if not is_number(used)]:
        _log.warning("the usage %r of policy %s is left out: it is not a finite number", wrong[0], policy)
    return {name: used for name, used in usage.items() if name not in wrong}


def turn_limit(limits: Limits, left_s: float) -> tuple[float | None, Reason]:
    """Return a token policy's time limit for a turn in seconds, and how the episode ends when it is reached.

    Args:
        limits: Its own limit, if any.
        left_s: Seconds left for the whole episode.
    """
    own_s = limits.generation_timeout_s or inf
    limit_s = min(own_s, max(left_s, 0.0))
    return None if limit_s == inf else limit_s, Reason.GENERATION_TIME if limit_s == own_s else Reason.TIME


def patience_s(limits: Limits, turn_s: float | None) -> float | None:
    """Return the seconds after which a token policy counts as stuck in a turn with a time limit of `turn_s` seconds.

    A busy policy does not count as stuck only because the episode has little time left.
    """
    whole_s = limits.generation_timeout_s or limits.episode_timeout_s
    return None if turn_s is None else PATIENCE * max(turn_s, whole_s or 0)


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

    def tokens_left(self) -> int | Reason:
        """Return the most tokens for the next turn, or the reason why there can be no further turn."""
        tokens, limits = self.tokens, self._limits
        max_tokens = min(limits.max_new_tokens, self._policy.context - len(tokens) - self._picture_tokens)
        if max_tokens < 1:
            return Reason.CONTEXT
        if limits.max_tokens is not None:
            max_tokens = min(max_tokens, limits.max_tokens - tokens.sampled)
        return max_tokens if max_tokens > 0 else Reason.TOKEN_BUDGET

    async def sample(
        self,
        max_tokens: int,
        session: str,
        limit_s: float | None,
        on_tokens: Callable[[Sequence[int]], None] | None = None,
    ) -> Generation:
        """Return the next turn, cut off at its time limit. It is not part of the conversation until `say`.

        Args:
            max_tokens: The most tokens to sample.
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
        turn = asked(policy.generate(history, max_tokens, session, timeout_s=limit_s, **more), policy.name)
        generation = await within(
            turn, patience_s(self._limits, limit_s), Reason.INFRASTRUCTURE, "a turn of the policy"
        )
        if problem := _problem(generation, max_tokens):
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


def _problem(generation: Any, max_tokens: int) -> str | None:
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
    if len(generation.ids) > max_tokens:
        return f"sampled {len(generation.ids)} ids, more than the {max_tokens} allowed"
    if not generation.ids and generation.finish != "time":
        return "sampled nothing, not even the end of its turn"
    return None
