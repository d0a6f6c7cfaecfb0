"""The grader's verdict, and the test cases that all grading methods share."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from agentgym.base.errors import BrokenTask, ToolError
from agentgym.base.syntax import parse
from agentgym.core.answers.cells import pair_off
from agentgym.core.answers.decisions import OTHER, SAME, UNREADABLE, Decision, DecisionRule
from agentgym.core.answers.numbers import same_number
from agentgym.core.answers.texts import fold, nfc, without_marks
from agentgym.core.answers.written import number_decision
from agentgym.core.task import Task
from agentgym.envs.code.calls import FunctionOutcome, arguments_of
from agentgym.envs.code.plain import NotPlain

MAX_TEXT = 20_000
MAX_NESTING = 60
_MAX_PAIRS = 40_000
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


def answer_decision(answer: str, expected: Any, question: str = "") -> Decision:
    """Return the decision on an answer written as text. Raises `ToolError` if it is too long.

    Args:
        answer: The answer: text where text is expected, a number as people write it, or a Python or JSON literal.
        expected: The value that the task expects.
        question: The question, whose units a number may have.
    """
    text = without_marks(answer)
    if len(text) > MAX_TEXT:
        raise ToolError(f"The answer has {len(text)} characters; submit the value itself, at most {MAX_TEXT}.")
    decision = UNREADABLE
    if isinstance(expected, str):
        decision = OTHER
        mine, theirs = nfc(text), nfc(expected.strip())
        if mine == theirs or nfc(answer.strip()) == theirs:
            return SAME
        if fold(mine) == fold(theirs):
            return Decision(True, DecisionRule.TYPOGRAPHY)
    elif isinstance(expected, int | float) and not isinstance(expected, bool):
        decision = number_decision(text, expected, question)
        if decision.equal:
            return decision
    is_literal, value = _value_of(text)
    if is_literal and matches(_written(value), _written(expected)):
        return SAME
    return OTHER if is_literal and decision == UNREADABLE else decision


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
        return False  # only fractional numbers have rounding errors
    if isinstance(value, complex) or isinstance(expected, complex):
        try:
            mine, theirs = complex(value), complex(expected)
        except OverflowError:  # a whole number that no float can hold
            return False
        return same_number(mine.real, theirs.real) and same_number(mine.imag, theirs.imag)
    return same_number(value, expected)


def _same_set(value: Any, expected: Any) -> bool:
    rest = [item for item in value if item not in expected]
    missing = [item for item in expected if item not in value]
    return _pair_off(rest, missing)


def _same_dict(value: dict[Any, Any], expected: dict[Any, Any]) -> bool:
    if not all(matches(value[key], item) for key, item in expected.items() if key in value):
        return False
    rest = [entry for entry in value.items() if entry[0] not in expected]
    missing = [entry for entry in expected.items() if entry[0] not in value]
    return _pair_off(rest, missing)


def _pair_off(items: Sequence[Any], targets: Sequence[Any]) -> bool:
    """Whether every item matches a target of its own, and none is left over."""
    if len(items) != len(targets) or len(items) * len(targets) > _MAX_PAIRS:
        return False
    fitting = [[place for place, theirs in enumerate(targets) if matches(mine, theirs)] for mine in items]
    return pair_off(fitting) == len(items)


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
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        return False, None
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return True, ast.literal_eval(parse(text.lstrip(" \t"), mode="eval"))
    with suppress(ValueError, RecursionError):
        return True, json.loads(text)
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
    rule: DecisionRule | None = None
    """The rule that decided on a value."""


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


def progress(
    passed: Sequence[bool], arguments: Sequence[Any], expected: Sequence[Any], solved: bool, given_passes: int = 0
) -> float:
    """Return the share of passed tests beyond those of a constant, of a returned argument and of the code to repair.

    Args:
        passed: Which tests pass.
        arguments: Trees of their arguments.
        expected: Trees of their expected values.
        solved: Whether everything is right; the result is then 1 however few tests there are.
        given_passes: How many tests the code in the task's prompt passes.
    """
    trivial = max(given_passes, _passed_trivially(arguments, expected))
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
