"""Let a thief play programming tasks and count the hidden inputs that it reads.

python -m benchmarks.code_leaks --humaneval PATH --quixbugs PATH

The thief (`_code_thief.py`) plays several episodes of every task in one environment. A task counts as leaked if a
hidden input stands anywhere in what the thief was shown and nowhere in what the task tells, or if an error's kind tells
that something was found. Beside that, every request that goes into a sandbox is looked at: before the last submission
none may hold a hidden input, and after it a process of submitted code may be sent one. (A check whose values cannot
leave their process is the exception, `canaries`; of it the thief learns that the episode is over.)

The control is the same thief against the grader as it was: all inputs in one process, the whole message shown.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from agentgym.envs.code import CodeEnv
from agentgym.envs.code.asking import Runner
from agentgym.envs.code.budget import Budget
from agentgym.envs.code.calls import Submission, call_together
from agentgym.envs.code.grading import Grader
from agentgym.envs.code.verdict import How, Verdict, read_cases
from agentgym.messages import assistant, text_of
from agentgym.task import Task, iterate
from agentgym.tasks.code import CodeTasks
from agentgym.tasks.code_files import CodeFileTasks
from agentgym.tools.sandbox import Result, Sandbox
from benchmarks._code_thief import episodes
from benchmarks._report import Claim, write

TASKS = 200
CONTROLS = 20
_TOKEN = re.compile(r"-?\d+(?:\.\d+)?|[^\W\d_]{2,}")
_LEAST_TOKENS, _LEAST_TEXT = 4, 8


@dataclass
class Sent:
    """What has gone into the sandboxes of the grader since the last step."""

    requests: list[Mapping[str, Any]] = field(default_factory=list)


class Watched(CodeEnv):
    """Notes every request of the grader; the runs are real."""

    def __init__(self, **kwargs: Any):
        self.sent = Sent()
        super().__init__(tools="python+test", **kwargs)

    def _open(self) -> Sandbox:
        sandbox = super()._open()
        run = sandbox.exec

        def noted(*args: Any, **kwargs: Any) -> Result:
            if kwargs.get("stdin"):
                self.sent.requests.append(json.loads(kwargs["stdin"]))
            return run(*args, **kwargs)

        sandbox.exec = noted  # type: ignore[method-assign]
        return sandbox


class Careless(Grader):
    """Calls the function with all inputs in one process, and shows the model what that says: the control."""

    def function(self, task: Task, submission: Submission) -> Verdict:
        known = read_cases(task, "examples", task.data.get("examples", ()))
        hidden = read_cases(task, "cases", task.gold.get("cases", ()))
        with Runner(self._opener, self._limits, Budget(), self._call_s) as runner:
            found = call_together(submission, [case.arguments for case in known + hidden], runner.apart, self._call_s)
        return Verdict(False, 0.0, 0.0, 0.0, How.CASES, found.problem)


class Open(Watched):
    """The environment with the careless grader."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._grader = Careless(self._open, self._spec.limits, 4.0)


def tokens(text: str) -> str:
    """Return numbers and words of a text, so that a value looks the same as a literal, as JSON and as a tree."""
    return " " + " ".join(_TOKEN.findall(text)) + " "


def needles(task: Task) -> set[str]:
    """Return what gives a hidden input away: inputs long enough to be told from chance that the task does not tell."""
    known = tokens(json.dumps([task.prompt, dict(task.data)]) + task.prompt)
    inputs = [case["args"] for case in task.gold.get("cases", ())] + list(_literals(task.gold.get("check", "")))
    found = {tokens(text) for text in inputs}
    long = {text for text in found if len(text.split()) >= _LEAST_TOKENS or len(text) >= _LEAST_TEXT}
    return {text for text in long if text not in known}


def _literals(check: str) -> Iterator[str]:
    """Yield the arguments with which a check calls the candidate."""
    for node in ast.walk(ast.parse(check)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "candidate":
            yield ", ".join(map(ast.unparse, node.args))


def play(env: Watched, task: Task) -> dict[str, Any]:
    """Play all of the thief's episodes; return what was read, and what was in reach of it."""
    secret = needles(task)
    row: dict[str, Any] = {
        "task": task.id,
        "inputs": len(secret),
        "read": 0,
        "told": 0,
        "early": 0,
        "most": 0,
        "how": "",
    }
    read: set[str] = set()
    for calls in episodes(task):
        env.reset(options={"task": task})
        for call in calls:
            env.sent.requests.clear()
            step = env.step(assistant("", [call]))
            shown = tokens(" ".join(text_of(message) for message in step.observation))
            read |= {text for text in secret if text in shown}
            row["told"] += call.name == "submit" and "LookupError" in shown
            if not step.terminated:
                row["early"] += sum(_held(request, secret) for request in env.sent.requests)
            else:
                row["how"] = step.info.get("grading", "")
                apart = [request for request in env.sent.requests if request["op"] == "call"]
                row["most"] = max([row["most"], *(_held(request, secret) for request in apart)])
            if step.terminated:
                break
    return {**row, "read": len(read)}


def _held(request: Mapping[str, Any], secret: set[str]) -> int:
    """Return how many hidden inputs a request holds, apart from what was submitted."""
    sent = tokens(json.dumps({key: value for key, value in request.items() if key != "source"}))
    return sum(text in sent for text in _apart(secret) if text in sent)


def _apart(secret: set[str]) -> set[str]:
    """Leave out inputs that are part of a longer one."""
    return {text for text in secret if not any(text != other and text in other for other in secret)}


def drawn(sources: Mapping[str, Path | None]) -> list[Task]:
    """Return tasks of every kind that wants a function and has inputs to hide, generated ones for the rest."""
    found = []
    for name, path in sources.items():
        if path is not None:
            source = CodeFileTasks(path, format=name)
            tasks = chain.from_iterable(iterate(source, split) for split in source.splits)
            found += [task for task in islice(tasks, 60) if needles(task)]
    made = CodeTasks(kinds=["function", "fix"])
    some = (task for task in iterate(made, "train", 10 * TASKS) if needles(task))
    return found + list(islice(some, TASKS - len(found)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--humaneval", type=Path, help="HumanEval's JSON lines")
    parser.add_argument("--quixbugs", type=Path, help="the folder of QuixBugs, or JSON lines made of it")
    options = parser.parse_args()
    tasks = drawn(vars(options))
    env, careless = Watched(), Open()
    rows = []
    for task in tasks:
        rows.append({"grader": "this", **play(env, task)})
        if len(rows) % 20 == 0:
            print(f"{len(rows)} of {len(tasks)} tasks", flush=True)
    for task in [task for task in tasks if "cases" in task.gold][-CONTROLS:]:
        rows.append({"grader": "careless", **play(careless, task)})
    env.close()
    careless.close()
    seen = sum(row["read"] > 0 for row in rows if row["grader"] == "careless")
    this, other = ([row for row in rows if row["grader"] == name] for name in ("this", "careless"))
    write(
        "code_leaks",
        rows,
        [
            Claim("code_leaks_tasks", len(this), ">=", TASKS),
            Claim("code_inputs_leaked", sum(row["read"] + row["told"] > 0 for row in this), "<=", 0),
            Claim("code_leaks_inputs_sent_before_the_last_submission", sum(row["early"] for row in this), "<=", 0),
            Claim("code_leaks_most_inputs_in_a_process", max(row["most"] for row in this), "<=", 1),
            Claim("code_leaks_read_from_a_careless_grader", seen / len(other), ">=", 0.9),
        ],
    )


if __name__ == "__main__":
    main()
