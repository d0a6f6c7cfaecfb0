"""`Mistake`: the kinds of mistake that a model makes when it calls tools, as trajectories count them.

The kinds are those of TL-Training (Ye et al., arXiv 2412.15495) that can be detected without a gold call: unreadable
calls, unknown tools and arguments, missing arguments, wrong values. Its other two, the wrong tool and a superfluous
argument, need one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

_PREFIX = "errors/"
_SHOWN = re.compile(r"(?:^|[>\n])\s*Error: ")


class Mistake(StrEnum):
    """A kind of mistake. Kinds in `OF_TURNS` cost a turn without a call; all others concern a single call."""

    UNREADABLE = "unreadable"
    """The turn, or a call in it, cannot be read."""
    TOO_MANY_CALLS = "too_many_calls"
    """The turn has more calls than the environment allows."""
    REFUSED_TEXT = "refused_text"
    """The environment did not accept the turn's text, for example because it expected a call."""
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_ARGUMENT = "unknown_argument"
    """The arguments contain an unknown name, which takes precedence over other mistakes."""
    MISSING_ARGUMENT = "missing_argument"
    WRONG_ARGUMENT = "wrong_argument"
    """The type or the range of an argument is wrong."""
    TIMEOUT = "timeout"
    """The tool hit its own time limit."""
    REFUSED = "refused"
    """The tool itself refused the call."""


OF_TURNS = (Mistake.UNREADABLE, Mistake.TOO_MANY_CALLS, Mistake.REFUSED_TEXT)
OF_CALLS = tuple(mistake for mistake in Mistake if mistake not in OF_TURNS)


def of_turn(mistake: Mistake) -> Mistake:
    """Return the kind to count for a turn without a call."""
    return mistake if mistake in OF_TURNS else Mistake.REFUSED_TEXT


def of_call(mistake: Mistake) -> Mistake:
    """Return the kind to count for a call."""
    return mistake if mistake in OF_CALLS else Mistake.REFUSED


def counts_of(mistakes: Mapping[Mistake, int]) -> dict[str, int]:
    """Return how often each kind occurred, under the names that `Trajectory.counts` has for them."""
    return {f"{_PREFIX}{mistake}": count for mistake, count in mistakes.items()}


def count_of(mistake: Mistake, counts: Mapping[str, int]) -> int:
    """Return how often a kind occurred, given `Trajectory.counts`."""
    return counts.get(f"{_PREFIX}{mistake}", 0)


def has_error(observation: str) -> bool:
    """Whether the text of an observation reports a mistake, in any dialect."""
    return _SHOWN.search(observation) is not None
