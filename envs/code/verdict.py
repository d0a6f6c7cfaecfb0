"""The grader's verdict, and the test cases that all grading methods share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentgym.envs.code.calls import FunctionOutcome, arguments_of
from agentgym.envs.code.matching import matches, read_literal
from agentgym.envs.code.plain import NotPlain
from agentgym.task import Task

_ROOM = 40
"""Characters that an outcome may have per character of the expected value."""


class How(StrEnum):
    """How an answer was graded."""

    VALUE = "value"
    """Compared with the expected value."""
    CASES = "cases"
    """Called on hidden arguments; results compared outside the sandbox."""
    REPLAY = "replay"
    """The check ran in another sandbox, on what the function returned in its own."""
    CANARIES = "canaries"
    """The check ran in one process with the function, and perturbed copies of it had to fail."""


@dataclass(frozen=True)
class CodeVerdict:
    """How good an answer is."""

    solved: bool
    visible: float
    """Share of the examples that it gets right; 1 for a solved task without examples."""
    hidden: float
    """Share of the hidden tests that it passes."""
    progress: float
    """The same, not counting tests that a constant or a returned argument passes; 1 for a solved task."""
    how: How
    problem: str | None = None
    """Why the answer could not be graded, as text for the model; then no hidden test has run."""


@dataclass(frozen=True)
class EncodedCase:
    """Arguments (a tree) and the expected value."""

    arguments: Any
    expected: Any
    room: int
    """Maximum number of characters that the text of an equal outcome may have."""

    def passed_by(self, outcome: FunctionOutcome) -> bool:
        """Whether an outcome is the expected value."""
        try:
            return matches(outcome.value(self.room), self.expected)
        except NotPlain:
            return False


def read_cases(task: Task, where: str, cases: Sequence[Mapping[str, Any]]) -> list[EncodedCase]:
    """Return the cases of a task. Raises `BrokenTask` for a case that is not a literal."""
    encoded = []
    for number, case in enumerate(cases, start=1):
        place = f"case {number} of {where} of task {task.id!r}"
        arguments = arguments_of(read_literal(case["args"], f"args of {place}"))
        expected = read_literal(case["expect"], f"expect of {place}")
        encoded.append(EncodedCase(arguments, expected, room_for(case["expect"])))
    return encoded


def room_for(text: str) -> int:
    """Return the maximum number of characters of an outcome that may equal the value written as `text`."""
    return 200 + _ROOM * len(text)


def passed_by(outcomes: Sequence[FunctionOutcome], cases: Sequence[EncodedCase]) -> list[bool]:
    """Return which cases pass. A case without an outcome fails: the code may not have loaded a second time."""
    missing = [FunctionOutcome(problem="was not called")] * (len(cases) - len(outcomes))
    return [case.passed_by(outcome) for case, outcome in zip(cases, [*outcomes, *missing], strict=True)]


def share(passed: Sequence[bool], solved: bool) -> float:
    """Return the share of passed tests; without tests, 1 for a solved task."""
    return sum(passed) / len(passed) if passed else float(solved)


def progress(passed: Sequence[bool], arguments: Sequence[Any], expected: Sequence[Any], solved: bool) -> float:
    """Return the share of passed tests that neither a constant nor a function that returns an argument would pass.

    Args:
        passed: Which tests pass.
        arguments: Trees of their arguments.
        expected: Trees of their expected values.
        solved: Whether everything is right; the result is then 1 however few tests there are.
    """
    trivial = _passed_trivially(arguments, expected)
    if solved or trivial == len(passed):
        return float(solved)
    return max(0.0, (sum(passed) - trivial) / (len(passed) - trivial))


def _passed_trivially(arguments: Sequence[Any], expected: Sequence[Any]) -> int:
    """Return how many tests the best constant passes, or the best function that returns one of its arguments."""
    texts = [json.dumps(tree) for tree in expected]
    argument_texts = [[json.dumps(part) for part in tree[1][1:]] for tree in arguments]
    returned = [
        sum(parts[place : place + 1] == [text] for parts, text in zip(argument_texts, texts, strict=True))
        for place in range(max(map(len, argument_texts), default=0))
    ]
    return max([*Counter(texts).values(), *returned, 0])
