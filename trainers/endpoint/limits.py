"""The limits of a policy: rates and places of its requests, tries of each, and a budget of tokens or money."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass

from agentgym.errors import UsageError
from agentgym.rollout.deadlines import off_the_clock
from agentgym.trainers.endpoint.settings import EndpointSettings, Price
from agentgym.trainers.endpoint.wire import Answer, TokenCounts

_BURST_S = 10.0
"""Seconds' worth of a rate that may be used at once."""
_MOST_TRIES = 100
"""More than a request needs that competes with hundreds of others for a few answers a minute."""
_MILLION = 1_000_000


class RateLimiter:
    """A rate per minute. A request for more than is left must wait, after those made before.

    Args:
        per_minute: The rate.
        clock: Returns the time in seconds.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic):
        self._per_s, self._clock = per_minute / 60, clock
        self._most = max(1.0, self._per_s * _BURST_S)
        self._left, self._at = self._most, clock()

    def take(self, amount: float) -> float:
        """Use an amount; return the seconds to wait first."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._per_s) - amount
        self._at = now
        return max(0.0, -self._left / self._per_s)

    def correct(self, amount: float) -> None:
        """Use `amount` more than was taken, or less if it is negative."""
        self._left -= amount


class RequestPace:
    """The queue of all requests of one policy. Belongs to one event loop.

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
        """Wait for a place for one request that will use about so many tokens, and hold it.

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
        """Let no request begin for a while."""
        self._paused_until = max(self._paused_until, time.monotonic() + seconds)

    def used(self, tokens: int, expected: int) -> None:
        """Correct the rate of tokens by what a request really used."""
        if self._tokens:
            self._tokens.correct(tokens - expected)


class Tries:
    """Counts the tries of one request.

    After a failure it is repeated `retries` times. A rate limit is no failure: most hold for a minute, and many servers
    do not say for how long. So it is waited for until `longest_wait_s` have passed without an answer to anybody.

    Args:
        retries: How often it is repeated at most; 0 means never.
        longest_wait_s: How long a rate limit is waited for.
        answered: How many requests the endpoint has answered before.
    """

    def __init__(self, retries: int, longest_wait_s: float, answered: int):
        self.count = 0
        self._retries, self._longest_wait_s, self._answered = retries, longest_wait_s, answered
        self._failed = self._limited = 0
        self._waited_s = 0.0

    def may_repeat(self, answered: int, *, limited: bool) -> bool:
        """Count a try without an answer; return whether the request is repeated.

        Args:
            answered: How many requests the endpoint has answered until now.
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
        """Count the seconds before a repetition."""
        self._waited_s += seconds


@dataclass
class EndpointUsage:
    """The requests, tokens and costs of a policy so far. Answers from its own cache count as `cached` only."""

    requests: int = 0
    """Answers received from the endpoint."""
    retries: int = 0
    """Requests repeated after a failure."""
    broken_off: int = 0
    """Requests under way when the run stopped or a turn took too long. The provider may count them; the rest of this
    does not."""
    cached: int = 0
    """Answers taken from the cache on disk."""
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    """Tokens of prompts that the endpoint had cached."""
    completion_tokens: int = 0
    uncounted: int = 0
    """Answers whose tokens the endpoint did not report, or not all of them; costs do not include them."""
    cut_off: int = 0
    """Turns that hit the limit of tokens."""
    filtered: int = 0
    """Turns that the endpoint's filter withheld, and conversations that it refused."""
    overflows: int = 0
    """Episodes that ended because their conversation no longer fitted the model's context."""
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
        UsageError: There is a budget but no price.
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
        """Count an answer from the cache; return its cost, which is 0, or `None` without a price."""
        self.usage.cached += 1
        return None if self._price is None else 0.0

    def add(self, answer: Answer) -> float | None:
        """Count an answer; return its cost, or `None` if it has no price or the endpoint does not report tokens.

        Raises:
            UsageError: There is a budget and the endpoint does not report tokens.
        """
        usage, tokens = self.usage, answer.tokens
        usage.requests += 1
        usage.cut_off += answer.cut_off
        usage.filtered += answer.filtered
        has_budget = self._budget is not None or self._budget_tokens is not None
        if has_budget and (tokens is None or not tokens.complete):
            raise UsageError("the endpoint reports no usage, so a budget cannot be kept; leave the budget out")
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
            ("broken off, which may be paid as well", usage.broken_off),
            ("from the cache", usage.cached),
            ("cut off at max_tokens", usage.cut_off),
            ("withheld by the endpoint's filter", usage.filtered),
            ("answered without a count of tokens", usage.uncounted),
        )
        parts = [f"{count:,} {name}" for name, count in counts if count]
        if usage.overflows:
            parts.append(f"{usage.overflows:,} episodes ended as the conversation outgrew the model's context")
        if self._price is not None:
            parts.append(f"cost {usage.cost:.4g}{' without them' if usage.uncounted else ''}")
        if self._unpriced is not None:
            parts.append(f"no price of {self._unpriced!r} among the prices")
        totals = f"{usage.requests:,} requests, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
        return ", ".join([totals, *parts])

    def _stop(self, setting: str, limit: str, spent: str) -> None:
        raise UsageError(
            f"the endpoint's {setting} of {limit} is spent ({spent} in {self.usage.requests:,} requests). Finished "
            f"episodes are in the file of --out; to continue, run the same command, which may spend the {setting} again"
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
