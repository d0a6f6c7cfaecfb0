"""`CodeEnv`: compute a value, write or fix a function, or predict a program's output, with Python in a sandbox.

Sandboxes come from `agentgym.tools.sandbox`, tasks from `agentgym.tasks.code` or a file, the verdict from `grading`,
which runs submissions in separate sandboxes that no expected value enters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn, Unpack, get_args

from agentgym.base.choices import one_of
from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import Task, TaskSource
from agentgym.core.toolset import Toolset, tool
from agentgym.core.trajectory import Trajectory
from agentgym.envs.code.answers import AnswerText, defines, is_path, source_of
from agentgym.envs.code.calls import Submission, call_source
from agentgym.envs.code.grading import CodeGrader
from agentgym.envs.code.options import (
    CHANNELS,
    FILES,
    GATED,
    MAX_REFUSED,
    CodeArguments,
    run_limits,
    task_source,
    tool_names,
    with_cost,
)
from agentgym.envs.code.show import show_run
from agentgym.envs.code.verdict import CodeVerdict
from agentgym.envs.code.workspace import CodeWorkspace
from agentgym.eval.statistics import Decisions
from agentgym.procedural import Wording
from agentgym.tasks.code import CodeTasks
from agentgym.tasks.exporting import ANSWERS, HarborFolder, here_document
from agentgym.tools.sandbox import Result, Sandbox, SandboxLimits, SandboxSpec, open_sandbox
from agentgym.tools.sandbox.registry import choose, probe


def code_folder(task: Task) -> HarborFolder:
    """Return a task of the code environment as a Harbor task folder."""
    wants_function = task.data["kind"] in ("function", "fix")
    place = f"{ANSWERS}/{'solution.py' if wants_function else 'answer.txt'}"
    what = "function" if wants_function else "value, as a Python literal,"
    starter_code = str(task.data.get("code", "")) if wants_function else ""
    answer = str(task.gold["code"] if wants_function else task.gold["answer"])
    return HarborFolder(
        instruction=f"{task.prompt.rstrip()}\n\nWrite the {what} to {place}.",
        judge="agentgym.envs.code.judging_exported",
        settings={"answer": place},
        dockerfile=f"COPY solution.py {place}\n" if starter_code else "",
        context={"solution.py": starter_code} if starter_code else {},
        solve=f"#!/bin/bash\n{here_document(place, answer)}",
    )


def use_of_code(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return the shares of episodes that ran code, of tasks that need it and of others, and the F1 of using it.

    The F1 is left out if all tasks need code or none do. Episodes whose recording does not say whether the task needs
    code are ignored.
    """
    pairs = [(_used(t), bool(t.details["needs_code"])) for t in trajectories if "needs_code" in t.details]
    decisions = Decisions.of(pairs)
    shares: dict[str, float] = {}
    if needed := decisions.right + decisions.missed:
        shares["code used where needed"] = decisions.right / needed
    if others := decisions.wrong + decisions.rejected:
        shares["code used where not needed"] = decisions.wrong / others
    return shares | {"code use F1": decisions.f1} if needed and others else shares


def _used(trajectory: Trajectory) -> bool:
    return any(turn.rewards.get("used_code", 0.0) > 0 for turn in trajectory.turns)


SOLUTION_FILE = "solution.py"
"""The file of the function, if the environment offers file tools."""


def solve(task: Task, style: str, tools: Toolset) -> Solution:
    """Yield the calls that solve `task` with the available tools."""
    if task.data["kind"] in ("function", "fix"):
        yield from _write_function(task, style, tools)
        return
    if style != "direct" and "python" in tools:
        yield ToolCall("python", {"code": task.gold["code"]})
    yield ToolCall("submit", {"answer": task.gold["answer"]})


def _write_function(task: Task, style: str, tools: Toolset) -> Solution:
    """Yield the calls that write a function, try it and submit it, repeating the source only where necessary."""
    code, examples = task.gold["code"], task.data.get("examples", ())
    answer, tests = code, style == "full" and "test" in tools and bool(examples)
    if style == "full" and "write" in tools:
        if task.data["kind"] == "fix":
            yield ToolCall("view", {"path": SOLUTION_FILE})
        yield ToolCall("write", {"path": SOLUTION_FILE, "content": code})
        answer = SOLUTION_FILE
    elif style != "direct" and "python" in tools:
        trial_call = f"\n\nprint({call_source(task.data['entry_point'], examples[0]['args'])})\n" if examples else "\n"
        yield ToolCall("python", {"code": code if tests else code.rstrip("\n") + trial_call})
        answer = code if "write" in tools else task.data["entry_point"]
    if tests:
        yield ToolCall("test", {"code": code} if answer == code else {})
    yield ToolCall("submit", {"answer": answer})


