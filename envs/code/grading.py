"""`CodeGrader`: grades submissions by the method that suits the task, and runs the examples for the tool `test`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym.base.errors import BrokenTask, UsageError
from agentgym.core.answers.decisions import DecisionRule
from agentgym.core.task import Task
from agentgym.envs.code.asking import CPU_S, Ask, Budget, GraderReply, Runner, Runs, ask, bounds
from agentgym.envs.code.calls import Submission, call_apart, call_source, call_together, load
from agentgym.envs.code.plain import encode
from agentgym.envs.code.replay import grade_check
from agentgym.envs.code.verdict import (
    CodeVerdict,
    How,
    answer_decision,
    passed_by,
    progress,
    read_cases,
    read_literal,
    share,
)
from agentgym.tools.sandbox import Sandbox, SandboxLimits

_GIVEN_PASSES: dict[str, int] = {}
"""How many hidden cases the code in a task's prompt passes, by the task's hash."""
_UNREADABLE = "The answer cannot be read as a value. Write it alone, such as 42, 2.5, 'text' or [1, 2]."


def grade_cases(
    task: Task, submission: Submission, runner: Runner, call_s: float, given_passes: Callable[[], int]
) -> CodeVerdict:
    """Return how many of a task's examples and hidden cases a submitted function gets right.

    Args:
        task: The task.
        submission: The function.
        runner: Runs it.
        call_s: Seconds of processor time that one call may take.
        given_passes: Returns how many hidden cases the code in the task's prompt passes.
    """
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
        progress=progress(
            passed, arguments, [encode(case.expected) for case in hidden], solved, 0 if solved else given_passes()
        ),
        how=How.CASES,
    )


class CodeGrader:
    """Grades answers.

    Args:
        opener: Opens a fresh sandbox.
        limits: Bounds on a run in it.
        call_s: Seconds of processor time that one call may take.
        budget: Creates the time budget of one submission.
    """

    def __init__(
        self, opener: Callable[[], Sandbox], limits: SandboxLimits, call_s: float, budget: Callable[[], Budget] = Budget
    ):
        if not 0 < call_s <= CPU_S:
            raise UsageError(f"call_s must be above 0 and at most {CPU_S:g}, not {call_s!r}")
        self._opener, self._limits, self._call_s, self._budget = opener, limits, call_s, budget

    def value(self, task: Task, answer: str) -> CodeVerdict:
        """Grade a value. The verdict has a `problem` if the answer cannot be read as a value."""
        expected = read_literal(task.gold["answer"], f"gold['answer'] of task {task.id!r}")
        decision = answer_decision(answer, expected, task.prompt)
        right = float(decision.equal)
        problem = _UNREADABLE if decision.rule is DecisionRule.UNREADABLE else None
        return CodeVerdict(decision.equal, right, right, right, How.VALUE, problem, decision.rule)

    def function(self, task: Task, submission: Submission) -> CodeVerdict:
        """Grade a function, in fresh sandboxes.

        The verdict has a `problem` if the code does not load. Loading happens before any hidden test is sent, so the
        report of a problem cannot leak one.
        """
        how = _how(task)
        with Runner(self._opener, self._limits, self._budget(), self._call_s) as runner:
            loaded = load(submission, runner.together)
            if not loaded.ok:
                return CodeVerdict(False, 0.0, 0.0, 0.0, how, loaded.problem)
            if how is How.CASES:
                return grade_cases(task, submission, runner, self._call_s, lambda: self._given_passes(task, submission))
            return grade_check(task, submission, runner, self._ask_gold, self._call_s)

    def _given_passes(self, task: Task, submission: Submission) -> int:
        """Return how many hidden cases the code in the task's prompt passes; it has time of its own."""
        if (source := task.data.get("code")) is None:
            return 0
        if task.hash not in _GIVEN_PASSES:
            given = Submission(source, submission.name, submission.prelude)
            hidden = read_cases(task, "gold['cases']", task.gold["cases"])
            with Runner(self._opener, self._limits, self._budget(), self._call_s) as runner:
                calls = call_together(given, [case.arguments for case in hidden], runner.together, self._call_s)
            _GIVEN_PASSES[task.hash] = sum(passed_by(calls.outcomes, hidden))
        return _GIVEN_PASSES[task.hash]

    def examples(self, task: Task, submission: Submission, place: Runs) -> tuple[int | None, str]:
        """Run the examples in `place`; return how many pass (`None` if nothing could be called) and a report."""
        cases = read_cases(task, "data['examples']", task.data["examples"])
        calls = call_together(submission, [case.arguments for case in cases], self._asking(place), self._call_s)
        if calls.problem is not None:
            return None, calls.problem
        lines, passed = [], 0
        for case, example, outcome in zip(cases, task.data["examples"], calls.outcomes, strict=True):
            if case.passed_by(outcome):
                passed += 1
            else:
                call = call_source(submission.name, example["args"])
                lines.append(f"{call} {outcome.shown()}; expected {example['expect']}")
        return passed, "\n".join([f"{passed} of {len(cases)} examples pass.", *lines])

    def _ask_gold(self, request: Mapping[str, Any]) -> GraderReply:
        """Run the gold function, with a time budget of its own."""
        with Runner(self._opener, self._limits, Budget(), self._call_s) as runner:
            return runner.apart(request)

    def _asking(self, place: Runs) -> Ask:
        return lambda request: ask(place, request, bounds(self._limits, request, self._call_s), fresh=False)


def _how(task: Task) -> How:
    if "cases" in task.gold:
        return How.CASES
    if "check" in task.gold:
        return How.REPLAY
    raise BrokenTask(f"task {task.id!r} has neither cases nor a check in its gold")
