"""`Mistake`: what kind of mistake a model made when it called a tool, as trajectories count them.

The kinds are those of TL-Training (Ye et al., arXiv 2412.15495) that show without knowing the right call: calls that
cannot be read, tools and arguments that do not exist, missing arguments, wrong contents. Its other two, the wrong tool
and a superfluous argument, are relative to a gold call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

_PREFIX = "errors/"
_SHOWN = re.compile(r"(?:^|[>\n])\s*Error: ")


class Mistake(StrEnum):
    """A kind of mistake. Those of `OF_TURNS` cost the model a turn without a call; all others are of one call."""

    UNREADABLE = "unreadable"
    """The turn, or a call in it, cannot be read."""
    TOO_MANY_CALLS = "too_many_calls"
    """The turn has more calls than the environment allows."""
    REFUSED_TEXT = "refused_text"
    """The environment did not accept the turn's text, for example because a call was due."""
    UNKNOWN_TOOL = "unknown_tool"
    UNKNOWN_ARGUMENT = "unknown_argument"
    """Whatever else is wrong with the arguments: an invented name is the gravest mistake in them."""
    MISSING_ARGUMENT = "missing_argument"
    WRONG_ARGUMENT = "wrong_argument"
    """The type or the range of an argument is wrong."""
    TIMEOUT = "timeout"
    """The tool gave up on what it was asked to do, because it took too long."""
    REFUSED = "refused"
    """The tool itself refused the call."""


OF_TURNS = (Mistake.UNREADABLE, Mistake.TOO_MANY_CALLS, Mistake.REFUSED_TEXT)
OF_CALLS = tuple(mistake for mistake in Mistake if mistake not in OF_TURNS)


def of_turn(mistake: Mistake) -> Mistake:
    """Return the kind under which a turn without a call counts."""
    return mistake if mistake in OF_TURNS else Mistake.REFUSED_TEXT


def of_call(mistake: Mistake) -> Mistake:
    """Return the kind under which a call counts."""
    return mistake if mistake in OF_CALLS else Mistake.REFUSED


def counts_of(mistakes: Mapping[Mistake, int]) -> dict[str, int]:
    """Return how often each kind occurred, under the names that `Trajectory.counts` has for them."""
    return {f"{_PREFIX}{mistake}": count for mistake, count in mistakes.items()}


def count_of(mistake: Mistake, counts: Mapping[str, int]) -> int:
    """Return how often a kind occurred, given `Trajectory.counts`."""
    return counts.get(f"{_PREFIX}{mistake}", 0)


def has_error(shown: str) -> bool:
    """Whether the text of an observation shows that a turn or a call in it was a mistake, in any dialect."""
    return _SHOWN.search(shown) is not None
