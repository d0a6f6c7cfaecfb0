"""Chooses the inputs of a function: examples to show, and hidden cases that distinguish it from near misses.

A near miss is the function with one small bug. Every near miss that differs from the function on two of the inputs
drawn here fails at least two hidden cases.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from agentgym.base.syntax import parse
from agentgym.tasks.code.bugs import BugEdit, edits
from agentgym.tasks.code.families import Arguments, Function


@dataclass(frozen=True)
class Crash:
    """The outcome of a call that raises: the name of the exception."""

    error: str


def output_of(code: str) -> str:
    """Run a program and return its output, without the final newline."""
    lines: list[str] = []

    def collect(*values: Any, sep: str = " ") -> None:
        lines.append(sep.join(map(str, values)))

    exec(compile(code, "<program>", "exec"), {"print": collect, "__name__": "__main__"})
    return "\n".join(lines)


def load(code: str | ast.Module, entry_point: str) -> Callable[..., Any]:
    """Run source that defines a function, and return the function."""
    names: dict[str, Any] = {"__name__": "solution"}
    exec(compile(code, "<solution>", "exec"), names)
    return names[entry_point]


def outcomes(call: Callable[..., Any], inputs: Sequence[Arguments]) -> list[Any]:
    """Call a function on every input; a call that raises gives a `Crash`."""
    return [_outcome(call, args) for args in inputs]


def _outcome(call: Callable[..., Any], args: Arguments) -> Any:
    try:
        return call(*args)
    except Exception as error:
        return Crash(type(error).__name__)


DRAWN = 16
"""Number of inputs drawn, in addition to the edge cases."""
NEAR_MISSES = 12
"""Maximum number of near misses to try."""
LEAST, EXAMPLES, KILLS = 9, 2, 2
"""Minimum hidden cases and examples of a task; number of hidden cases that a near miss must fail."""
_SAME_ANSWER = 0.6
_LONGEST_EXAMPLE = 160


@dataclass(frozen=True)
class Case:
    """Arguments and the correct result, both as Python literals."""

    args: str
    expect: str

    def to_dict(self) -> dict[str, str]:
        """Return the case as JSON data."""
        return {"args": self.args, "expect": self.expect}


@dataclass(frozen=True)
class NearMiss:
    """A wrong variant of a function: its edits and the hidden cases that it fails."""

    edits: tuple[BugEdit, ...]
    source: str
    fails: int


class Trial:
    """A function, run on drawn inputs against its near misses.

    Args:
        function: The correct function.
        rng: Draws the inputs and the near misses.
    """

    def __init__(self, function: Function, rng: Random):
        self._function = function
        arguments = [*function.edges, *(function.draw_args(rng) for _ in range(DRAWN))]
        self.inputs: list[Arguments] = list({repr(args): args for args in arguments}.values())
        self.expected = outcomes(load(function.source, function.entry_point), self.inputs)
        self._tree = parse(function.source)
        candidates = edits(self._tree)
        self._edits = rng.sample(candidates, min(NEAR_MISSES, len(candidates)))
        self._killers = {number: self._failed((edit,)) for number, edit in enumerate(self._edits)}
        self.hidden = self._choose()

    @property
    def is_good(self) -> bool:
        """Whether there are enough cases, and no constant gets most of them right."""
        results = [repr(self.expected[number]) for number in self.hidden]
        most = max(Counter(results).values())
        return len(results) >= LEAST and most <= _SAME_ANSWER * len(results) and len(self.examples()) >= EXAMPLES

    def examples(self) -> list[Case]:
        """Return up to three short cases that are not hidden, with different results."""
        rest = sorted(set(range(len(self.inputs))) - set(self.hidden), key=lambda number: self._length(number) > 60)
        cases: dict[str, Case] = {}
        for number in rest:
            if self._length(number) <= _LONGEST_EXAMPLE:
                case = self._case(number)
                cases.setdefault(case.expect, case)
        return list(cases.values())[:3]

    def hidden_cases(self) -> list[Case]:
        """Return the hidden cases."""
        return [self._case(number) for number in self.hidden]

    def bugs(self, count: int) -> NearMiss | None:
        """Return a near miss with `count` edits that are bugs even alone; it does not always crash."""
        hidden = set(self.hidden)
        serious = [number for number, killers in self._killers.items() if len(hidden & killers) >= KILLS]
        for start in range(len(serious) - count + 1):
            bug_edits = tuple(self._edits[number] for number in serious[start : start + count])
            if len({id(edit.node) for edit in bug_edits}) < count:
                continue
            failed = hidden & self._failed(bug_edits)
            if len(failed) >= KILLS and not self._always_crashes(bug_edits):
                return NearMiss(bug_edits, self._source(bug_edits), len(failed))
        return None

    def _choose(self) -> list[int]:
        """Take the edge cases, then the cases that near misses still need, then more until there are enough."""
        hidden = list(range(len({repr(args) for args in self._function.edges})))[:7]
        rest = list(range(len(hidden), len(self.inputs)))
        for killers in self._killers.values():
            if len(killers) >= KILLS:
                missing = KILLS - len(killers & set(hidden))
                hidden += [number for number in rest if number in killers and number not in hidden][: max(0, missing)]
        more = [number for number in rest if number not in hidden]
        return hidden + more[: max(0, LEAST + 2 - len(hidden))]

    def _failed(self, bug_edits: Sequence[BugEdit]) -> set[int]:
        results = self._results(bug_edits)
        return {number for number, result in enumerate(results) if _differ(result, self.expected[number])}

    def _always_crashes(self, bug_edits: Sequence[BugEdit]) -> bool:
        results = self._results(bug_edits)
        return all(isinstance(results[number], Crash) for number in self.hidden)

    def _results(self, bug_edits: Sequence[BugEdit]) -> list[Any]:
        if bug_edits:
            with bug_edits[0].applied():
                return self._results(bug_edits[1:])
        return outcomes(load(self._tree, self._function.entry_point), self.inputs)

    def _source(self, bug_edits: Sequence[BugEdit]) -> str:
        if bug_edits:
            with bug_edits[0].applied():
                return self._source(bug_edits[1:])
        return ast.unparse(self._tree) + "\n"

    def _length(self, number: int) -> int:
        return len(repr(self.inputs[number])) + len(repr(self.expected[number]))

    def _case(self, number: int) -> Case:
        return Case(repr(self.inputs[number]), repr(self.expected[number]))


def _differ(result: Any, expected: Any) -> bool:
    return type(result) is not type(expected) or result != expected
