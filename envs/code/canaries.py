"""Grading by a check that must share a process with the submitted code, because its values cannot leave it.

What such a process says about itself is worth nothing alone: submitted code could make every assert pass. So the check
also runs in copies with one expected value changed, each in a fresh sandbox. A right function fails those; one that
passes whatever is expected is found out, and one that cannot tell the copies apart cannot know which to pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agentgym.envs.code.asking import Ask
from agentgym.envs.code.calls import Submission
from agentgym.errors import TaskError
from agentgym.task import Task

COPIES = 3
"""Perturbed copies that a submission must fail."""
_TRIED = 16
"""Perturbations tried in search of those that the gold function fails."""
_KEPT = 4096

_CANARIES: dict[str, tuple[str, ...]] = {}
"""Perturbed checks of tasks, by task."""


def grade_together(task: Task, submission: Submission, ask: Ask) -> bool:
    """Whether a submission passes the check of a task and fails every perturbed copy of it."""
    canaries = _canaries(task, ask)
    # Written out anew like the copies, so that nothing but an expected value tells them apart.
    if _verdict(submission, ast.unparse(ast.parse(task.gold["check"])), ask) != "passed":
        return False
    return all(_verdict(submission, canary, ask) == "failed" for canary in canaries)


def perturbed(check: str) -> Iterator[str]:
    """Yield copies of a check, each with one expectation changed; neighbours come from different places."""
    places = len(_sites(ast.parse(check)))
    step = max(1, places // _TRIED)
    for start in range(step):
        for place in range(start, places, step):
            tree = ast.parse(check)
            _change(_sites(tree)[place])
            yield ast.unparse(ast.fix_missing_locations(tree))


def _canaries(task: Task, ask: Ask) -> tuple[str, ...]:
    """Return copies of a task's check that its gold code fails by an assert, as it should."""
    if task.hash not in _CANARIES:
        gold = Submission(task.gold["code"], task.data["entry_point"], task.data.get("prelude", ""))
        found: list[str] = []
        for number, check in enumerate(perturbed(task.gold["check"])):
            if number >= _TRIED or len(found) >= COPIES:
                break
            if _verdict(gold, check, ask) == "failed":
                found.append(check)
        if not found:
            raise TaskError(f"the check of task {task.id!r} has no assert whose expected value could be changed")
        if len(_CANARIES) >= _KEPT:
            _CANARIES.clear()
        _CANARIES[task.hash] = tuple(found)
    return _CANARIES[task.hash]


def _verdict(submission: Submission, check: str, ask: Ask) -> str:
    reply = ask(submission.request("together", check=check))
    verdicts = {str(line["verdict"]) for line in reply.lines if "verdict" in line}
    return verdicts.pop() if len(verdicts) == 1 and reply.result.ok else "none"


def _sites(tree: ast.AST) -> list[ast.Assert | ast.Constant]:
    """Return what can be changed: constants in compared or assigned expectations, and asserts without a comparison."""
    sites: list[ast.Assert | ast.Constant] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            constants = _constants(node.test.comparators[-1]) if isinstance(node.test, ast.Compare) else []
            if constants:
                sites.append(constants[-1])
            elif not isinstance(node.test, ast.Compare):
                sites.append(node)
        elif isinstance(node, ast.Assign) and "expect" in ast.unparse(node.targets[0]):
            sites += _constants(node.value)[-1:]
    return sites


def _constants(node: ast.AST) -> list[ast.Constant]:
    return [found for found in ast.walk(node) if isinstance(found, ast.Constant) and found.value is not Ellipsis]


def _change(site: ast.Assert | ast.Constant) -> None:
    if isinstance(site, ast.Constant):
        site.value = _other(site.value)
    elif isinstance(site.test, ast.UnaryOp) and isinstance(site.test.op, ast.Not):
        site.test = site.test.operand
    else:
        site.test = ast.UnaryOp(ast.Not(), site.test)


def _other(value: object) -> bool | int | float | str | bytes:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}e" if value != "inf" else "-inf"
    return value + b"e" if isinstance(value, bytes) else 0
