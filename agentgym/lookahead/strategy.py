"""`Strategy`: an order in which lines of play are tried, and what most of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Literal, Protocol

from agentgym.errors import UsageError
from agentgym.lookahead.explorer import Explorer
from agentgym.lookahead.line import Line
from agentgym.lookahead.together import together

Evaluate = Literal["value", "rollout"]
"""How a line that goes on is scored: as it is, or by a line that is played on from it to the end."""


class Strategy(Protocol):
    """A search over lines of play."""

    @property
    def name(self) -> str:
        """The name, with all settings, as they are typed."""
        ...

    @property
    def places(self) -> int:
        """Largest number of environments to use at once."""
        ...

    async def search(self, explorer: Explorer) -> Line:
        """Return the chosen line, which is over."""
        ...


def best(lines: Sequence[Line], scores: Sequence[float]) -> Line:
    """Return the line with the highest score; of several, the first."""
    return max(zip(lines, scores, strict=True), key=lambda pair: pair[1])[0]


async def ends_of(explorer: Explorer, lines: Sequence[Line], evaluate: Evaluate) -> list[Line]:
    """Return what to score in place of each line: itself, or where a rollout from it ends."""
    if evaluate == "value":
        return list(lines)
    return await together(explorer.complete(line) for line in lines)


def settings_of(strategy: object) -> str:
    """Return the settings of a strategy, as they are typed."""
    values = ((one.name, getattr(strategy, one.name)) for one in fields(strategy))  # type: ignore[arg-type]
    return ",".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in values)


def check_from_1(strategy: object, *names: str) -> None:
    """Raise `UsageError` unless these settings are whole numbers from 1."""
    for name in names:
        value = getattr(strategy, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"{name} must be a whole number from 1, not {value!r}")
