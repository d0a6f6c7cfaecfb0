"""Asks an endpoint: paced, repeated where that may help, counted, and answered from the cache where it can be."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import random
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from agentgym.counts import count_of
from agentgym.errors import InfrastructureError, UsageError
from agentgym.retrying import doubled_s, retry_after_s
from agentgym.rollout.deadlines import off_the_clock
from agentgym.trainers.endpoint.accounts import Account
from agentgym.trainers.endpoint.cache import AnswerCache
from agentgym.trainers.endpoint.connection import Connection, Lost, Response
from agentgym.trainers.endpoint.faults import as_told, asked_wait_s, may_pass, reason_of, refusal
from agentgym.trainers.endpoint.pacing import Pace, Rate
from agentgym.trainers.endpoint.patience import Patience
from agentgym.trainers.endpoint.reading import Answer, Unreadable, read_answer
from agentgym.trainers.endpoint.secrets import SECRET_NAME, Secrets
from agentgym.trainers.endpoint.settings import EndpointSettings

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_SILENCE_S = 60.0
"""Seconds between two lines about what is waited for."""
_log = logging.getLogger(__name__)
_CHARS_PER_TOKEN = 4
"""For estimates before the endpoint has counted."""


class _MayPass(Exception):
    """A failure after which the request may be repeated, after `wait_s` seconds at least."""

    def __init__(self, problem: str, wait_s: float = 0.0, *, limited: bool = False):
        super().__init__(problem)
        self.wait_s, self.limited = wait_s, limited


class Client:
    """One endpoint and one model, for any number of concurrent conversations.

    Args:
        model: The model's name.
        url: The endpoint's base URL; `/chat/completions` is appended if it does not end with it.
        settings: How it is asked.
    """

    def __init__(self, model: str, url: str, settings: EndpointSettings):
        self.account = Account(model, settings)
        self._url = completions_url(url)
        self._settings, self._headers = settings, _headers(settings)
        self._secrets = Secrets(self._headers)
        self._cache = None if settings.cache is None else AnswerCache(settings.cache)
        self._rates = _rate(settings.requests_per_minute), _rate(settings.tokens_per_minute)
        self.under_way = 0
        """Requests that have been sent and are not answered yet."""
        self._jitter = random.Random()
        self._tell_from = -math.inf
        self._home: tuple[asyncio.AbstractEventLoop, Connection, Pace] | None = None

    async def complete(self, request: Mapping[str, Any], seed: int) -> Answer:
        """Return the answer to a request.

        Args:
            request: The body of the request.
            seed: The player's seed, by which the cache tells attempts apart.

        Raises:
            InfrastructureError: The endpoint gave no usable answer in all tries.
            Declined: The endpoint does not go on with this conversation.
            UsageError: The endpoint refuses such requests, or a budget is spent.
        """
        # Lone surrogates, which models do produce, cannot be sent.
        body = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")
        if self._cache is None:
            return await self._ask(body)
        key = self._cache.key(self._url, body, seed)
        if (kept := self._kept(key)) is not None:
            return replace(kept, cost=self.account.add_cached())
        return await self._ask(body, key)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._home is not None:
            await self._home[1].aclose()
            self._home = None

    def _kept(self, key: str) -> Answer | None:
        """Return the answer in the cache, if any. One that cannot be read, as after a full disk, is none."""
        kept = None if self._cache is None else self._cache.get(key)
        try:
            return None if kept is None else read_answer(kept)
        except Unreadable:
            return None

    async def _ask(self, body: bytes, key: str | None = None) -> Answer:
        """Send a request until there is an answer or no repetition is left."""
        patience = Patience(self._settings.retries, self._settings.longest_wait_s, self.account.usage.requests)
        while True:
            self.account.usage.retries += patience.tries > 0
            try:
                response, answer = await self._try(body)
            except _MayPass as failure:
                if not patience.lasts(self.account.usage.requests, limited=failure.limited):
                    tries = count_of(patience.tries, "try", "tries")
                    raise InfrastructureError(
                        f"{self._url} gave no usable answer in {tries}; at last: {failure}"
                    ) from None
                self._tell(failure)
                patience.waited(await self._wait(patience.tries - 1, failure))
                continue
            if self._cache is not None and key is not None:
                self._cache.put(key, response.body)
            return answer

    async def _try(self, body: bytes) -> tuple[Response, Answer]:
        """Send a request once. Raises `_MayPass` if it may be repeated."""
        connection, pace = self._at_home()
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
        # First of all: a key that is cut off later, to make a message short, would not be found.
        response = as_told(replace(response, body=self._secrets.hidden_in_answer(response.body)))
        if not 200 <= response.status < 300:
            raise self._failure(response, pace)
        try:
            answer = read_answer(response.body)
        except Unreadable as error:
            if error.tokens is not None:
                self.account.pay(error.tokens)
            raise _MayPass(self._secrets.hidden(str(error))) from error
        answer = replace(answer, cost=self.account.add(answer))
        if answer.tokens is not None:
            pace.used(answer.tokens.total, expected)
        return response, answer

    def _failure(self, response: Response, pace: Pace) -> Exception:
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

    def _tell(self, failure: _MayPass) -> None:
        """Say what is waited for, now and then: a run that waits for minutes must not look like one that hangs."""
        if time.monotonic() >= self._tell_from:
            self._tell_from = time.monotonic() + _SILENCE_S
            _log.warning("%s is asked again: %s", self._url, failure)

    async def _wait(self, attempt: int, failure: _MayPass) -> float:
        """Wait before a repetition; return the seconds. The jitter parts requests that failed together."""
        longest = doubled_s(self._settings.first_wait_s, attempt, self._settings.longest_wait_s)
        with off_the_clock():
            share = self._jitter.uniform(0.5 if not failure.wait_s else 0.0, 1.0)
            wait_s = failure.wait_s + longest * share
            await asyncio.sleep(wait_s)
        return wait_s

    def _at_home(self) -> tuple[Connection, Pace]:
        """Return what belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        if self._home is None or self._home[0] is not loop:
            settings = self._settings
            connection = Connection(self._url, self._headers, settings.timeout_s, settings.connect_timeout_s)
            self._home = loop, connection, Pace(settings.concurrency, *self._rates)
        return self._home[1], self._home[2]


