"""Let a thief play programming tasks and count the hidden inputs that it reads.

python -m benchmarks.code_leaks --humaneval PATH --quixbugs PATH

The thief (`_code_thief.py`) plays several episodes of every task in one environment. A task counts as leaked if a
hidden input appears anywhere in what the thief was shown and nowhere in the task itself, or if an error's kind reveals
that something was found. In addition, every request to a sandbox is inspected: before the last submission none may
contain a hidden input; after it, a process of submitted code may receive one. (A check whose values cannot leave their
process is the exception, `canaries`; all that the thief learns from it is that the episode is over.)

The control is the same thief against the earlier grader: all inputs in one process, the whole message shown.
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
from agentgym.tasks.code.files import CodeFileTasks
from agentgym.tools.sandbox import Result, Sandbox
from benchmarks._code_thief import episodes
from benchmarks._report import Claim, write

TASKS = 200
CONTROLS = 20
_TOKEN = re.compile(r"-?\d+(?:\.\d+)?|[^\W\d_]{2,}")
_CLOSING = re.compile(_TOKEN.pattern + r"|[\])}]+")
_LEAST_TOKENS, _LEAST_TEXT = 4, 8


@dataclass
class Sent:
    """The requests sent to the grader's sandboxes since the last step."""

    requests: list[Mapping[str, Any]] = field(default_factory=list)


class RecordedCodeEnv(CodeEnv):
    """Records every request of the grader; the runs are real."""

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
    """The control: calls the function with all inputs in one process, and shows the model the resulting message."""

    def function(self, task: Task, submission: Submission) -> Verdict:
        known = read_cases(task, "examples", task.data.get("examples", ()))
        hidden = read_cases(task, "cases", task.gold.get("cases", ()))
        with Runner(self._opener, self._limits, Budget(), self._call_s) as runner:
            found = call_together(submission, [case.arguments for case in known + hidden], runner.apart, self._call_s)
        return Verdict(False, 0.0, 0.0, 0.0, How.CASES, found.problem)


class Open(RecordedCodeEnv):
    """The environment with the careless grader."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._grader = Careless(self._open, self._spec.limits, 4.0)


@dataclass(frozen=True)
class Rendering:
    """Text in which a value looks the same as a literal, as JSON and as a tree."""

    flat: str
    """Its numbers and words."""
    closed: str
    """The same with a mark where a bracket closes, so that two adjacent values do not look like a third."""

    @classmethod
    def of(cls, text: str) -> Rendering:
        flat = " ".join(_TOKEN.findall(text))
        closed = " ".join("]" if part[0] in "])}" else part for part in _CLOSING.findall(text))
        return cls(f" {flat} ", f" {closed} ")


@dataclass(frozen=True)
class Needle:
    """A hidden input to look for."""

    text: str
    closed: bool
    """Which rendering to search. A tree closes more brackets than a literal does for every entry of a dict."""

    @classmethod
    def of(cls, literal: str) -> Needle:
        rendering, closed = Rendering.of(literal), "{" not in literal
        text = rendering.closed.rstrip(" ]") + " " if closed else rendering.flat
        return cls(text, closed)

    @property
    def is_long(self) -> bool:
        """Whether it is too long to appear by chance."""
        return len(self.text.split()) >= _LEAST_TOKENS or len(self.text) >= _LEAST_TEXT

    def is_in(self, rendering: Rendering) -> bool:
        return self.text in (rendering.closed if self.closed else rendering.flat)


def needles(task: Task) -> set[Needle]:
    """Return the hidden inputs that would prove a leak: too long to appear by chance, and absent from the task."""
    known = Rendering.of(json.dumps([task.prompt, dict(task.data)]) + task.prompt)
    inputs = [case["args"] for case in task.gold.get("cases", ())] + list(_literals(task.gold.get("check", "")))
    return {needle for needle in map(Needle.of, inputs) if needle.is_long and not needle.is_in(known)}


def _literals(check: str) -> Iterator[str]:
    """Yield the arguments with which a check calls the candidate."""
    for node in ast.walk(ast.parse(check)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "candidate":
            yield ", ".join(map(ast.unparse, node.args))


def play(env: RecordedCodeEnv, task: Task) -> dict[str, Any]:
    """Play all of the thief's episodes; return what it read, and what was within its reach."""
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
    read: set[Needle] = set()
    for calls in episodes(task):
        env.reset(options={"task": task})
        for call in calls:
            env.sent.requests.clear()
            step = env.step(assistant("", [call]))
            shown = " ".join(text_of(message) for message in step.observation)
            read |= {needle for needle in secret if needle.is_in(Rendering.of(shown))}
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


def _held(request: Mapping[str, Any], secret: set[Needle]) -> int:
    """Return the number of hidden inputs in a request, not counting those submitted or contained in longer ones."""
    sent = Rendering.of(json.dumps({key: value for key, value in request.items() if key != "source"}))
    held = [needle for needle in secret if needle.is_in(sent)]
    return sum(not any(one.text != other.text and one.text in other.text for other in held) for one in held)


def drawn(sources: Mapping[str, Path | None]) -> list[Task]:
    """Return tasks of every kind that asks for a function and has inputs to hide, and generated ones for the rest."""
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
    parser.add_argument("--humaneval", type=Path, help="HumanEval's JSON lines file")
    parser.add_argument("--quixbugs", type=Path, help="the folder of QuixBugs, or a JSON lines file made from it")
    options = parser.parse_args()
    tasks = drawn(vars(options))
    env, careless = RecordedCodeEnv(), Open()
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
