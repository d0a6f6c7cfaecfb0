"""The named rules that make an answer right or wrong; trajectories record the rule that decided."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class DecisionRule(StrEnum):
    """The rule that decided."""

    SAME = "same"
    """The same text, the same value, or the same rows."""
    TYPOGRAPHY = "same text, other typography"
    """The same text once dashes, quotes, full-width forms and CJK punctuation are folded (`texts.fold`)."""
    NUMBER = "same number, written differently"
    ROUNDING_ERROR = "same number within a rounding error"
    ROUNDED = "the number rounded as the prompt allows"
    UNIT = "same number, with a unit that the question names"
    DATE = "same date, written differently"
    TIES = "same rows, ties in another order"
    PART = "contains the answer"
    ABSTAINED = "abstained"
    OTHER = "another answer"
    OTHER_NUMBER = "another number"
    OTHER_UNIT = "a unit that the question does not name, or none"
    OTHER_DATE = "another date"
    UNREADABLE = "not readable as an answer"
    """The form is at fault, so the answer is not final."""


class Decision(NamedTuple):
    """Whether an answer is right, and the rule that decided. True if it is right."""

    equal: bool
    rule: DecisionRule

    def __bool__(self) -> bool:
        return self.equal


SAME = Decision(True, DecisionRule.SAME)
OTHER = Decision(False, DecisionRule.OTHER)
UNREADABLE = Decision(False, DecisionRule.UNREADABLE)
