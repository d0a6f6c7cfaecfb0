"""A check without its expected values: what the submitted code returns is noted instead, and compared out here.

Code that shares a process with a check may make every assert come out as it likes, once it knows or guesses which form
of the check it meets. Here nothing can be guessed: `assert x == 6` is in that process as a note of `x`, `assert x` and
`assert not x` both as a note of whether `x` is true, and the values that are wanted stay outside of the sandbox.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from agentgym.envs.code.asking import Ask, Reply
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.inside import NOTE
from agentgym.envs.code.plain import Unfit, decode, encode
from agentgym.syntax import parse


@dataclass(frozen=True)
class Withheld:
    """A check that notes values, and what must be noted."""

    check: str
    noted: tuple[tuple[int, Any], ...]
    """Number of the assert and the wanted value, in the order in which the gold function's values are noted."""

    def is_met(self, submission: Submission, ask: Ask) -> bool:
        """Whether a submission's values are those that the check wants, each where it is wanted."""
        found = _notes(ask(submission.request("withheld", check=self.check)))
        if found is None or len(found) != len(self.noted):
            return False
        return all(
            place == number and _equal(value, wanted)
            for (place, value), (number, wanted) in zip(found, self.noted, strict=True)
        )


def withheld(check: str, gold: Submission, ask_gold: Ask) -> Withheld | None:
    """Return a check without its expected values; `None` if the gold function does not meet it in this form."""
    tree = parse(check)
    taker = _Taker()
    without = ast.unparse(ast.fix_missing_locations(taker.visit(tree)))
    found = _notes(ask_gold(gold.request("withheld", check=without)))
    if not found or any(not _equal(value, taker.wanted[place]) for place, value in found):
        return None
    return Withheld(without, tuple((place, taker.wanted[place]) for place, _ in found))


class _Taker(ast.NodeTransformer):
    """Puts a note in the place of every assert that wants a plain value, and keeps the value."""

    def __init__(self) -> None:
        self.wanted: list[Any] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Drop the docstring: some say what should come out."""
        self.generic_visit(node)
        if len(node.body) > 1 and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """Turn an assert into a note, if what it wants is known without running it."""
        shown, wanted = node.test, True
        while isinstance(shown, ast.UnaryOp) and isinstance(shown.op, ast.Not):
            shown, wanted = shown.operand, not wanted
        if not isinstance(shown, ast.Compare):
            return self._note(ast.Call(ast.Name("bool", ast.Load()), [shown], []), wanted)
        if len(shown.ops) != 1 or not isinstance(shown.ops[0], ast.Eq | ast.Is) or not wanted:
            return node
        for value, other in ((shown.comparators[0], shown.left), (shown.left, shown.comparators[0])):
            try:
                literal = ast.literal_eval(value)
                encode(literal)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                continue
            return self._note(other, literal)
        return node

    def _note(self, value: ast.expr, wanted: Any) -> ast.stmt:
        self.wanted.append(wanted)
        number = ast.Constant(len(self.wanted) - 1)
        return ast.Expr(ast.Call(ast.Name(NOTE, ast.Load()), [number, value], []))


def _notes(reply: Reply) -> list[tuple[int, Any]] | None:
    """Return what was noted, by the number of the assert; `None` unless the check came to its end."""
    if not reply.result.ok or reply.first("verdict") != "passed":
        return None
    found: list[tuple[int, Any]] = []
    for line in reply.lines:
        if "noted" not in line:
            continue
        if type(line["noted"]) is not int:
            return None
        try:
            found.append((line["noted"], decode(line.get("value"))))
        except Unfit:
            return None
    return found


def _equal(value: Any, wanted: Any) -> bool:
    """Whether an assert would have taken a value, which is plain data, for the wanted one."""
    return bool(value == wanted)
