"""`TurnTimes`: the wall-clock time of a turn, broken down. Comparisons of turns ignore times."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentgym.base.fields import Rules, check_fields, is_number, is_text, or_null

_DIGITS = 6
"""Recorded decimal places: microseconds."""


class Span(NamedTuple):
    """Something that ran within a step of an environment."""

    name: str
    """Name of the tool; `grade` for the grading."""
    began_s: float
    """Seconds since the step began."""
    seconds: float


@dataclass
class StepTimes:
    """Tool calls and grading within a step of an environment."""

    calls: list[Span] = field(default_factory=list)
    """Tool calls, in the order of their results; concurrent ones overlap."""
    grading: Span | None = None
    began: float = field(default_factory=time.monotonic)

    def span(self, name: str, began: float, ended: float | None = None) -> Span:
        """Return the span between two times (`time.monotonic`); by default it ends now."""
        ended = time.monotonic() if ended is None else ended
        return Span(name, round(began - self.began, _DIGITS), round(ended - began, _DIGITS))


@dataclass(frozen=True)
class TurnTimes:
    """Times of a turn, in seconds."""

    began_s: float
    """Start of the turn: seconds from the start of the episode to the request to the policy."""
    generation_s: float
    """Time for the policy's answer, including time in its queue."""
    environment_s: float
    """Time for the environment's answer, including communication with another process."""
    queued_s: float | None = None
    """The part of `generation_s` spent in the policy's queue, if reported."""
    calls: tuple[Span, ...] = ()
    """Tool calls; concurrent ones overlap."""
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
        self._requested: float | None = None
        self._stepped = started
        self._queued_s: float | None = None

    def ask(self) -> None:
        """Mark the request to the policy."""
        self._requested, self._queued_s = time.perf_counter(), None

    def queued(self, seconds: float | None) -> None:
        """Record how long the request waited in the policy's queue."""
        self._queued_s = seconds

    def step(self) -> None:
        """Mark the call of the environment's step."""
        self._stepped = time.perf_counter()

    def stop(self, step: StepTimes) -> TurnTimes:
        """Mark the environment's answer and return the times of the turn."""
        ended = time.perf_counter()
        began = (
            self._stepped if self._requested is None else self._requested
        )  # an interrupted episode is graded without the policy
        self._requested = None
        return TurnTimes(
            began_s=round(began - self._started, _DIGITS),
            generation_s=round(self._stepped - began, _DIGITS),
            environment_s=round(ended - self._stepped, _DIGITS),
            queued_s=None if self._queued_s is None else round(self._queued_s, _DIGITS),
            calls=tuple(step.calls),
            grading=step.grading,
        )


def total_times(times: list[TurnTimes | None]) -> tuple[float | None, float | None]:
    """Return the total seconds of generation and of the environment; `None` if any turn lacks times."""
    measured = [turn_times for turn_times in times if turn_times is not None]
    if not measured or len(measured) < len(times):
        return None, None
    return sum(turn_times.generation_s for turn_times in measured), sum(
        turn_times.environment_s for turn_times in measured
    )


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
