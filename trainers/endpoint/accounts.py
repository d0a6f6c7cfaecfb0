"""Counts requests, tokens and costs, and stops the run when its budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentgym.errors import UsageError
from agentgym.trainers.endpoint.reading import Answer, Tokens
from agentgym.trainers.endpoint.settings import EndpointSettings, Price

_MILLION = 1_000_000


@dataclass
class Usage:
    """What a policy has used so far. Answers from its own cache count as `cached` only."""

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
        self.usage = Usage()
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

    def pay(self, tokens: Tokens) -> float | None:
        """Count the tokens of any answer, also of one that nothing can be done with; return their cost."""
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
        more = [f"{count:,} {what}" for what, count in counts if count]
        if usage.overflows:
            more.append(f"{usage.overflows:,} episodes ended as the conversation outgrew the model's context")
        if self._price is not None:
            more.append(f"cost {usage.cost:.4g}{' without them' if usage.uncounted else ''}")
        if self._unpriced is not None:
            more.append(f"no price of {self._unpriced!r} among the prices")
        totals = f"{usage.requests:,} requests, {usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
        return ", ".join([totals, *more])

    def _stop(self, setting: str, limit: str, spent: str) -> None:
        raise UsageError(
            f"the endpoint's {setting} of {limit} is spent ({spent} in {self.usage.requests:,} requests). Finished "
            f"episodes are in the file of --out; to continue, run the same command, which may spend the {setting} again"
        )


def _cost(tokens: Tokens, price: Price) -> float:
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
