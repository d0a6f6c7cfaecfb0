"""The client of an endpoint: paces, retries, counts and caches requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import os
import random
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.counts import count_of
from agentgym.errors import InfrastructureError, UsageError
from agentgym.retrying import doubled_s, retry_after_s
from agentgym.rollout.deadlines import off_the_clock
from agentgym.trainers.endpoint.connection import (
    EndpointSecrets,
    HttpConnection,
    Lost,
    Response,
    completions_url,
    headers_of,
)
from agentgym.trainers.endpoint.failures import asked_wait_s, may_pass, reason_of, refusal, with_true_status
from agentgym.trainers.endpoint.limits import Account, RateLimiter, RequestPace, Tries
from agentgym.trainers.endpoint.settings import EndpointSettings
from agentgym.trainers.endpoint.wire import Answer, UnreadableAnswer, read_answer

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
