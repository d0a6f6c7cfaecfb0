"""What the grader found, and the running of visible examples that all ways of grading share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentgym.envs.code.calls import Outcome, arguments_of
from agentgym.envs.code.matching import matches, read_literal
from agentgym.envs.code.plain import Unfit
from agentgym.task import Task

_ROOM = 40
"""Characters of an outcome's text for each character of the expected literal; what is longer cannot be equal."""


class How(StrEnum):
    """How an answer was graded."""

    VALUE = "value"
    """Compared with the expected value."""
    CASES = "cases"
    """Called on hidden arguments; results compared outside the sandbox."""
    REPLAY = "replay"
    """The check ran in another sandbox, on what the function had returned in its own."""
    CANARIES = "canaries"
    """The check ran in one process with the function, and perturbed copies of it had to fail."""


@dataclass(frozen=True)
class Verdict:
    """How good an answer is."""

    solved: bool
    visible: float
    """Share of the examples that it gets right; where there are none, 1 if it is solved."""
    hidden: float
    """Share of the hidden tests that it passes."""
    how: How
    problem: str | None = None
    """What keeps the answer from being judged at all, told so that it can be corrected."""


@dataclass(frozen=True)
class Case:
    """Arguments (a tree) and the expected value."""

    arguments: Any
    expected: Any
    room: int

    def passed_by(self, outcome: Outcome) -> bool:
        """Whether an outcome is the expected value."""
        try:
            return matches(outcome.value(self.room), self.expected)
        except Unfit:
            return False


def read_cases(task: Task, where: str, cases: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Return the cases of a task. Raises `TaskError` for those that are no literals."""
    found = []
    for number, case in enumerate(cases, start=1):
        place = f"case {number} of {where} of task {task.id!r}"
        arguments = arguments_of(read_literal(case["args"], f"args of {place}"))
        expected = read_literal(case["expect"], f"expect of {place}")
        found.append(Case(arguments, expected, 200 + _ROOM * len(case["expect"])))
    return found


def share(passed: Sequence[bool], solved: bool) -> float:
    """Return the share of passed tests; where there is none, 1 if the task is solved."""
    return sum(passed) / len(passed) if passed else float(solved)