def completions_url(url: str) -> str:
    """Return the URL of chat completions under a base URL, with the base's query. Raises `UsageError` for no URL."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets that do not match, a port that is none
        parts, valid = urlsplit(""), False
    if not valid or any(character.isspace() for character in url):
        raise UsageError(
            f"the URL of an endpoint begins with http:// or https:// and names a host, like http://HOST:PORT/v1, not "
            f"{_shown_url(url)!r}"
        )
    if "@" in parts.netloc or any(SECRET_NAME.search(name) for name, _ in parse_qsl(parts.query)):
        raise UsageError(
            f"the URL {_shown_url(url)!r} holds a password or a key, which would be recorded; put the API key into the "
            "environment variable that the setting `key` names, or into the setting `headers` of a file"
        )
    path = parts.path.rstrip("/")
    path = path if path.endswith("/chat/completions") else f"{path}/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _shown_url(url: str) -> str:
    """Return a URL without its user, password and query."""
    return re.sub(r"//[^/]*@", "//***@", url).partition("?")[0]


def _rate(per_minute: float | None) -> Rate | None:
    return None if per_minute is None else Rate(per_minute)


def _headers(settings: EndpointSettings) -> dict[str, str]:
    """Return the headers of all requests. Raises `UsageError` for one that HTTP cannot carry."""
    key = os.environ.get(settings.key, "").strip()
    if not _VALUE.fullmatch(key):
        raise UsageError(f"the API key in {settings.key} holds a line break or another character that no key has")
    for name, value in settings.headers.items():
        if not (_HEADER.fullmatch(name) and _VALUE.fullmatch(value)):
            raise UsageError(
                f"the endpoint's header {name!r} cannot be sent: its name or value holds a line break or "
                "another character that headers do not have"
            )
    return {**({"Authorization": f"Bearer {key}"} if key else {}), **settings.headers}
