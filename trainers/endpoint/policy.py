"""`EndpointPolicy`: a model behind an OpenAI-compatible chat endpoint, for evaluation only."""

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
"""The dialect that sends tool schemas to the endpoint and receives calls as parts of messages."""

_NAME = re.compile(r"openai:(.+?)@(https?://\S+)")
_STRIDE = 1_000_003
_LOOK_AGAIN_S = 0.05
_log = logging.getLogger(__name__)

History = Callable[[list[Message]], list[Message]]


class EndpointPolicy:
    """Plays with the endpoint's native tool calling in environments with `dialect="native"`, otherwise with text.

    The model's mistakes (arguments that are not JSON, an unknown tool) reach the environment, which explains them. A
    failing endpoint raises `InfrastructureError`; an endpoint that rejects every request raises `UsageError`. Each
    action is the assistant message with its `finish_reason`, "length" for a turn that was cut off.

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
        """Kinds of turns that have been answered: `False` for first turns, `True` for later ones."""
        self.reasoning_field = "reasoning_content"
        """The field of the endpoint's answers that holds their reasoning."""

    @property
    def usage(self) -> EndpointUsage:
        """Requests, tokens and costs so far."""
        return self.client.account.usage

    def account(self) -> str:
        """Return the usage in one line."""
        return self.client.account.summary()

    def pay_into(self, other: EndpointPolicy) -> None:
        """From now on, charge usage to the account and budget of another policy for the same model."""
        self.client.account = other.client.account

    def player(self, seat: Seat) -> Player:
        """Return a player with a new conversation."""
        return _EndpointPlayer(self, seat, ())

    def resume(self, seat: Seat, past: Past) -> Player:
        """Return a player whose conversation begins with `past`. Its usage does not include `past`."""
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
            await self._wait_for_others(error)
            raise self._declined(error) from error
        self._policy.answered.add(self._turns > 1)
        self._policy.reasoning_field = answer.reasoning_field or self._policy.reasoning_field
        self._count(answer)
        action: Any = with_call_ids(answer.message, self._ids)
        self._conversation.append(action)
        return action

    def _request(self) -> dict[str, Any]:
        self._turns += 1
        # With the same seed in each turn, similar turns would become equal.
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
        """Whether the endpoint has answered other requests, so that it declines the conversation and not the settings.

        For a refusal that is not about length or content, only answers to turns of the same kind count.
        """
        usage = self._policy.usage
        if isinstance(error, ConversationRefused):
            return (self._turns > 1) in self._policy.answered
        return bool(usage.requests or usage.cached)

    async def _wait_for_others(self, error: Declined) -> None:
        """Wait until a request in flight is answered, or none is left: refusals arrive sooner than answers."""
        with off_the_clock():
            while self._policy.client.under_way and not self._is_answered(error):
                await asyncio.sleep(_LOOK_AGAIN_S)

    def _declined(self, error: Declined) -> Exception:
        """Return the error that ends the episode, or the run if no request has been answered yet."""
        if isinstance(error, ConversationRefused):
            return (InfrastructureError if self._is_answered(error) else UsageError)(str(error))
        usage, is_filtered = self._policy.usage, isinstance(error, ContentFiltered)
        if not self._is_answered(error):
            if is_filtered:
                return UsageError(f"the endpoint's filter rejects the first prompt: {error}; use another endpoint")
            return UsageError(f"the first prompt does not fit: {error}; lower --max-new-tokens, or serve more context")
        usage.filtered += is_filtered
        usage.overflows += not is_filtered
        problem = "the endpoint's filter rejects the conversation" if is_filtered else "the conversation no longer fits"
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
    """Return the fields that all requests of an episode share."""
    settings = policy.settings
    fields: dict[str, Any] = {"model": policy.model, **_sampling(settings)}
    if native and len(seat.tools):
        fields["tools"] = seat.tools.schemas
        if settings.forbid_parallel_calls and seat.max_calls == 1:
            fields["parallel_tool_calls"] = False
    return fields


def _sampling(settings: EndpointSettings) -> dict[str, Any]:
    fields = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        settings.max_tokens_field: settings.max_tokens,
        "stop": settings.stop,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _name(model: str, settings: EndpointSettings) -> str:
    """Return the policy's name. It includes the sampling, so that no results file mixes two settings."""
    fields: Mapping[str, Any] = {**_sampling(settings), **settings.extra_body}
    sampling = [
        f"{name}={value if isinstance(value, int | float) else json.dumps(value)}" for name, value in fields.items()
    ]
    return " ".join([f"openai:{model}", *sampling])


def load(name: str, words: Sequence[str], defaults: Mapping[str, Any]) -> EndpointPolicy:
    """Return the policy `openai:MODEL@URL`.

    Args:
        name: The name.
        words: The values of `--endpoint`.
        defaults: Settings that `words` override.

    Raises:
        MissingExtra: aiohttp is not installed.
        UsageError: The name or a setting cannot be used.
    """
    require("aiohttp", "endpoint")
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"{name!r} must be openai:MODEL@URL, such as openai:my-model@http://localhost:8000/v1")
    return EndpointPolicy(match[1], match[2], read_settings(words, defaults))
