"""`Form`: a form of a test that is not the true one, with what right code is known to make of it.

Right code fails a changed form; which of its cases, and where, is known. Right code passes a form from which what is
expected is withheld, and does in it what is expected.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agentgym.envs.swe.notes import Raised, value_of
from agentgym.envs.swe.perturb import UNKNOWN_ROW, WITHHOLDING, Change
from agentgym.syntax import parse


@dataclass(frozen=True)
class Form:
    """A change of a test function, with what the gold solution makes of it."""

    change: Change
    fails: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Cases that fail, by what parametrisation adds to the id, to the lines in which they do. Empty: not known yet, so
    that all are."""
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Cases to their numbers among all of the function, if the change is in the cases: ids say what is in them."""

    contradicts: bool = False
    """Whether no code passes both this form and the true one."""
    notes: Mapping[str, Mapping[int, int]] = field(default_factory=dict, hash=False)
    """Cases to the places of what is withheld from them, and how often each is compared."""

    @property
    def withholds(self) -> bool:
        """Whether it withholds what is expected, where others change something."""
        return any(edit.kind in WITHHOLDING for edit in self.change.edits)

    @cached_property
    def expected(self) -> Mapping[int, object]:
        """What is withheld, by place."""
        return {
            edit.number: Raised(*literal_eval(parse(edit.text, mode="eval")))
            if edit.kind == "raised"
            else value_of(edit.text)
            for edit in self.change.edits
            if edit.kind in WITHHOLDING and edit.kind != "left out"
        }

    def concerns(self, case: str) -> bool:
        """Whether a case is another one because of the change."""
        return not self.fails or case in self.fails

    def lines(self, case: str) -> str:
        """Return the lines in which a case fails on right code."""
        return self.fails.get(case, "")

    def to_list(self) -> list[object]:
        """Return it as JSON data."""
        notes = {case: sorted(counts.items()) for case, counts in self.notes.items()}
        return [self.change.to_list(), dict(self.fails), dict(self.numbers), self.contradicts, notes]

    @classmethod
    def from_list(cls, data: Sequence[object]) -> Form:
        """Rebuild it from `to_list`."""
        change, fails, numbers, contradicts, notes = data
        assert isinstance(change, list)
        assert isinstance(fails, dict)
        assert isinstance(numbers, dict)
        assert isinstance(notes, dict)
        where = {str(case): str(lines) for case, lines in fails.items()}
        counts = {str(case): {int(number): int(count) for number, count in own} for case, own in notes.items()}
        places = {str(case): int(one) for case, one in numbers.items()}
        return cls(Change.from_list(change), where, places, contradicts is True, counts)


def compatible(one: Form, two: Form) -> bool:
    """Whether a function can be in both forms at once: they change different rows of its parametrisation."""
    rows = one.change.row, two.change.row
    return None not in rows and UNKNOWN_ROW not in rows and rows[0] != rows[1]
