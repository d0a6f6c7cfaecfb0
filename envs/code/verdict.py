"""The grader's verdict, and the test cases that all grading methods share."""

from __future__ import annotations

import ast
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from agentgym.base.errors import BrokenTask, ToolError
from agentgym.base.syntax import parse
from agentgym.core.task import Task
from agentgym.envs.code.calls import FunctionOutcome, arguments_of
from agentgym.envs.code.plain import NotPlain

RELATIVE = 1e-6
ABSOLUTE = 1e-9
MAX_TEXT = 20_000
MAX_NESTING = 60
_MAX_PAIRS = 40_000
_WORDS = {"true": True, "false": False, "null": None}
"""Values as JSON writes them."""
_Number = int | float | complex | Decimal | Fraction


@dataclass(frozen=True)
class _Truth:
    """A truth value in a written answer; it does not equal any number."""

    value: bool


def read_literal(text: str, where: str) -> Any:
    """Return the value that a task states as a Python literal. Raises `BrokenTask` naming `where`."""
    try:
        return ast.literal_eval(parse(text.lstrip(" \t"), mode="eval"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise BrokenTask(f"{where} is {text[:80]!r}, which is not a Python literal: {error}") from error


def answer_matches(answer: str, expected: Any) -> bool:
    """Whether an answer written as text equals `expected`. Raises `ToolError` if it is too long."""
    text = answer.strip()
    if len(text) > MAX_TEXT:
        raise ToolError(f"The answer has {len(text)} characters; submit the value itself, at most {MAX_TEXT}.")
    if isinstance(expected, str) and text == expected.strip():
        return True
    is_literal, value = _value_of(text)
    return is_literal and matches(_written(value), _written(expected))


def matches(value: Any, expected: Any) -> bool:
    """Whether a plain value equals the expected one.

    Args:
        value: The result, as `plain.decode` returns it: only exact builtin and library types.
        expected: The value that the task expects.
    """
    if isinstance(expected, _Number):
        return isinstance(value, _Number) and _same_number(value, expected)
    if isinstance(expected, list | tuple):
        alike = type(value) is type(expected) and len(value) == len(expected)
        return alike and all(matches(mine, theirs) for mine, theirs in zip(value, expected, strict=True))
    if isinstance(expected, set | frozenset):
        return isinstance(value, set | frozenset) and _same_set(value, expected)
    if isinstance(expected, dict):
        return isinstance(value, dict) and _same_dict(value, expected)
    return bool(value == expected)


def _same_number(value: Any, expected: Any) -> bool:
    if value == expected:
        return True
    if isinstance(expected, int):
        return False  # only fractional numbers are rounded
    try:
        if isinstance(value, complex) or isinstance(expected, complex):
            mine, theirs = complex(value), complex(expected)
            return _close(mine.real, theirs.real) and _close(mine.imag, theirs.imag)
        return _close(float(value), float(expected))
    except OverflowError:  # a whole number that no float can hold
        return False


def _close(value: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(value)
    return math.isclose(value, expected, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _same_set(value: Any, expected: Any) -> bool:
    rest = [item for item in value if item not in expected]
    missing = [item for item in expected if item not in value]
    return _pair_off(rest, missing, matches)


def _same_dict(value: dict[Any, Any], expected: dict[Any, Any]) -> bool:
    if not all(matches(value[key], item) for key, item in expected.items() if key in value):
        return False
    rest = [entry for entry in value.items() if entry[0] not in expected]
    missing = [entry for entry in expected.items() if entry[0] not in value]
    return _pair_off(rest, missing, matches)


def _pair_off(items: Sequence[Any], targets: Sequence[Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether items and `targets` pair off as the same: a perfect bipartite matching, by augmenting paths."""
    if len(items) != len(targets) or len(items) * len(targets) > _MAX_PAIRS:
        return False
    fitting = [[place for place, theirs in enumerate(targets) if same(mine, theirs)] for mine in items]
    owner: dict[int, int] = {}

    def find_place(number: int, visited: set[int]) -> bool:
        for place in fitting[number]:
            if place not in visited:
                visited.add(place)
                if place not in owner or find_place(owner[place], visited):
                    owner[place] = number
                    return True
        return False

    return all(find_place(number, set()) for number in range(len(items)))


def _written(value: Any) -> Any:
    """Return a value with lists replaced by tuples and truth values by `_Truth`."""
    if isinstance(value, bool):
        return _Truth(value)
    if isinstance(value, list | tuple):
        return tuple(map(_written, value))
    if isinstance(value, set | frozenset):
        return frozenset(map(_written, value))
    if isinstance(value, dict):
        return {_written(key): _written(item) for key, item in value.items()}
    return value


def _value_of(text: str) -> tuple[bool, Any]:
    if text in _WORDS:
        return True, _WORDS[text]
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        return False, None
    try:
        return True, ast.literal_eval(parse(text.lstrip(" \t"), mode="eval"))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False, None


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
