"""`Form`: a changed form of a test that is known to fail on right code, in which of its cases, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym.envs.swe.perturb import UNKNOWN_ROW, Change


@dataclass(frozen=True)
class Form:
    """A change of a test function, with what it does to the gold solution."""

    change: Change
    fails: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Cases that fail, by what parametrisation adds to the id, to the lines in which they do. Empty: not known yet, so
    that all are."""
    numbers: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Cases to their numbers among all of the function, if the change is in the cases: ids say what is in them."""

    def concerns(self, case: str) -> bool:
        """Whether a case is another one because of the change."""
        return not self.fails or case in self.fails

    def lines(self, case: str) -> str:
        """Return the lines in which a case fails on right code."""
        return self.fails.get(case, "")

    def to_list(self) -> list[object]:
        """Return it as JSON data."""
        return [self.change.to_list(), dict(self.fails), dict(self.numbers)]

    @classmethod
    def from_list(cls, data: Sequence[object]) -> Form:
        """Rebuild it from `to_list`."""
        change, fails, numbers = data
        assert isinstance(change, list)
        assert isinstance(fails, dict)
        assert isinstance(numbers, dict)
        where = {str(case): str(lines) for case, lines in fails.items()}
        return cls(Change.from_list(change), where, {str(case): int(number) for case, number in numbers.items()})


def compatible(one: Form, two: Form) -> bool:
    """Whether a function can be in both forms at once: they change different rows of its parametrisation."""
    rows = one.change.row, two.change.row
    return None not in rows and UNKNOWN_ROW not in rows and rows[0] != rows[1]
