"""A check without its expected values: it reports what the submitted code returns, to be compared outside.

Code that shares a process with a check can make every assert pass or fail once it knows or guesses the form of the
check. Here guessing does not help: `assert x == 6` becomes a note of `x`, `assert x` and `assert not x` both become a
note of whether `x` is true, and the expected values stay outside the sandbox.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from agentgym.envs.code.asking import Ask, GraderReply
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.inside import NOTE
from agentgym.envs.code.plain import NotPlain, decode, encode
from agentgym.syntax import parse


@dataclass(frozen=True)
class Withheld:
    """A check that notes values, and the values that it must note."""

    check: str
    noted: tuple[tuple[int, Any], ...]
    """Number of the assert and the expected value, in the order of the gold function's notes."""

    def is_met(self, submission: Submission, ask: Ask) -> bool:
        """Whether a submission produces the value that each assert expects."""
        notes = _notes(ask(submission.request("withheld", check=self.check)))
        if notes is None or len(notes) != len(self.noted):
            return False
        return all(
            place == number and _equal(value, expected)
            for (place, value), (number, expected) in zip(notes, self.noted, strict=True)
        )


def withheld(check: str, gold: Submission, ask_gold: Ask) -> Withheld | None:
    """Return a check without its expected values; `None` if the gold function does not meet it in this form."""
    tree = parse(check)
    withholder = _Withholder()
    without = ast.unparse(ast.fix_missing_locations(withholder.visit(tree)))
    notes = _notes(ask_gold(gold.request("withheld", check=without)))
    if not notes or any(not _equal(value, withholder.expected[place]) for place, value in notes):
        return None
    return Withheld(without, tuple((place, withholder.expected[place]) for place, _ in notes))


class _Withholder(ast.NodeTransformer):
    """Replaces every assert that expects a plain value with a note, and keeps the value."""

    def __init__(self) -> None:
        self.expected: list[Any] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Drop the docstring, which may state the expected results."""
        self.generic_visit(node)
        if len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Turn an assert into a note, if its expected value is known without running it."""
        tested, expected = node.test, True
        while isinstance(tested, ast.UnaryOp) and isinstance(tested.op, ast.Not):
            tested, expected = tested.operand, not expected
        if not isinstance(tested, ast.Compare):
            return self._note(ast.Call(ast.Name("bool", ast.Load()), [tested], []), expected)
        if len(tested.ops) != 1 or not isinstance(tested.ops[0], ast.Eq | ast.Is) or not expected:
            return node
        for value, other in ((tested.comparators[0], tested.left), (tested.left, tested.comparators[0])):
            try:
                literal = ast.literal_eval(value)
                encode(literal)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            return self._note(other, literal)
        return node

    def _note(self, value: ast.expr, expected: Any) -> ast.stmt:
        self.expected.append(expected)
        number = ast.Constant(len(self.expected) - 1)
        return ast.Expr(ast.Call(ast.Name(NOTE, ast.Load()), [number, value], []))


def _notes(reply: GraderReply) -> list[tuple[int, Any]] | None:
    """Return the noted values with the numbers of their asserts; `None` unless the check ran to its end."""
    if not reply.result.ok or reply.first("verdict") != "passed":
        return None
    notes: list[tuple[int, Any]] = []
    for line in reply.lines:
        if "noted" not in line:
            continue
        if type(line["noted"]) is not int:
            return None
        try:
            notes.append((line["noted"], decode(line.get("value"))))
        except NotPlain:
            return None
    return notes


def _equal(value: Any, expected: Any) -> bool:
    """Whether an assert would have accepted a value, which is plain data, as the expected one."""
    return bool(value == expected)