SolutionStyle = Literal["full", "short", "direct"]

_PLAIN_PROMPT = "Solve the programming task; run code if it helps. Submit the value, or the source of the function."


class CodeEnv(Env):
    """Solve a programming task, running code on the way if it helps.

    Task: compute a value, write or fix a function, or predict the output of a program; hidden tests decide.
    Tools: `python(code)`, `test(code)` and `submit(answer)`; optionally `bash(command)`, `view(path, start, end)`,
        `edit(path, old, new)` and `write(path, content)`. A function that was defined or tested is submitted by name.
    Observation: terse text; the output (long output loses its middle), the useful lines of a traceback, and which
        limit ended a run.
    Reward: `outcome` 1 if the submitted value is right, or the submitted function passes every hidden test (examples
        included, unless a published check decides). Episodes that submit an answer earn smaller parts for code that ran
        and printed, and for hidden tests passed that no constant passes; those that solve the task earn some more for
        readable calls that ran without an error, and lose some for submissions that do not load (G-RA,
        arXiv 2508.10548).
    Episode end: an answer is submitted, or 8 turns have passed. Code that does not load and text that cannot be read as
        the value may be corrected; the third such submission counts as a wrong answer.
    Needs: a sandbox (`agentgym doctor`).
    Version history: v0, first version.

    Args:
        difficulty: Level or levels of the generated tasks, 1 to 5; all if not given.
        families: Names of task families; all if not given.
        kinds: Kinds of tasks, from `"value"`, `"function"`, `"fix"` and `"predict"`; all if not given.
        task_seed: Other seeds give other tasks.
        file: A file or folder to take tasks from instead (`agentgym.tasks.code.files`).
        format: Its format: `"humaneval"`, `"mbpp"`, `"gsm8k"` or `"quixbugs"`; detected from its fields if not given.
        split_by: How to split its entries: `"auto"`, `"file"`, `"hash"`, or the one split that they all belong to.
        strict: Refuse a file with a broken entry, instead of leaving the entry out.
        tools: Tools besides `submit`: `python`, `bash`, `files` and `test`, joined with `+`.
        stateful: Whether Python names and shell variables persist from one call to the next.
        backend: Sandbox backend (`agentgym.tools.sandbox.backends`); `"auto"` selects the strongest that works.
        allow_weak: Accept a backend that does not confine everything.
        limits: Bounds on a run (`SandboxLimits`, or its fields by name).
        call_s: Seconds of processor time that one call of a submitted function may take.
        preview_chars: Bytes of a run's output to show.
        tool_cost: Cost of each call before the answer, charged to solved episodes only.
        solution_style: Style of `solution`: `"full"` runs and tests the code first, `"short"` runs it, `"direct"`
            submits at once.
        wording: `"natural"`, or `"plain"`: a system message of few words, for very small models.
        tasks: A custom task source, instead of the choices above.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = CHANNELS
    files = FILES
    scheme = GATED
    system_prompt = (
        "Solve the programming task, running code where it helps, then submit the value that is asked for, or the "
        "source of the function, which hidden tests will judge. The first answer that loads is final, and so is "
        f"answer {MAX_REFUSED} if none of them loads."
    )
    states_turns = True
    example_call = ToolCall("python", {"code": "print(sum(range(10)))"})
    max_turns = 8

    harmless_arguments = Env.harmless_arguments | {
        "difficulty",
        "families",
        "kinds",
        "split_by",
        "strict",
        "task_seed",
        "tools",
        "stateful",
        "preview_chars",
        "tool_cost",
        "solution_style",
        "wording",
    }

    def __init__(
        self,
        *,
        tools: str | Sequence[str] = "python+test",
        stateful: bool = True,
        backend: str = "auto",
        allow_weak: bool = False,
        limits: SandboxLimits | Mapping[str, Any] | None = None,
        call_s: float = 4.0,
        preview_chars: int = 2000,
        tool_cost: float = 0.0,
        solution_style: SolutionStyle = "full",
        wording: Wording = "natural",
        tasks: TaskSource | None = None,
        **kwargs: Unpack[CodeArguments],
    ):
        choices, others = FILES.divide(kwargs)
        self.tools = type(self).tools.only(*tool_names(tools))
        others["scheme"] = with_cost(self.choose_scheme(others.get("scheme")), tool_cost)
        super().__init__(tasks=task_source(tasks, choices), **others)
        self.wording: Wording = one_of("wording", wording, get_args(Wording))
        if self.wording == "plain":
            self.system_prompt, self.states_turns, self.example_call = _PLAIN_PROMPT, False, None
        self.solution_style: SolutionStyle = one_of("solution_style", solution_style, get_args(SolutionStyle))
        self._spec = SandboxSpec(limits=run_limits(limits))
        self._backend, self._allow_weak = backend, allow_weak
        self._stateful, self._preview_chars = stateful, preview_chars
        self._grader = CodeGrader(self._open_sealed, self._spec.limits, call_s)
        self._workspace: CodeWorkspace | None = None
        self._draft = ""
        self._ran_code = self._worked = False
        self._refused = 0
        self._verdict: CodeVerdict | None = None

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return generated tasks of all kinds and levels."""
        return CodeTasks()

    def start(self, task: Task) -> str:
        """Return the task, and the path of its file."""
        self.release()
        self._draft = str(task.data.get("code", "")) if self._wants_function else ""
        self._verdict, self._ran_code, self._worked, self._refused = None, False, False, 0
        if self._has_files:
            return f"{task.prompt}\n\nPut the function into {SOLUTION_FILE}."
        return task.prompt

    @tool
    def python(self, code: str) -> str:
        """Run Python code and show what it prints.

        Args:
            code: Source code.
        """
        code = source_of(code)
        if self._wants_function and defines(code, self.task.data["entry_point"]):
            self._draft = code
        return self._report(self.workspace.python(code))

    @tool
    def bash(self, command: str) -> str:
        """Run a shell command and show what it prints.

        Args:
            command: The command line.
        """
        return self._report(self.workspace.bash(command))

    @tool
    def view(self, path: str, start: int = 1, end: int | None = None) -> str:
        """Show lines of a file with their numbers.

        Args:
            path: The file.
            start: First line to show.
            end: Last line to show.
        """
        return self._done(self.workspace.view(path, start, end))

    @tool
    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text in a file.

        Args:
            path: The file.
            old: The text to replace; it must occur exactly once.
            new: The replacement.
        """
        return self._done(self.workspace.edit(path, old, new))

    @tool
    def write(self, path: str, content: str) -> str:
        """Write a file.

        Args:
            path: The file.
            content: The complete new content.
        """
        self.workspace.write(path, content)
        return self._done(f"Wrote {path}.")

    @tool
    def test(self, code: str = "") -> str:
        """Run the examples of the task on your function.

        Args:
            code: Source of the function; by default, your latest version.
        """
        if not self.task.data.get("examples"):
            raise ToolError("This task has no examples to run. Submit the answer.")
        if code.strip():
            self._draft = source_of(code)
        source = self._draft if code.strip() else self._last_version()
        passed, report = self._grader.examples(self.task, self._submission(source), self.workspace)
        self._used_code(worked=bool(passed))
        self.reward("ran", float(passed is not None))
        return report

    @tool
    def submit(self, answer: AnswerText) -> str:
        """Give the final answer.

        Args:
            answer: The value, or the source of the function; its name alone submits your latest version.
        """
        if not answer.strip():
            raise ToolError("The answer is empty. Submit a value, or the source of the function.")
        if self._wants_function:
            verdict = self._grader.function(self.task, self._submission(self._source_in(answer)))
        else:
            verdict = self._grader.value(self.task, answer)
        if verdict.problem is not None and self._refused + 1 < MAX_REFUSED:
            self._refuse(verdict.problem)
        self._settle_answer(verdict)
        return "Submitted."

    def grade(self) -> None:
        """Close the sandbox, which the episode no longer needs."""
        self.release()

    def details(self) -> Mapping[str, Any]:
        """Return the sandbox, whether the task needs code, the grading method, and the rule that decided on a value."""
        tier = choose(self._backend, self._spec, self._allow_weak).tier
        gaps = [threat.value for threat in probe(tier).gaps]
        details: dict[str, Any] = {"sandbox": {"tier": tier.value, "not_wholly_held": gaps}}
        if (needs_code := self.task.data.get("needs_code")) is not None:
            details["needs_code"] = needs_code
        if self._verdict is None:
            return details
        decision = {} if self._verdict.rule is None else {"decision": self._verdict.rule.value}
        return details | {"grading": self._verdict.how.value} | decision

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        """Return how often code was used in tasks that need it and in those that do not."""
        return use_of_code(trajectories)

    def solution(self, task: Task) -> Solution:
        """Run the gold code, test a function on its examples, and submit the answer."""
        return solve(task, self.solution_style, self.tools)

    def harbor_folder(self, task: Task) -> HarborFolder:
        """Return a task as a Harbor task folder."""
        return code_folder(task)

    def release(self) -> None:
        """Close the sandbox of the episode."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    @property
    def workspace(self) -> CodeWorkspace:
        """The workspace of the current episode."""
        if self._workspace is None:
            staged = {SOLUTION_FILE: self._draft} if self._has_files else {}
            self._workspace = CodeWorkspace(self._open, self._stateful, staged)
        return self._workspace

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_workspace": None}

    @property
    def _wants_function(self) -> bool:
        return self.task.data["kind"] in ("function", "fix")

    @property
    def _has_files(self) -> bool:
        return "view" in self.tools and self._wants_function

    def _open(self) -> Sandbox:
        return open_sandbox(self._spec, backend=self._backend, allow_weak=self._allow_weak)

    def _open_sealed(self) -> Sandbox:
        """Open a sandbox for hidden tests, which another attempt at the task must not be able to learn."""
        return open_sandbox(replace(self._spec, sealed=True), backend=self._backend, allow_weak=self._allow_weak)

    def _submission(self, source: str) -> Submission:
        return Submission(source, self.task.data["entry_point"], self.task.data.get("prelude", ""))

    def _source_in(self, answer: str) -> str:
        """Return the source in an answer, or that of the function or file that it names."""
        text = answer.strip()
        if text == self.task.data["entry_point"]:
            return self._own_version()
        return self.workspace.read(text) if self._has_files and is_path(text) else source_of(answer)

    def _own_version(self) -> str:
        """Return the latest version. Raises `ToolError` if it is still the code to be repaired."""
        source = self._last_version()
        if source.strip() == str(self.task.data.get("code", "")).strip():
            raise ToolError("The function is still as it was given. Correct it before you submit it.")
        return source

    def _last_version(self) -> str:
        source = self.workspace.read(SOLUTION_FILE) if self._has_files else self._draft
        if not source.strip():
            name = self.task.data["entry_point"]
            raise ToolError(f"There is no {name!r} yet. Give its source, or define it with the python tool first.")
        return source

    def _report(self, result: Result) -> str:
        """Return the text of a run, and set its rewards."""
        self._used_code(worked=result.ok and bool(result.stdout.strip()))
        self.reward("ran", float(result.ok))
        return show_run(result, self._preview_chars)

    def _done(self, observation: str) -> str:
        self.reward("ran", 1.0)
        self.reward("tool_cost", 1.0)
        return observation

    def _used_code(self, *, worked: bool) -> None:
        self.reward("tool_cost", 1.0)
        if not self._ran_code:
            self.reward("used_code", 1.0)
            self._ran_code = True
        if worked and not self._worked:
            self.reward("worked", 1.0)
            self._worked = True

    def _refuse(self, problem: str) -> NoReturn:
        """Reject an answer that does not load or cannot be read; the number of rejections is limited."""
        self._refused += 1
        self.reward("refused", 1.0)
        remaining, answer = MAX_REFUSED - self._refused, "the value"
        if self._wants_function:
            name = self.task.data["entry_point"]
            answer = f"the corrected source of {name!r}, or its name alone for your latest version"
        raise ToolError(
            f"{problem}\nIt was not graded. Submit {answer}; "
            f"{remaining} {'submission is' if remaining == 1 else 'submissions are'} left."
        )

    def _settle_answer(self, verdict: CodeVerdict) -> None:
        self._verdict = verdict
        self.reward("ran", 1.0)
        self.reward("submitted", 1.0)
        self.reward("visible", verdict.visible)
        self.reward("hidden", verdict.hidden)
        self.reward("progress", verdict.progress)
        self.reward(OUTCOME, float(verdict.solved))
        self.finish(Reason.SOLVED if verdict.solved else Reason.ANSWERED)
