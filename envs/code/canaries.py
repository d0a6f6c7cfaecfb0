"""Grading by a check that must share a process with the submitted code, because its values cannot leave it.

The report of such a process proves nothing by itself: submitted code could make every assert pass. So the check runs
many times in random order, each time in a fresh sandbox. Unchanged, it must pass; with one expected value changed, it
must fail. No process holds two forms of the check, and changed values come from the same check. Code that still
recognises or guesses the true form must also return the expected values in a form that does not state them
(`withheld`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from random import Random, SystemRandom
from typing import Any

from agentgym.base.errors import BrokenTask
from agentgym.base.syntax import parse
from agentgym.core.task import Task
from agentgym.envs.code.asking import Ask, GraderReply
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.inside import NOTE
from agentgym.envs.code.plain import NotPlain, decode, encode


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


TRUE_RUNS = 8
"""Runs of the check as it is."""
CHANGED_RUNS = 8
"""Runs of changed copies. Guessing succeeds with probability 2 ** -(TRUE_RUNS + CHANGED_RUNS)."""
_COPIES = 12
"""Changed copies kept for a task."""
_TRIED = 32
"""Changed copies to try; only those that the gold function fails are used."""
_KEPT = 4096


@dataclass(frozen=True)
class Forms:
    """The forms of a check that submitted code may meet, besides the true one."""

    changed: tuple[str, ...]
    """Copies with one expectation changed, which correct code fails."""
    withheld: Withheld | None
    """The check without its expected values; `None` if none can be removed."""


_FORMS: dict[str, Forms] = {}
"""Forms of checks cached in this process, by task."""
_DRAW = SystemRandom()
"""Random choices that submitted code must not predict. The verdict on honest code does not depend on them."""


def grade_together(task: Task, submission: Submission, ask: Ask, ask_gold: Ask) -> bool:
    """Return whether a submission passes the check of a task, fails every changed copy, and meets the withheld form."""
    forms = _forms(task, ask_gold)
    if forms.withheld is not None and not forms.withheld.is_met(submission, ask):
        return False
    changed = _DRAW.sample(forms.changed, min(CHANGED_RUNS, len(forms.changed)))
    changed += _DRAW.choices(forms.changed, k=CHANGED_RUNS - len(changed))
    # Unparsed like the copies, so that they differ only in an expected value.
    runs = [(ast.unparse(parse(task.gold["check"])), "passed")] * TRUE_RUNS
    runs += [(check, "failed") for check in changed]
    _DRAW.shuffle(runs)
    return all(_verdict(submission, check, ask) == expected for check, expected in runs)


def perturbed(check: str, rng: Random) -> Iterator[str]:
    """Yield copies of a check, each with one expectation changed; consecutive copies change different places."""
    places = len(_sites(parse(check)))
    step = max(1, places // _COPIES)
    for start in range(step):
        for place in range(start, places, step):
            tree = parse(check)
            sites = _sites(tree)
            _change(sites[place], [site.value for site in sites if isinstance(site, ast.Constant)], rng)
            yield ast.unparse(ast.fix_missing_locations(tree))


def _forms(task: Task, ask_gold: Ask) -> Forms:
    """Return the forms of a task's check. Its gold code fails the changed copies and meets the withheld form."""
    if task.hash not in _FORMS:
        gold = Submission(task.gold["code"], task.data["entry_point"], task.data.get("prelude", ""))
        check = task.gold["check"]
        changed = _changed(check, gold, ask_gold, Random(task.hash))
        if not changed:
            raise BrokenTask(f"the check of task {task.id!r} has no assert whose expected value could be changed")
        if len(_FORMS) >= _KEPT:
            _FORMS.clear()
        _FORMS[task.hash] = Forms(changed, withheld(check, gold, ask_gold))
    return _FORMS[task.hash]


def _changed(check: str, gold: Submission, ask_gold: Ask, rng: Random) -> tuple[str, ...]:
    rounds = (perturbed(check, rng) for _ in range(_TRIED))
    copies: list[str] = []
    for copy in islice(chain.from_iterable(rounds), _TRIED):
        if len(copies) < _COPIES and copy not in copies and _verdict(gold, copy, ask_gold) == "failed":
            copies.append(copy)
    return tuple(copies)


def _verdict(submission: Submission, check: str, ask: Ask) -> str:
    reply = ask(submission.request("together", check=check))
    verdicts = {str(line["verdict"]) for line in reply.lines if "verdict" in line}
    return verdicts.pop() if len(verdicts) == 1 and reply.result.ok else "none"


def _sites(tree: ast.AST) -> list[ast.Assert | ast.Constant]:
    """Return the expectations to change: those that only one value meets if any, else all."""
    exact = _found_sites(tree, (ast.Eq, ast.Is))
    return exact or _found_sites(tree, (ast.cmpop,))


def _found_sites(tree: ast.AST, kinds: tuple[type[ast.cmpop], ...]) -> list[ast.Assert | ast.Constant]:
    """Return constants in expectations that `kinds` compare or that are assigned, and asserts without a comparison."""
    sites: list[ast.Assert | ast.Constant] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
            if isinstance(node.test.ops[-1], kinds):
                sites += _constants(node.test.comparators[-1])[-1:]
        elif isinstance(node, ast.Assert):
            sites.append(node)
        elif isinstance(node, ast.Assign) and "expect" in ast.unparse(node.targets[0]):
            sites += _constants(node.value)[-1:]
    return sites


def _constants(node: ast.AST) -> list[ast.Constant]:
    return [child for child in ast.walk(node) if isinstance(child, ast.Constant) and child.value is not Ellipsis]


def _change(site: ast.Assert | ast.Constant, peers: Sequence[object], rng: Random) -> None:
    if isinstance(site, ast.Constant):
        site.value = _other(site.value, peers, rng)
    elif isinstance(site.test, ast.UnaryOp) and isinstance(site.test.op, ast.Not):
        site.test = site.test.operand
    else:
        site.test = ast.UnaryOp(ast.Not(), site.test)


def _other(value: object, peers: Sequence[object], rng: Random) -> bool | int | float | str | bytes:
    """Return another value of the same type: one that the check expects elsewhere, or a nearby one."""
    if isinstance(value, bool):
        return not value
    others = [peer for peer in peers if type(peer) is type(value) and peer != value]
    if others and rng.random() < 0.5:
        return rng.choice(others)  # pyright: ignore[reportReturnType]
    if isinstance(value, int | float):
        step = rng.choice((1, 2)) * rng.choice((-1, 1))
        # In the tree, a negative number is a minus sign and a number, so a constant cannot go below 0.
        return value + step if value + step >= 0 else value - step
    if isinstance(value, str):
        return _respelled(value, rng) if value != "inf" else "-inf"
    return _respelled(value.decode("latin-1"), rng).encode("latin-1") if isinstance(value, bytes) else 0


def _respelled(text: str, rng: Random) -> str:
    """Return the text with one small typo."""
    if len(set(text)) < 2:
        return text + (text[:1] or "a") if rng.random() < 0.5 or len(text) < 2 else text[1:]
    while True:
        place = rng.randrange(len(text))
        changed = text[:place] + rng.choice([*set(text)]) + text[place + 1 :]
        if changed != text:
            return changed
