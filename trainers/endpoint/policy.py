"""`EndpointPolicy`: a model behind an OpenAI-compatible chat endpoint. It can be evaluated, but not trained."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.spaces import Action
from agentgym.errors import InfrastructureError, UsageError, require
from agentgym.messages import Message, assistant, with_call_ids
from agentgym.policy import EndEpisode, Past, Player
from agentgym.rollout.deadlines import off_the_clock
from agentgym.seat import Seat
from agentgym.trainers.endpoint.client import EndpointClient
from agentgym.trainers.endpoint.failures import ContentFiltered, ConversationRefused, Declined
from agentgym.trainers.endpoint.limits import EndpointUsage
from agentgym.trainers.endpoint.settings import EndpointSettings, read_settings
from agentgym.trainers.endpoint.wire import Answer, Wire, as_text, with_calls, with_system

NATIVE = "native"
"""The dialect in which the endpoint is given the tools' schemas and calls are parts of messages."""

_NAME = re.compile(r"openai:(.+?)@(https?://\S+)")
_STRIDE = 1_000_003
_LOOK_AGAIN_S = 0.05
_log = logging.getLogger(__name__)

History = Callable[[list[Message]], list[Message]]


class EndpointPolicy:
    """Plays with the endpoint's own tool calling in environments with `dialect="native"`, else with text.

    What the model gets wrong (arguments that are no JSON, a wrong name) is played as it is; the environment explains
    it. A failing endpoint is an `InfrastructureError`, and one that refuses every request a `UsageError`. Each action
    is the assistant message with its `finish_reason`: "length" if the turn was cut off.

    Args:
        model: The model's name.
        url: The endpoint's base URL, e.g. `"http://localhost:8000/v1"`.
        settings: Sampling, limits, prices, cache.
        history: Transforms the conversation before it is sent, e.g. `agentgym.history.shorten_observations`.

    Raises:
        MissingExtra: aiohttp is not installed.
        UsageError: The URL or the settings cannot be used.
    """

    def __init__(self, model: str, url: str, settings: EndpointSettings | None = None, history: History | None = None):
        require("aiohttp", "endpoint")
        self.settings = settings or EndpointSettings()
        self.name = _name(model, self.settings)
        self.model, self.history = model, history
        self.client = EndpointClient(model, url, self.settings)
        self.answered: set[bool] = set()
        """Whether a first turn has been answered (`False`), and whether a later one (`True`)."""
        self.reasoning_field = "reasoning_content"
        """The field in which the endpoint's answers have their reasoning, as far as is known."""

    @property
    def usage(self) -> EndpointUsage:
        """Requests, tokens and costs so far."""
        return self.client.account.usage

    def account(self) -> str:
        """Return the usage in one line."""
        return self.client.account.summary()

    def pay_into(self, other: EndpointPolicy) -> None:
        """Count usage on the account of another policy for the same model from now on, and keep to its budget."""
        self.client.account = other.client.account

    def player(self, seat: Seat) -> Player:
        """Return a player with a conversation of its own."""
        return _EndpointPlayer(self, seat, ())

    def resume(self, seat: Seat, past: Past) -> Player:
        """Return a player whose conversation begins with `past`, for which its usage does not count."""
        return _EndpointPlayer(self, seat, past)

    async def aclose(self) -> None:
        """Close the connections. They also close with the event loop, if `asyncio.run` ends it."""
        await self.client.aclose()


