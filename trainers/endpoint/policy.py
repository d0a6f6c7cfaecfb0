"""`EndpointPolicy`: a model behind an OpenAI-compatible chat endpoint, for evaluation only."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import os
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.base.choices import count_of
from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.base.retries import doubled_s, retry_after_s
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.messages import Message, assistant, with_call_ids
from agentgym.core.policy import EndEpisode, Past, Player, Seat
from agentgym.rollout.limits import off_the_clock
from agentgym.trainers.endpoint.connection import (
    EndpointSecrets,
    HttpConnection,
    Lost,
    Response,
    completions_url,
    headers_of,
)
from agentgym.trainers.endpoint.failures import (
    ContentFiltered,
    ConversationRefused,
    Declined,
    asked_wait_s,
    may_pass,
    reason_of,
    refusal,
    with_true_status,
)
from agentgym.trainers.endpoint.limits import Account, EndpointUsage, RateLimiter, RequestPace, Tries
from agentgym.trainers.endpoint.settings import EndpointSettings, read_settings
from agentgym.trainers.endpoint.wire import (
    Answer,
    UnreadableAnswer,
    Wire,
    as_text,
    read_answer,
    with_calls,
    with_system,
)

_SILENCE_S = 60.0
"""Seconds between two log lines about failures."""
_log = logging.getLogger(__name__)
_CHARS_PER_TOKEN = 4
"""For estimates before the endpoint reports its count."""


class _MayPass(Exception):
    """A failure after which the request may be retried, `wait_s` seconds later at the earliest."""

    def __init__(self, problem: str, wait_s: float = 0.0, *, limited: bool = False):
        super().__init__(problem)
        self.wait_s, self.limited = wait_s, limited


class EndpointClient:
    """One endpoint and one model, for any number of concurrent conversations.

    Args:
        model: The model's name.
        url: The endpoint's base URL; `/chat/completions` is appended if it does not end with it.
        settings: Sampling, limits, prices, cache.
    """

    def __init__(self, model: str, url: str, settings: EndpointSettings):
        self.account = Account(model, settings)
        self._url = completions_url(url)
        self._settings, self._headers = settings, headers_of(settings)
        self._secrets = EndpointSecrets(self._headers)
        self._cache = None if settings.cache is None else AnswerCache(settings.cache)
        self._rates = _rate(settings.requests_per_minute), _rate(settings.tokens_per_minute)
        self.under_way = 0
        """Requests in flight."""
        self._jitter = random.Random()
        self._next_line_s = -math.inf
        self._local: tuple[asyncio.AbstractEventLoop, HttpConnection, RequestPace] | None = None

    async def complete(self, request: Mapping[str, Any], seed: int) -> Answer:
        """Return the answer to a request.

        Args:
            request: The body of the request.
            seed: The player's seed, which distinguishes attempts in the cache.

        Raises:
            InfrastructureError: The endpoint gave no usable answer in any try.
            Declined: The endpoint rejects this conversation.
            UsageError: The endpoint rejects all such requests, or a budget is spent.
        """
        # Lone surrogates, which models do produce, cannot be sent.
        body = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")
        if self._cache is None:
            return await self._request(body)
        key = self._cache.key(self._url, body, seed)
        if (cached := self._cached(key)) is not None:
            return replace(cached, cost=self.account.add_cached())
        return await self._request(body, key)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._local is not None:
            await self._local[1].aclose()
            self._local = None

    def _cached(self, key: str) -> Answer | None:
        """Return the cached answer. An unreadable entry counts as a miss."""
        body = None if self._cache is None else self._cache.get(key)
        try:
            return None if body is None else read_answer(body)
        except UnreadableAnswer:
            return None

    async def _request(self, body: bytes, key: str | None = None) -> Answer:
        """Send a request until it is answered or no retry is left."""
        tries = Tries(self._settings.retries, self._settings.longest_wait_s, self.account.usage.requests)
        while True:
            self.account.usage.retries += tries.count > 0
            try:
                response, answer = await self._try(body)
            except _MayPass as failure:
                if not tries.may_repeat(self.account.usage.requests, limited=failure.limited):
                    count = count_of(tries.count, "try", "tries")
                    raise InfrastructureError(
                        f"{self._url} gave no usable answer in {count}; at last: {failure}"
                    ) from None
                self._report(failure)
                tries.add_wait(await self._wait(tries.count - 1, failure))
                continue
            if self._cache is not None and key is not None:
                self._cache.put(key, response.body)
            return answer

    async def _try(self, body: bytes) -> tuple[Response, Answer]:
        """Send a request once. Raises `_MayPass` if it may be retried."""
        connection, pace = self._of_this_loop()
        expected = len(body) // _CHARS_PER_TOKEN
        async with pace.place(expected):
            self.account.check()
            self.under_way += 1
            try:
                response = await connection.post(body)
            except asyncio.CancelledError:
                self.account.usage.broken_off += 1
                raise
            except Lost as error:
                raise _MayPass(self._secrets.hidden(str(error))) from error
            finally:
                self.under_way -= 1
        # Before anything else: a key that is cut off in a shortened message would not be recognised.
        response = with_true_status(replace(response, body=self._secrets.hidden_in_answer(response.body)))
        if not 200 <= response.status < 300:
            raise self._failure(response, pace)
        try:
            answer = read_answer(response.body)
        except UnreadableAnswer as error:
            if error.tokens is not None:
                self.account.pay(error.tokens)
            raise _MayPass(self._secrets.hidden(str(error))) from error
        answer = replace(answer, cost=self.account.add(answer))
        if answer.tokens is not None:
            pace.used(answer.tokens.total, expected)
        return response, answer

    def _failure(self, response: Response, pace: RequestPace) -> Exception:
        if not may_pass(response):
            error = refusal(response, self._url, self._settings.key, self._settings.pictures)
            return type(error)(self._secrets.hidden(str(error)))
        wait_s = max(retry_after_s(response.headers), asked_wait_s(response))
        problem = self._secrets.hidden(f"HTTP {response.status}: {reason_of(response)}")
        if wait_s > self._settings.longest_wait_s:
            return InfrastructureError(
                f"{self._url} asks to wait {wait_s:.0f} s, more than longest_wait_s "
                f"({self._settings.longest_wait_s:g}): {problem}"
            )
        pace.pause(wait_s)
        return _MayPass(problem, wait_s, limited=response.status == 429)

    def _report(self, failure: _MayPass) -> None:
        """Log a failure once a minute, so that a waiting run does not look like a hanging one."""
        if time.monotonic() >= self._next_line_s:
            self._next_line_s = time.monotonic() + _SILENCE_S
            _log.warning("retrying %s: %s", self._url, failure)

    async def _wait(self, attempt: int, failure: _MayPass) -> float:
        """Wait before a retry; return the seconds. Jitter spreads requests that failed together."""
        longest = doubled_s(self._settings.first_wait_s, attempt, self._settings.longest_wait_s)
        with off_the_clock():
            share = self._jitter.uniform(0.5 if not failure.wait_s else 0.0, 1.0)
            wait_s = failure.wait_s + longest * share
            await asyncio.sleep(wait_s)
        return wait_s

    def _of_this_loop(self) -> tuple[HttpConnection, RequestPace]:
        """Return the connection and the limits of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._local is None or self._local[0] is not loop:
            settings = self._settings
            connection = HttpConnection(self._url, self._headers, settings.timeout_s, settings.connect_timeout_s)
            self._local = loop, connection, RequestPace(settings.concurrency, *self._rates)
        return self._local[1], self._local[2]


