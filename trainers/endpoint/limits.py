"""Limits of a policy: concurrency and rates of requests, retries, and a budget of tokens or money."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass

from agentgym.base.errors import UsageError
from agentgym.rollout.limits import off_the_clock
from agentgym.trainers.endpoint.settings import EndpointSettings, Price
from agentgym.trainers.endpoint.wire import Answer, TokenCounts

_BURST_S = 10.0
"""Largest burst, in seconds of the rate."""
_MOST_TRIES = 100
"""Bounds the retries of a rate-limited request, even with hundreds of competing requests."""
_MILLION = 1_000_000


class RateLimiter:
    """A rate per minute. Requests beyond it wait, in order.

    Args:
        per_minute: The rate.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic):
        self._per_s, self._clock = per_minute / 60, clock
        self._most = max(1.0, self._per_s * _BURST_S)
        self._left, self._at = self._most, clock()

    def take(self, amount: float) -> float:
        """Consume an amount; return the seconds to wait before using it."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_s) - amount
        self._at = now
        return max(0.0, -self._left / self._per_s)

    def correct(self, amount: float) -> None:
        """Consume another `amount`, or give it back if it is negative."""
        self._left -= amount


class RequestPace:
    """Limits the requests of one policy. Belongs to one event loop.

    Args:
        concurrency: Maximum concurrent requests.
        requests: Rate of requests.
        tokens: Rate of tokens.
    """

    def __init__(
        self, concurrency: int | None = None, requests: RateLimiter | None = None, tokens: RateLimiter | None = None
    ):
        self._places = nullcontext() if concurrency is None else asyncio.Semaphore(concurrency)
        self._requests, self._tokens = requests, tokens
        self._paused_until = 0.0

    @asynccontextmanager
    async def place(self, tokens: int) -> AsyncIterator[None]:
        """Hold a place for one request that will use about `tokens` tokens, after waiting for it.

        Waiting does not count against the time limit of a turn.
        """
        async with AsyncExitStack() as stack:
            with off_the_clock():
                await stack.enter_async_context(self._places)
                await self._wait(tokens)
            yield

    async def _wait(self, tokens: int) -> None:
        wait = self._requests.take(1) if self._requests else 0.0
        wait = max(wait, self._tokens.take(tokens)) if self._tokens else wait
        if wait:
            await asyncio.sleep(wait)
        while (pause := self._paused_until - time.monotonic()) > 0:
            await asyncio.sleep(pause)

    def pause(self, seconds: float) -> None:
        """Start no request for a while."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def used(self, tokens: int, expected: int) -> None:
        """Correct the token rate after a request, by its actual number of tokens."""
        if self._tokens:
            self._tokens.correct(tokens - expected)


class Tries:
    """Counts the tries of one request.

    Failures allow `retries` retries. Rate limits allow more, since most last for a minute and many servers do not say
    how
    long: the request is retried until it has waited `longest_wait_s` without the endpoint answering any request.

    Args:
        retries: Maximum number of retries; 0 means none.
        longest_wait_s: Longest wait for a rate limit, in seconds.
        answered: Number of requests that the endpoint has answered before.
    """

    def __init__(self, retries: int, longest_wait_s: float, answered: int):
        self.count = 0
        self._retries, self._longest_wait_s, self._answered = retries, longest_wait_s, answered
        self._failed = self._limited = 0
        self._waited_s = 0.0

    def may_repeat(self, answered: int, *, limited: bool) -> bool:
        """Count a failed try; return whether to retry the request.

        Args:
            answered: Number of requests that the endpoint has answered so far.
            limited: Whether the answer was a rate limit.
        """
        self.count += 1
        if not limited:
            self._failed += 1
            return self._failed <= self._retries
        self._limited += 1
        if answered > self._answered:
            self._answered, self._waited_s = answered, 0.0
        is_early = self._waited_s < self._longest_wait_s and self.count < _MOST_TRIES
        return self._limited <= self._retries or (self._retries > 0 and is_early)

    def add_wait(self, seconds: float) -> None:
        """Count the seconds before a retry."""
        self._waited_s += seconds


@dataclass
class EndpointUsage:
    """The requests, tokens and costs of a policy so far. Answers from its own cache count as `cached` only."""

    requests: int = 0
    """Answers received from the endpoint."""
    retries: int = 0
    """Requests retried after a failure."""
    broken_off: int = 0
    """Requests cancelled because the run stopped or a turn took too long. The provider may charge for them; the other
    counts exclude them."""
    cached: int = 0
    """Answers taken from the cache on disk."""
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    """Cached tokens of prompts."""
    completion_tokens: int = 0
    uncounted: int = 0
    """Answers without complete token counts; costs exclude them."""
    cut_off: int = 0
    """Turns that reached the token limit."""
    filtered: int = 0
    """Turns withheld and conversations rejected by the endpoint's filter."""
    overflows: int = 0
    """Episodes that ended because the conversation outgrew the model's context."""
    cost: float = 0.0
    """In the currency of the prices; 0 without prices."""

    @property
    def tokens(self) -> int:
        """Tokens of prompts and completions."""
        return self.prompt_tokens + self.completion_tokens


