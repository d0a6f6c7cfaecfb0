"""`Signals`: what the environment shows the policy anyway: errors, reports of tests, whether an answer was taken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from agentgym.errors import UsageError
from agentgym.lookahead.candidate import Candidate
from agentgym.lookahead.value import Asking
from agentgym.messages import text_of
from agentgym.mistakes import has_error
from agentgym.rewards import OUTCOME

_PASSED = re.compile(r"\b(\d+)\s*(?:/|of|out of)\s*(\d+)\b[^.\n]{0,30}\bpass(?:ed|es)?\b", re.IGNORECASE)
_COUNTS = re.compile(r"\b(\d+) (passed|failed|errors?)\b")
"""The counts in a line such as "2 failed, 5 passed in 0.1s"."""


@dataclass(frozen=True)
class Signals:
    """Scores a line by the mean of what can be seen of it.

    Whether its turns were free of errors (the share; the last one counts again), the share of tests that the latest
    report says have passed, if there is one, and, once it is over, whether the task ended it rather than a limit.
    """

    channels: frozenset[str] = frozenset()
    """Reward channels to add to the mean, for those that the policy could work out by itself. A channel that is graded
    with the gold tells it: results chosen by such a one are no longer the policy's own."""

    compares = False
    is_oracle = False

    def __post_init__(self) -> None:
        named = (self.channels,) if isinstance(self.channels, str) else self.channels
        object.__setattr__(self, "channels", frozenset(map(str, named)))
        if OUTCOME in self.channels:
            raise UsageError(f"{OUTCOME!r} is the result itself; to choose by it, as an upper bound: value=oracle")

    @property
    def name(self) -> str:
        """The name, with the channels."""
        return f"signals,channels=[{', '.join(sorted(self.channels))}]" if self.channels else "signals"

    async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
        """Return the mean of each candidate's signals."""
        return [fmean(_seen(candidate)) for candidate in candidates]


def _seen(candidate: Candidate) -> Iterator[float]:
    shown = ["\n".join(text_of(message) for message in observation) for _, observation in candidate.turns]
    clean = [float(not has_error(text)) for text in shown]
    yield fmean(clean) if clean else 1.0
    yield clean[-1] if clean else 1.0
    if reports := [share for text in shown if (share := _passed(text)) is not None]:
        yield reports[-1]
    if candidate.is_over:
        yield float(candidate.is_answered)
    yield from (min(max(value, 0.0), 1.0) for value in candidate.rewards.values())


def _passed(text: str) -> float | None:
    """Return the share of tests that a report says have passed; `None` if the text is no report."""
    if found := _PASSED.findall(text):
        passed, of = map(int, found[-1])
    elif counts := {what: int(number) for number, what in _COUNTS.findall(text)}:
        passed, of = counts.get("passed", 0), sum(counts.values())
    else:
        return None
    return min(1.0, passed / of) if of else None