class AnswerCache:
    """A folder of answers, so that a repeated run pays only for new requests. Several processes may share it.

    Args:
        folder: The folder, which is created if it does not exist.

    Raises:
        UsageError: The folder cannot be created.
    """

    def __init__(self, folder: str | Path):
        self._folder = Path(folder).expanduser()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"the endpoint's cache {str(folder)!r} cannot be created: {error.strerror}") from error

    def key(self, url: str, request: bytes, seed: int) -> str:
        """Return the key of a request; `seed` differs between attempts."""
        return hashlib.sha256(b"\0".join((url.encode(), str(seed).encode(), request))).hexdigest()

    def get(self, key: str) -> bytes | None:
        """Return the cached answer to a request, or `None`."""
        try:
            return self._path(key).read_bytes()
        except OSError:
            return None

    def put(self, key: str, answer: bytes) -> None:
        """Store an answer. Raises `UsageError` if it cannot be written."""
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(answer)
            os.replace(file.name, path)
        except OSError as error:
            raise UsageError(
                f"the endpoint's cache {str(self._folder)!r} cannot be written: {error.strerror}"
            ) from error

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"


def _rate(per_minute: float | None) -> RateLimiter | None:
    return None if per_minute is None else RateLimiter(per_minute)


NATIVE = "native"
"""The dialect that sends tool schemas to the endpoint and receives calls as parts of messages."""

_NAME = re.compile(r"openai:(.+?)@(https?://\S+)")
_BASE_URL = "OPENAI_BASE_URL"
"""The environment variable with the address of `openai:MODEL`, as in OpenAI's own client."""
_STRIDE = 1_000_003
_LOOK_AGAIN_S = 0.05

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
        history: Transforms the conversation before it is sent, e.g. `agentgym.core.history.shorten_observations`.

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
    """Return the policy `openai:MODEL@URL`, or `openai:MODEL` at the address in `OPENAI_BASE_URL`.

    Args:
        name: The name.
        words: The values of `--endpoint`.
        defaults: Settings that `words` override.

    Raises:
        MissingExtra: aiohttp is not installed.
        UsageError: The name or a setting cannot be used.
    """
    require("aiohttp", "endpoint")
    url = os.environ.get(_BASE_URL, "")
    match = _NAME.fullmatch(name if "@" in name else f"{name}@{url}")
    if match is None:
        raise UsageError(
            f"{name!r} must be openai:MODEL@URL, such as openai:my-model@http://localhost:8000/v1, or openai:MODEL "
            f"with the URL in {_BASE_URL}" + (f", which is now {url!r}" if url else ", which is not set")
        )
    return EndpointPolicy(match[1], match[2], read_settings(words, defaults))