class Account:
    """The usage of one policy, with its prices and its budget.

    Args:
        model: The model's name in the prices.
        settings: Prices and budgets.

    Raises:
        UsageError: The policy has a budget but no price.
    """

    def __init__(self, model: str, settings: EndpointSettings):
        self.usage = EndpointUsage()
        self._price = _price_of(model, settings.prices, settings.budget is not None)
        self._unpriced = model if settings.prices and self._price is None else None
        self._budget, self._budget_tokens = settings.budget, settings.budget_tokens

    def check(self) -> None:
        """Raise `UsageError` if a budget is spent."""
        usage = self.usage
        if self._budget is not None and usage.cost >= self._budget:
            self._stop("budget", f"{self._budget:g}", f"{usage.cost:.4g}")
        if self._budget_tokens is not None and usage.tokens >= self._budget_tokens:
            self._stop("budget_tokens", f"{self._budget_tokens:,}", f"{usage.tokens:,} tokens")

    def add_cached(self) -> float | None:
        """Count a cached answer; return its cost: 0, or `None` without a price."""
        self.usage.cached += 1
        return None if self._price is None else 0.0

    def add(self, answer: Answer) -> float | None:
        """Count an answer; return its cost, or `None` without a price or token counts.

        Raises:
            UsageError: The policy has a budget, and the endpoint reports no token counts.
        """
        usage, tokens = self.usage, answer.tokens
        usage.requests += 1
        usage.cut_off += answer.cut_off
        usage.filtered += answer.filtered
        has_budget = self._budget is not None or self._budget_tokens is not None
        if has_budget and (tokens is None or not tokens.complete):
            raise UsageError("the endpoint reports no usage, so a budget cannot be enforced; leave the budget out")
        usage.uncounted += tokens is None or not tokens.complete
        return None if tokens is None else self.pay(tokens)

    def pay(self, tokens: TokenCounts) -> float | None:
        """Count the tokens of any answer, even an unreadable one; return their cost."""
        usage = self.usage
        usage.prompt_tokens += tokens.prompt
        usage.cached_prompt_tokens += tokens.cached
        usage.completion_tokens += tokens.completion
        cost = None if self._price is None else _cost(tokens, self._price)
        usage.cost += cost or 0.0
        return cost

    def summary(self) -> str:
        """Return the usage in one line."""
        usage = self.usage
        counts = (
            ("retries", usage.retries),
            ("cancelled, which may still be charged", usage.broken_off),
            ("from the cache", usage.cached),
            ("cut off at max_tokens", usage.cut_off),
            ("withheld by the endpoint's filter", usage.filtered),
            ("answered without token counts", usage.uncounted),
        )
        parts = [f"{count:,} {name}" for name, count in counts if count]
        if usage.overflows:
            parts.append(f"{usage.overflows:,} episodes ended as the conversation outgrew the model's context")
        if self._price is not None:
            parts.append(f"cost {usage.cost:.4g}{' without these' if usage.uncounted else ''}")
        if self._unpriced is not None:
            parts.append(f"no price for {self._unpriced!r}")
        totals = f"{usage.requests:,} requests, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
        return ", ".join([totals, *parts])

    def _stop(self, setting: str, limit: str, spent: str) -> None:
        raise UsageError(
            f"the endpoint's {setting} of {limit} is spent ({spent} in {self.usage.requests:,} requests). Finished "
            f"episodes are in the file of --out; the same command continues, and may spend the {setting} again"
        )


def _cost(tokens: TokenCounts, price: Price) -> float:
    cached_input = price.input if price.cached_input is None else price.cached_input
    prompt = price.input * (tokens.prompt - tokens.cached) + cached_input * tokens.cached
    return (prompt + price.output * tokens.completion) / _MILLION


def _price_of(model: str, prices: Mapping[str, Price], needed: bool) -> Price | None:
    if needed and model not in prices:
        raise UsageError(
            f"a budget needs the price of {model!r}: --endpoint 'prices={{{model}: {{input: 0.5, output: 2}}}}' (per "
            "million tokens), or budget_tokens instead"
        )
    return prices.get(model)
