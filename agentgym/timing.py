"""`TurnTimes`: what the wall-clock time of a turn was spent on. Times never take part in comparisons of turns."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentgym.records.fields import Rules, check_fields, is_number, is_text, or_null

_DIGITS = 6
"""Digits after the point that are recorded: microseconds."""


class Span(NamedTuple):
    """Something that ran within a step of an environment."""

    name: str
    """Name of the tool; `grade` for the grading."""
    began_s: float
    """Seconds since the step began."""
    seconds: float


@dataclass
class StepTimes:
    """What ran within a step of an environment, noted while it runs."""

    calls: list[Span] = field(default_factory=list)
    """Calls of tools as they ended up in the episode; those that ran at the same time overlap."""
    grading: Span | None = None
    began: float = field(default_factory=time.monotonic)

    def span(self, name: str, began: float, ended: float | None = None) -> Span:
        """Return the span between two moments (`time.monotonic`); by default up to now."""
        ended = time.monotonic() if ended is None else ended
        return Span(name, round(began - self.began, _DIGITS), round(ended - began, _DIGITS))


@dataclass(frozen=True)
class TurnTimes:
    """Times of a turn, in seconds."""

    began_s: float
    """When the policy was asked, since the episode began."""
    generation_s: float
    """Until the policy had answered, including the time that its request waited."""
    environment_s: float
    """Until the environment had answered, including what it takes to reach it in another process."""
    queued_s: float | None = None
    """How much of `generation_s` the request waited for a free place, if the policy tells."""
    calls: tuple[Span, ...] = ()
    """Calls of tools; those of concurrent tools overlap."""
    grading: Span | None = None
    """The grading of the episode, in its last turn."""

    def to_dict(self) -> dict[str, Any]:
        """Return the times as JSON data."""
        grading = None if self.grading is None else list(self.grading)
        return {**vars(self), "calls": [list(call) for call in self.calls], "grading": grading}

    @classmethod
    def from_dict(cls, data: Any, what: str) -> TurnTimes:
        """Rebuild times from the output of `to_dict`. The data is not trusted.

        Args:
            data: The data.
            what: A name for it in messages.

        Raises:
            UsageError: A field is missing, unknown or wrong.
        """
        check_fields(data, _FIELDS, _REQUIRED, what)
        grading = data.get("grading")
        return cls(
            **{
                **data,
                "calls": tuple(Span(*call) for call in data.get("calls", ())),
                "grading": None if grading is None else Span(*grading),
            }
        )


class TurnClock:
    """Times the turns of one episode.

    Args:
        started: When the episode began (`time.perf_counter`).
    """

    def __init__(self, started: float):
        self._started = started
        self._asked: float | None = None
        self._stepped = started
        self._queued_s: float | None = None

    def ask(self) -> None:
        """Note that the policy is asked for a turn now."""
        self._asked, self._queued_s = time.perf_counter(), None

    def queued(self, seconds: float | None) -> None:
        """Note how long the policy's request waited for a free place."""
        self._queued_s = seconds

    def step(self) -> None:
        """Note that the environment is asked now."""
        self._stepped = time.perf_counter()

    def stop(self, step: StepTimes) -> TurnTimes:
        """Return the times of the turn that the environment has answered now."""
        ended = time.perf_counter()
        asked = self._stepped if self._asked is None else self._asked  # the policy has no part in some last turns
        self._asked = None
        return TurnTimes(
            began_s=round(asked - self._started, _DIGITS),
            generation_s=round(self._stepped - asked, _DIGITS),
            environment_s=round(ended - self._stepped, _DIGITS),
            queued_s=None if self._queued_s is None else round(self._queued_s, _DIGITS),
            calls=tuple(step.calls),
            grading=step.grading,
        )


def total_times(times: list[TurnTimes | None]) -> tuple[float | None, float | None]:
    """Return the seconds that all turns spent in generation and in the environment; `None` if one has no times."""
    known = [one for one in times if one is not None]
    if not known or len(known) < len(times):
        return None, None
    return sum(one.generation_s for one in known), sum(one.environment_s for one in known)


def _is_time(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_span(value: Any) -> bool:
    return type(value) is list and len(value) == 3 and is_text(value[0]) and all(map(is_number, value[1:]))


_FIELDS: Rules = {
    **dict.fromkeys(("began_s", "generation_s", "environment_s"), (_is_time, "a number of seconds")),
    "queued_s": (or_null(_is_time), "a number of seconds or null"),
    "calls": (lambda value: type(value) is list and all(map(_is_span, value)), "a list of [name, began, seconds]"),
    "grading": (or_null(_is_span), "[name, began, seconds] or null"),
}
_REQUIRED = frozenset({"began_s", "generation_s", "environment_s"})
