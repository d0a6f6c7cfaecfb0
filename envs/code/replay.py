"""Grading by a check of asserts, without letting it meet the submitted code.

The check runs in a sandbox of its own with a stand-in, which answers from a table of what the submitted function
returned in *its* sandbox. Which arguments are needed is learnt from the gold function, and asked for where that is
not enough. A check whose values are no plain data is left to `canaries`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agentgym.envs.code.asking import Ask
from agentgym.envs.code.calls import Outcome, Submission, call_function
from agentgym.envs.code.canaries import grade_together
from agentgym.envs.code.verdict import How, Verdict, read_cases, share
from agentgym.errors import TaskError
from agentgym.task import Task

MAX_ROUNDS = 30
"""Times that a check may ask for arguments with which it did not call the gold function."""
_KEPT = 4096


@dataclass(frozen=True)
class Script:
    """What a check does when it meets the gold function."""

    calls: tuple[tuple[Any, Any], ...]
    """Trees of arguments, and of what the gold function returns (`None` if it is an iterator)."""
    plain: bool
    """Whether all of it is plain data."""


_SCRIPTS: dict[str, Script] = {}
"""What this process knows about checks, by task."""


def grade_check(task: Task, submission: Submission, ask: Ask, call_s: float) -> Verdict:
    """Return whether a submitted function passes the check of a task."""
    script = _script(task, ask)
    examples = read_cases(task, "data['examples']", task.data.get("examples", ()))
    wanted = [case.arguments for case in examples]
    if script.plain:
        wanted += [arguments for arguments, _ in script.calls]
    calls = call_function(submission, wanted, ask, call_s)
    if calls.problem is not None:
        return Verdict(False, 0.0, 0.0, How.REPLAY, calls.problem)
    passed = [case.passed_by(outcome) for case, outcome in zip(examples, calls.outcomes, strict=False)]
    if not script.plain:
        solved = all(passed) and grade_together(task, submission, ask)
        return Verdict(solved, share(passed, solved), float(solved), How.CANARIES)
    outcomes = calls.outcomes[len(examples) :]
    table = {_key(arguments): outcome for (arguments, _), outcome in zip(script.calls, outcomes, strict=True)}
    solved = all(passed) and _replay(task, submission, table, ask, call_s)
    return Verdict(solved, share(passed, solved), 1.0 if solved else _likeness(script, outcomes), How.REPLAY)


def _script(task: Task, ask: Ask) -> Script:
    if task.hash not in _SCRIPTS:
        gold = Submission(task.gold["code"], task.data["entry_point"], task.data.get("prelude", ""))
        reply = ask(gold.request("record", check=task.gold["check"]))
        verdict = reply.line_with("verdict").get("verdict")
        if verdict not in ("passed", "unfit"):
            found = reply.first("message") or reply.result.ended.value
            raise TaskError(f"the gold code of task {task.id!r} does not pass its own check: {found}")
        calls = tuple((line["called"], line.get("gave")) for line in reply.lines if "called" in line)
        if len(_SCRIPTS) >= _KEPT:
            _SCRIPTS.clear()
        _SCRIPTS[task.hash] = Script(calls, verdict == "passed")
    return _SCRIPTS[task.hash]


def _replay(task: Task, submission: Submission, table: dict[str, Outcome], ask: Ask, call_s: float) -> bool:
    for _ in range(MAX_ROUNDS):
        answers = {key: outcome.answer() for key, outcome in table.items()}
        if None in answers.values():
            return False
        request = {"op": "judge", "name": submission.name, "prelude": submission.prelude, "check": task.gold["check"]}
        reply = ask({**request, "table": list(answers.items())})
        needed = reply.first("need")
        if needed is None:
            return reply.result.ok and reply.first("verdict") == "passed"
        calls = call_function(submission, [needed], ask, call_s)
        if not calls.outcomes:
            return False
        table[_key(needed)] = calls.outcomes[0]
    return False


def _likeness(script: Script, outcomes: tuple[Outcome, ...]) -> float:
    """Return the share of calls that give what the gold function gives; below 1, for the check has failed."""
    same = [
        outcome.problem is None and outcome.tree == gave
        for (_, gave), outcome in zip(script.calls, outcomes, strict=True)
    ]
    return min(share(same, False), 1.0 - 1.0 / max(1, len(same)))


def _key(arguments: Any) -> str:
    return json.dumps(arguments, separators=(",", ":"))
