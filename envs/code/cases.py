"""Grading by hidden cases: the arguments go into a fresh sandbox, results are compared with what is expected here."""

from __future__ import annotations

from agentgym.envs.code.asking import Ask
from agentgym.envs.code.calls import Submission, call_function
from agentgym.envs.code.verdict import How, Verdict, read_cases, share
from agentgym.task import Task


def grade_cases(task: Task, submission: Submission, ask: Ask, call_s: float) -> Verdict:
    """Return how many of a task's examples and hidden cases a submitted function gets right."""
    examples = read_cases(task, "data['examples']", task.data.get("examples", ()))
    hidden = read_cases(task, "gold['cases']", task.gold["cases"])
    cases = [*examples, *hidden]
    calls = call_function(submission, [case.arguments for case in cases], ask, call_s)
    if calls.problem is not None:
        return Verdict(False, 0.0, 0.0, How.CASES, calls.problem)
    passed = [case.passed_by(outcome) for case, outcome in zip(cases, calls.outcomes, strict=True)]
    solved = all(passed)
    return Verdict(solved, share(passed[: len(examples)], solved), share(passed[len(examples) :], solved), How.CASES)
