"""Grading by a check of asserts that never shares a process with the submitted code.

The check runs in a sandbox of its own with a stand-in for the function. The stand-in answers from a table of results
that the submitted function returned in another sandbox. The calls to make are recorded with the gold function; the
check may request further ones. Checks whose values are not plain data are graded by `canaries`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import BrokenTask
from agentgym.core.task import Task
from agentgym.envs.code.asking import Ask, Runner
from agentgym.envs.code.calls import FunctionOutcome, Submission, call_apart, call_together
from agentgym.envs.code.canaries import grade_together
from agentgym.envs.code.plain import NotPlain, decode
from agentgym.envs.code.verdict import CodeVerdict, How, matches, passed_by, progress, read_cases, room_for, share

MAX_ROUNDS = 30
"""How many calls a check may request that it did not make to the gold function."""
_KEPT = 4096


@dataclass(frozen=True)
class GoldCalls:
    """The calls that a check makes to the gold function."""

    calls: dict[str, Any]
    """The gold function's results as trees (`None` for an iterator), by the text of the arguments' tree."""
    plain: bool
    """Whether all values are plain data."""

    @property
    def arguments(self) -> list[Any]:
        """Trees of the arguments."""
        return [json.loads(key) for key in self.calls]


_SCRIPTS: dict[str, GoldCalls] = {}
"""Scripts of checks cached in this process, by task."""


def grade_check(task: Task, submission: Submission, runner: Runner, ask_gold: Ask, call_s: float) -> CodeVerdict:
    """Return whether a submitted function passes the check of a task. The examples do not decide.

    Args:
        task: The task.
        submission: The submission; it loads.
        runner: Runs it.
        ask_gold: Runs the gold function, once per task, with a time budget of its own.
        call_s: Seconds of processor time that one call may take.
    """
    script = _script(task, ask_gold)
    examples = read_cases(task, "data['examples']", task.data.get("examples", ()))
    example_arguments = [case.arguments for case in examples]
    passed = passed_by(call_together(submission, example_arguments, runner.together, call_s).outcomes, examples)
    if not script.plain:
        solved = grade_together(task, submission, runner.apart, ask_gold)
        return CodeVerdict(solved, share(passed, solved), float(solved), float(solved), How.CANARIES)
    outcomes = call_apart(submission, script.arguments, example_arguments, runner.together, call_s)
    table = dict(zip(script.calls, outcomes, strict=True))
    solved = _replay(task, submission, table, example_arguments, runner, call_s)
    alike = {key: solved or _is_alike(table[key], gave) for key, gave in script.calls.items()}
    unseen = [key for key in script.calls if key not in map(_key, example_arguments)]
    return CodeVerdict(
        solved,
        visible=share(passed, solved),
        # The check failed, so the share stays below 1 however similar the results are.
        hidden=1.0 if solved else min(share([*alike.values()], False), 1.0 - 1.0 / max(1, len(alike))),
        progress=progress(
            [alike[key] for key in unseen],
            [json.loads(key) for key in unseen],
            [script.calls[key] for key in unseen],
            solved,
        ),
        how=How.REPLAY,
    )


def _script(task: Task, ask_gold: Ask) -> GoldCalls:
    if task.hash not in _SCRIPTS:
        gold = Submission(task.gold["code"], task.data["entry_point"], task.data.get("prelude", ""))
        reply = ask_gold(gold.request("record", check=task.gold["check"]))
        verdict = reply.line_with("verdict").get("verdict")
        if verdict not in ("passed", "unfit"):
            reason = reply.first("message") or reply.result.ended.value
            raise BrokenTask(f"the gold code of task {task.id!r} does not pass its own check: {reason}")
        calls = {_key(line["called"]): line.get("gave") for line in reply.lines if "called" in line}
        if len(_SCRIPTS) >= _KEPT:
            _SCRIPTS.clear()
        _SCRIPTS[task.hash] = GoldCalls(calls, verdict == "passed")
    return _SCRIPTS[task.hash]


def _replay(
    task: Task,
    submission: Submission,
    table: dict[str, FunctionOutcome],
    example_arguments: Sequence[Any],
    runner: Runner,
    call_s: float,
) -> bool:
    """Whether the check passes on the function's results; makes the calls that the check requests."""
    request = {"op": "judge", "name": submission.name, "prelude": submission.prelude, "check": task.gold["check"]}
    for _ in range(MAX_ROUNDS):
        answers = {key: outcome.answer() for key, outcome in table.items()}
        if None in answers.values():
            return False
        reply = runner.apart({**request, "table": list(answers.items())})
        needed = reply.first("need")
        if needed is None:
            return reply.result.ok and reply.first("verdict") == "passed"
        table[_key(needed)] = call_apart(submission, [needed], example_arguments, runner.together, call_s)[0]
    return False


def _is_alike(outcome: FunctionOutcome, gave: Any) -> bool:
    """Whether a call returned what the gold function returns."""
    try:
        return gave is not None and matches(outcome.value(room_for(json.dumps(gave))), decode(gave))
    except NotPlain:
        return False


def _key(arguments: Any) -> str:
    return json.dumps(arguments, separators=(",", ":"))
