"""`ChangedForm`: a form of a test other than the true one, with the known behaviour of correct code.

Correct code fails a changed form, in known cases and lines. A form that withholds the expected values passes on correct
code, which produces those values.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agentgym.base.syntax import parse
from agentgym.envs.swe.notes import Raised, value_of
from agentgym.envs.swe.perturb import UNKNOWN_ROW, WITHHOLDING, FunctionChange


@dataclass(frozen=True)
class ChangedForm:
    """A change of a test function, with the behaviour of the gold solution in it."""

    change: FunctionChange
    fails: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Failing cases, by the suffix that parametrisation adds to the id, to the lines that fail. If empty, they are not
    known yet, and every case counts as affected."""
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Cases to their numbers within the function, if the change is in the cases: their ids reveal their content."""

    contradicts: bool = False
    """Whether no code passes both this form and the true one."""
    notes: Mapping[str, Mapping[int, int]] = field(default_factory=dict, hash=False)
    """Cases to the places of their withheld values, and how often each is compared."""

    @property
    def withholds(self) -> bool:
        """Whether it withholds expected values, where other forms change something."""
        return any(edit.kind in WITHHOLDING for edit in self.change.edits)

    @cached_property
    def expected(self) -> Mapping[int, object]:
        """The withheld values, by place."""
        return {
            edit.number: Raised(*literal_eval(parse(edit.text, mode="eval")))
            if edit.kind == "raised"
            else value_of(edit.text)
            for edit in self.change.edits
            if edit.kind in WITHHOLDING and edit.kind != "left out"
        }

    def concerns(self, case: str) -> bool:
        """Whether the change affects a case."""
        return not self.fails or case in self.fails

    def lines(self, case: str) -> str:
        """Return where a case fails on correct code."""
        return self.fails.get(case, "")

    def to_list(self) -> list[object]:
        """Return it as JSON data."""
        notes = {case: sorted(counts.items()) for case, counts in self.notes.items()}
        return [self.change.to_list(), dict(self.fails), dict(self.numbers), self.contradicts, notes]

    @classmethod
    def from_list(cls, data: Sequence[object]) -> ChangedForm:
        """Rebuild it from `to_list`."""
        change, fails, numbers, contradicts, notes = data
        assert isinstance(change, list)
        assert isinstance(fails, dict)
        assert isinstance(numbers, dict)
        assert isinstance(notes, dict)
        where = {str(case): str(lines) for case, lines in fails.items()}
        counts = {str(case): {int(number): int(count) for number, count in own} for case, own in notes.items()}
        places = {str(case): int(number) for case, number in numbers.items()}
        return cls(FunctionChange.from_list(change), where, places, contradicts is True, counts)


def compatible(first: ChangedForm, second: ChangedForm) -> bool:
    """Whether a function can have both forms at once: they change different rows of its parametrisation."""
    rows = first.change.row, second.change.row
    return None not in rows and UNKNOWN_ROW not in rows and rows[0] != rows[1]
