"""Grading by hidden cases: each call runs in a process of its own; its result is compared here."""

from __future__ import annotations

from agentgym.envs.code.asking import Runner
from agentgym.envs.code.calls import Submission, call_apart, call_together
from agentgym.envs.code.plain import encode
from agentgym.envs.code.verdict import CodeVerdict, How, passed_by, progress, read_cases, share
from agentgym.task import Task


def grade_cases(task: Task, submission: Submission, runner: Runner, call_s: float) -> CodeVerdict:
    """Return how many of a task's examples and hidden cases a submitted function gets right."""
    examples = read_cases(task, "data['examples']", task.data.get("examples", ()))
    hidden = read_cases(task, "gold['cases']", task.gold["cases"])
    example_arguments = [case.arguments for case in examples]
    visible = passed_by(call_together(submission, example_arguments, runner.together, call_s).outcomes, examples)
    arguments = [case.arguments for case in hidden]
    passed = passed_by(call_apart(submission, arguments, example_arguments, runner.together, call_s), hidden)
    solved = all(visible) and all(passed)
    return CodeVerdict(
        solved,
        visible=share(visible, solved),
        hidden=share(passed, solved),
        progress=progress(passed, arguments, [encode(case.expected) for case in hidden], solved),
        how=How.CASES,
    )