class _EndpointPlayer:
    def __init__(self, policy: EndpointPolicy, seat: Seat, past: Past):
        self._policy, self._seat = policy, seat
        self._native = seat.dialect.name == NATIVE
        self._fields = _fields(policy, seat, self._native)
        self._conversation: list[Message] = []
        self._ids: set[str] = set()
        self._turns = len(past)
        self.usage: defaultdict[str, float] = defaultdict(float)
        for observation, action in past:
            message: Any = assistant(action) if isinstance(action, str) else action
            self._conversation += [*observation, with_call_ids(message, self._ids)]

    async def act(self, observation: list[Message]) -> Action | None:
        self._conversation += observation
        try:
            answer = await self._policy.client.complete(self._request(), self._seat.seed)
        except Declined as error:
            await self._others_answered(error)
            raise self._declined(error) from error
        self._policy.answered.add(self._turns > 1)
        self._policy.reasoning_field = answer.reasoning_field or self._policy.reasoning_field
        self._count(answer)
        action: Any = with_call_ids(answer.message, self._ids)
        self._conversation.append(action)
        return action

    def _request(self) -> dict[str, Any]:
        self._turns += 1
        # The same seed in each turn would make similar turns equal.
        seed = {"seed": (self._seat.seed + self._turns * _STRIDE) % 2**31} if self._policy.settings.send_seed else {}
        return {**self._fields, **seed, **self._policy.settings.extra_body, "messages": self._sent()}

    def _count(self, answer: Answer) -> None:
        """Add what the endpoint reports to the episode's usage."""
        if (tokens := answer.tokens) is not None:
            self.usage["prompt_tokens"] += tokens.prompt
            self.usage["cached_prompt_tokens"] += tokens.cached
            self.usage["completion_tokens"] += tokens.completion
        if answer.cost is not None:
            self.usage["cost"] += answer.cost

    def _is_answered(self, error: Declined) -> bool:
        """Whether the endpoint has answered others, so that the settings are not what it declines.

        After refusals that are not about a conversation's length or content, a turn like this one counts.
        """
        usage = self._policy.usage
        if isinstance(error, ConversationRefused):
            return (self._turns > 1) in self._policy.answered
        return bool(usage.requests or usage.cached)

    async def _others_answered(self, error: Declined) -> None:
        """Wait until it is known whether others are answered: to decline takes no time, to answer does."""
        with off_the_clock():
            while self._policy.client.under_way and not self._is_answered(error):
                await asyncio.sleep(_LOOK_AGAIN_S)

    def _declined(self, error: Declined) -> Exception:
        """Return what ends the episode, or the run if no conversation has been answered yet."""
        if isinstance(error, ConversationRefused):
            return (InfrastructureError if self._is_answered(error) else UsageError)(str(error))
        usage, is_filtered = self._policy.usage, isinstance(error, ContentFiltered)
        if not self._is_answered(error):
            if is_filtered:
                return UsageError(f"the endpoint's filter refuses the first prompt: {error}; use another endpoint")
            return UsageError(f"the first prompt does not fit: {error}; lower --max-new-tokens, or serve more context")
        usage.filtered += is_filtered
        usage.overflows += not is_filtered
        problem = "the endpoint's filter refuses the conversation" if is_filtered else "the conversation no longer fits"
        _log.warning("%s: %s: %s", self._policy.name, problem, error)
        return EndEpisode(Reason.GAVE_UP if is_filtered else Reason.CONTEXT)

    def _sent(self) -> list[Wire]:
        policy, messages = self._policy, self._conversation
        messages = messages if policy.history is None else policy.history(messages)
        sees, keeps = policy.settings.pictures, policy.reasoning_field if policy.settings.reasoning == "keep" else None
        if self._native:
            sent = with_calls(messages, pictures=sees, reasoning=keeps)
        else:
            results = policy.settings.results
            sent = as_text(messages, self._seat, pictures=sees, reasoning=keeps, results=results)
        return with_system(sent, policy.settings.system)


def _fields(policy: EndpointPolicy, seat: Seat, native: bool) -> dict[str, Any]:
    """Return what all requests of an episode have in common."""
    settings = policy.settings
    fields: dict[str, Any] = {"model": policy.model, **_sampling(settings)}
    if native and len(seat.tools):
        fields["tools"] = seat.tools.schemas
        if settings.forbid_parallel_calls and seat.max_calls == 1:
            fields["parallel_tool_calls"] = False
    return fields


def _sampling(settings: EndpointSettings) -> dict[str, Any]:
    chosen = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        settings.max_tokens_field: settings.max_tokens,
        "stop": settings.stop,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def _name(model: str, settings: EndpointSettings) -> str:
    """Return the policy's name. It names the sampling: a file of trajectories is not continued with another."""
    chosen: Mapping[str, Any] = {**_sampling(settings), **settings.extra_body}
    sampling = [
        f"{name}={value if isinstance(value, int | float) else json.dumps(value)}" for name, value in chosen.items()
    ]
    return " ".join([f"openai:{model}", *sampling])


def load(name: str, words: Sequence[str], defaults: Mapping[str, Any]) -> EndpointPolicy:
    """Return the policy `openai:MODEL@URL`.

    Args:
        name: The name.
        words: The words of `--endpoint`.
        defaults: Settings that the words override.

    Raises:
        MissingExtra: aiohttp is not installed.
        UsageError: The name or a setting cannot be used.
    """
    require("aiohttp", "endpoint")
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"{name!r} must be openai:MODEL@URL, such as openai:my-model@http://localhost:8000/v1")
    return EndpointPolicy(match[1], match[2], read_settings(words, defaults))
