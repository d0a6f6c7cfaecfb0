"""`Grader`: judges what was submitted, by the way that suits the task, and runs the examples for `test`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentgym.envs.code.asking import Ask, Reply, Runs, ask
from agentgym.envs.code.calls import Submission, call_function, written_call
from agentgym.envs.code.cases import grade_cases
from agentgym.envs.code.matching import answer_matches, read_literal
from agentgym.envs.code.replay import grade_check
from agentgym.envs.code.verdict import How, Verdict, read_cases
from agentgym.errors import TaskError, UsageError
from agentgym.task import Task
from agentgym.tools.sandbox import Ended, Limits, Sandbox

MAX_CPU_S = 20.0
"""Seconds of processor time that all calls of a submitted function together may take."""
_WALL_FACTOR = 3
"""How much longer than that it may take on a busy machine, or asleep."""


class Grader:
    """Judges answers.

    Args:
        opener: Opens a fresh sandbox.
        limits: Bounds on a run in it.
        call_s: Seconds of processor time that one call may take.
    """

    def __init__(self, opener: Callable[[], Sandbox], limits: Limits, call_s: float):
        if not 0 < call_s <= MAX_CPU_S:
            raise UsageError(f"call_s must be above 0 and at most {MAX_CPU_S:g}, not {call_s!r}")
        self._opener, self._limits, self._call_s = opener, limits, call_s

    def value(self, task: Task, answer: str) -> Verdict:
        """Judge a value."""
        right = answer_matches(answer, read_literal(task.gold["answer"], f"gold['answer'] of task {task.id!r}"))
        return Verdict(right, float(right), float(right), How.VALUE)

    def function(self, task: Task, submission: Submission) -> Verdict:
        """Judge a function, in fresh sandboxes."""
        if "cases" in task.gold:
            return grade_cases(task, submission, self._ask, self._call_s)
        if "check" in task.gold:
            return grade_check(task, submission, self._ask, self._call_s)
        raise TaskError(f"task {task.id!r} has neither cases nor a check in its gold")

    def examples(self, task: Task, submission: Submission, place: Runs) -> tuple[int | None, str]:
        """Run the examples in a given place; return how many pass (`None` if nothing could be called) and a report."""
        cases = read_cases(task, "data['examples']", task.data["examples"])
        calls = call_function(submission, [case.arguments for case in cases], self._asking(place), self._call_s)
        if calls.problem is not None:
            return None, calls.problem
        lines, passed = [], 0
        for case, example, outcome in zip(cases, task.data["examples"], calls.outcomes, strict=True):
            if case.passed_by(outcome):
                passed += 1
            else:
                call = written_call(submission.name, example["args"])
                lines.append(f"{call} {outcome.told()}; expected {example['expect']}")
        return passed, "\n".join([f"{passed} of {len(cases)} examples pass.", *lines])

    def _ask(self, request: Mapping[str, Any]) -> Reply:
        reply = self._ask_once(request)
        # What ends a sandbox twice running is the submitted code, not the machine.
        return self._ask_once(request) if reply.result.ended is Ended.KILLED else reply

    def _ask_once(self, request: Mapping[str, Any]) -> Reply:
        with self._opener() as sandbox:
            return ask(sandbox, request, self._bounds(request), fresh=True)

    def _asking(self, place: Runs) -> Ask:
        return lambda request: ask(place, request, self._bounds(request), fresh=False)

    def _bounds(self, request: Mapping[str, Any]) -> Limits:
        calls = len(request.get("calls", ())) or 5
        cpu_s = min(MAX_CPU_S, 1.0 + self._call_s * calls)
        wall_s = _WALL_FACTOR * cpu_s
        return self._limits.but(cpu_s=cpu_s, wall_s=wall_s, reply_bytes=max(self._limits.reply_bytes, 8_000_000))
