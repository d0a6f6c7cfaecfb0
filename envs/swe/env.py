"""`SWEEnv`: fix a repository: read it, change it, run its tests, and submit.

Sandboxes come from `agentgym.tools.sandbox`, tasks from `agentgym.tasks.swe` or a file of instances, the verdict from
`grading`, which never runs anything in the sandbox that the agent worked in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym.base.choices import one_of
from agentgym.base.errors import ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import Task, TaskSource
from agentgym.core.toolset import tool
from agentgym.envs.swe.exporting import swe_folder
from agentgym.envs.swe.filtering import filtered, is_test
from agentgym.envs.swe.grading import SWEGrader, SWEVerdict
from agentgym.envs.swe.options import CHANNELS, FILES, Tier, above_zero, aimed, g_ra, run_limits, task_source
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes, put_tree, read_tree
from agentgym.envs.swe.source import repository_of
from agentgym.envs.swe.workspace import RepositoryWorkspace
from agentgym.tasks.exporting import HarborFolder
from agentgym.tasks.swe.bundled import BundledSWETasks
from agentgym.tasks.swe.pytest_folder import require_pytest
from agentgym.tools.patches import FilePatch, localisation, parse_patch, render_patch, similarity
from agentgym.tools.sandbox import Ended, Result, SandboxLimits
from agentgym.tools.text_files import steady

MAX_COMMAND_BYTES = 100_000
"""Longer commands cannot be passed to a program on some systems."""


def bash_command(command: str) -> list[str]:
    """Return the program that runs a shell command. Raises `ToolError` if it cannot be passed to a program."""
    if not command.strip():
        raise ToolError("The command is empty.")
    _check(command, "command")
    return ["bash", "-c", command]


def pytest_arguments(paths: Sequence[str]) -> list[str]:
    """Return pytest arguments that run tests as in grading. Raises `ToolError` for an option among the paths."""
    for path in paths:
        _check(path, "path")
        if path.startswith("-"):
            raise ToolError(f"{path!r} is not a path. Give test files, folders or test ids; use run for options.")
    options = ["-q", "--tb=short", "--no-header", "-c", "/dev/null", "--rootdir", ".", "-p", "no:cacheprovider"]
    return [*options, "--import-mode=importlib", "-W", "ignore", "--color=no", *paths]


def _check(text: str, what: str) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise ToolError(f"The {what} contains lone surrogates.") from None
    if "\0" in text:
        raise ToolError(f"The {what} contains a NUL character.")
    if size > MAX_COMMAND_BYTES:
        raise ToolError(f"The {what} has {size} bytes, too many; write a script and run that.")


_LIMITS = {
    Ended.TIMEOUT: "It took too long and was stopped.",
    Ended.CPU: "It used too much CPU time and was stopped.",
    Ended.MEMORY: "It used too much memory and was stopped.",
    Ended.PROCESSES: "It started too many processes and was stopped.",
    Ended.OUTPUT: "It printed too much and was stopped.",
    Ended.FILE_SIZE: "It wrote too large a file and was stopped.",
    Ended.DISK: "It filled the disk and was stopped.",
    Ended.FILES: "It created too many files and was stopped.",
}


def show_run(result: Result) -> str:
    """Return what a command printed and how it ended."""
    printed = "\n".join(part for part in (result.out.rstrip(), result.err.rstrip()) if part)
    return "\n".join(part for part in (steady(printed), _ending(result)) if part)


def show_tests(result: Result) -> str:
    """Return what pytest printed, without durations."""
    return show_run(result) or "No output."


def _ending(result: Result) -> str:
    if result.ended is Ended.EXITED:
        return "" if result.exit_code == 0 else f"(exit code {result.exit_code})"
    if result.ended is Ended.SIGNALED:
        return f"(killed by signal {result.signal})"
    return f"({_LIMITS.get(result.ended, 'It was stopped.')})"


_AROUND = 12
_MAX_STEPS = 20
"""Limit on the steps of viewing and editing; a larger patch is applied at once."""


def solve(repository: Repository, *, full: bool) -> Solution:
    """Yield the calls that fix a repository.

    Args:
        repository: The repository to fix.
        full: View each place, edit it and run the tests, instead of applying the patch and submitting.
    """
    patch = repository.instance.gold_patch
    if not full:
        yield ToolCall("apply_patch", {"patch": patch})
        yield ToolCall("submit")
        return
    yield ToolCall("list_files")
    patches = parse_patch(patch)
    if 2 * sum(len(file_patch.hunks) for file_patch in patches) > _MAX_STEPS:
        yield ToolCall("apply_patch", {"patch": patch})
    else:
        for file_patch in patches:
            yield from _changes(repository, file_patch)
    tests = [path for path in repository.hidden.files if is_test(path) and path in repository.files]
    yield ToolCall("run_tests", {"paths": tests} if tests else {})
    yield ToolCall("submit")


def _changes(repository: Repository, patch: FilePatch) -> Iterator[ToolCall]:
    """Yield views and edits of one file; changes without a unique text to replace are applied as a patch."""
    text = repository.files.get(patch.path, b"").decode("utf-8", "replace")
    edits = list(_edits(patch, text))
    if patch.path != patch.original or len(edits) < len(patch.hunks) or not edits or "\r" in text:
        yield ToolCall("apply_patch", {"patch": render_patch([patch])})
        return
    for hunk, edit in zip(patch.hunks, edits, strict=True):
        start, end = max(1, hunk.new_start - _AROUND), hunk.new_start + len(hunk.lines) + _AROUND
        yield ToolCall("view", {"path": patch.path, "start": start, "end": end})
        yield edit


def _edits(patch: FilePatch, text: str) -> Iterator[ToolCall]:
    """Yield the hunks as exact replacements, as long as their old lines occur in the file once."""
    for hunk in patch.hunks:
        old, new = "".join(hunk.old_lines), "".join(hunk.new_lines)
        if not old or text.count(old) != 1:
            return
        text = text.replace(old, new)
        yield ToolCall("edit", {"path": patch.path, "old": old, "new": new})


_VERDICTS: BoundedCache[SWEVerdict] = BoundedCache(512)


def verdict_on(grader: SWEGrader, repository: Repository, worked: Mapping[str, bytes]) -> SWEVerdict:
    """Return the verdict on an agent's work, from the cache if it is known."""
    changes = filtered(repository.files, worked, repository.gold_paths)
    digest = hashlib.sha256(repr(sorted(changes.dropped.items())).encode("utf-8", "surrogateescape"))
    for path in changes.changed:
        data = changes.tree.get(path)
        digest.update(f"\0{path}\0{-1 if data is None else len(data)}\0".encode("utf-8", "surrogateescape"))
        digest.update(data or b"")
    return _VERDICTS.get((repository.key, digest.hexdigest()), lambda: grader.judge(repository, changes))


SolutionStyle = Literal["full", "short"]


class SWEEnv(Env):
    """Fix a repository.

    Task: a repository with a bug and an issue about it, with code that shows the bug; hidden tests that the agent never
        sees, with other inputs.
    Tools: `list_files`, `search`, `view`, `edit`, `insert`, `create`, `apply_patch`, `run`, `run_tests`, `submit`.
    Observation: terse text; program output is shown without durations and addresses.
    Reward: `outcome` 1 if the submitted change passes every hidden test, graded in fresh sandboxes. Smaller parts for
        changing the right places and fixing tests are paid only to episodes that submit a change, for running tests
        only if at least half of that change is near the gold patch, and for readable, working calls only to solved ones
        (G-RA, arXiv 2508.10548); `agentgym.envs.swe.g_ra` varies tiers and gate.
    Episode end: the work is submitted, or 30 turns have passed.
    Needs: the extra `[swe]` and a sandbox (`agentgym doctor`); images of instances need `[docker]` and a Docker engine.
    Version history: v0, first version.

    Args:
        kind: Bundled tasks: `"bugs"` to fix, or `"refactor"` over several files, graded by the shape of the code too.
        file: Instances to take tasks from instead, in any known format (`agentgym.tasks.swe.formats`).
        format: Name of that format; detected from the fields of the rows if not given.
        repositories: A folder of archives or checkouts to take their files from, instead of images.
        environments: A folder of Python environments to run their tests in, or one for all
            (`agentgym.tasks.swe.local`).
        split_by: `"auto"`, or the one split that they all belong to.
        strict: Refuse files with a broken instance, instead of leaving the instance out.
        backend: Sandbox backend (`agentgym.tools.sandbox.backends`); `"auto"` selects the strongest that works.
        allow_weak: Accept a backend that does not confine everything.
        limits: Bounds on a run by the agent (`SandboxLimits`, or its fields by name).
        test_timeout_s: Most seconds that one run of hidden tests may take; less if the gold solution is fast.
        solution_style: What `solution` does: `"full"` looks at the files, edits them and runs the tests, `"short"`
            applies the patch and submits.
        tasks: A custom task source, instead of a file.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = CHANNELS
    files = FILES
    scheme = g_ra()
    system_prompt = (
        "You work on a software repository. Do what the first message asks by changing the repository's code, and keep "
        "everything else working. When you are done, call submit: that ends the episode, and hidden tests decide "
        "whether the task is solved. Changes to tests and test settings are discarded. Paths are relative to the "
        "repository."
    )
    states_turns = True
    example_call = ToolCall("search", {"pattern": "def read_row"})
    max_turns = 30

    harmless_arguments = Env.harmless_arguments | {
        "kind",
        "split_by",
        "strict",
        "solution_style",
    }

    def __init__(
        self,
        *,
        kind: str | None = None,
        file: str | Path | None = None,
        format: str | None = None,
        repositories: str | Path | None = None,
        environments: str | Path | None = None,
        split_by: str | None = None,
        strict: bool = False,
        backend: str = "auto",
        allow_weak: bool = False,
        limits: SandboxLimits | Mapping[str, Any] | None = None,
        test_timeout_s: float = 120.0,
        solution_style: SolutionStyle = "full",
        tasks: TaskSource | None = None,
        **kwargs: Any,
    ):
        require_pytest()
        choices = {
            "kind": kind,
            "file": file,
            "format": format,
            "repositories": repositories,
            "environments": environments,
            "split_by": split_by,
            "strict": strict,
        }
        super().__init__(tasks=task_source(tasks, choices), **kwargs)
        self.solution_style: SolutionStyle = one_of("solution_style", solution_style, get_args(SolutionStyle))
        self._limits = run_limits(limits)
        seconds = above_zero("test_timeout_s", test_timeout_s)
        test_limits = self._limits.but(wall_s=seconds, cpu_s=seconds)
        self._sandboxes = Sandboxes(backend, allow_weak, self._limits, test_limits)
        self._opened: RepositoryWorkspace | None = None
        self._verdict: SWEVerdict | None = None
        self._sandbox_info: dict[str, str] = {}
        self._tests_run = self._lost = False

    @classmethod
    def packages(cls, kwargs: Mapping[str, Any]) -> Mapping[str, str]:
        """See `Env.packages`."""
        return {"pytest": "swe"}

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return the bundled tasks about bugs."""
        return BundledSWETasks()

    def start(self, task: Task) -> str:
        """Return the name of the repository and the description of the problem."""
        self.release()
        self._verdict, self._sandbox_info = None, {}
        self._tests_run = self._lost = False
        return f"Repository: {task.data['repo']}\n\n{task.prompt}"

    @tool
    def list_files(self, path: str = ".") -> str:
        """List the files and folders below a folder, two levels deep. Names of folders end with a slash.

        Args:
            path: The folder, relative to the repository.
        """
        return self._done(self.workspace.list_files(path))

    @tool
    def search(self, pattern: str, path: str = ".") -> str:
        """Show the lines that match a regular expression, with file and line number.

        Args:
            pattern: Python regular expression.
            path: File or folder to search.
        """
        return self._done(self.workspace.search(pattern, path))

    @tool(max_chars=16_000)
    def view(self, path: str, start: int = 1, end: int | None = None) -> str:
        """Show lines of a file with their numbers.

        Args:
            path: The file.
            start: First line to show.
            end: Last line to show; by default, 200 lines are shown.
        """
        return self._done(self.workspace.view(path, start, end))

    @tool
    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that occurs exactly once in a file.

        Args:
            path: The file.
            old: The text to replace, exactly, without line numbers.
            new: The replacement.
        """
        return self._done(self.workspace.edit(path, old, new))

    @tool
    def insert(self, path: str, line: int, text: str) -> str:
        """Insert lines into a file.

        Args:
            path: The file.
            line: Number of the line to insert after; 0 is the top.
            text: The lines to insert.
        """
        return self._done(self.workspace.insert(path, line, text))

    @tool
    def create(self, path: str, content: str) -> str:
        """Write a new file.

        Args:
            path: The file, which must not exist yet.
            content: Its complete text.
        """
        return self._done(self.workspace.create(path, content))

    @tool
    def apply_patch(self, patch: str) -> str:
        """Apply a unified diff to the repository.

        Args:
            patch: The diff, with ---, +++ and @@ lines.
        """
        return self._done(self.workspace.apply_patch(patch))

    @tool
    def run(self, command: str) -> str:
        """Run a command with bash in the root of the repository. Each call is a new shell.

        Args:
            command: The command.
        """
        result = self._checked(self.workspace.run(bash_command(command)))
        self.reward("executed", float(result.ok))
        return show_run(result) or "No output."

    @tool
    def run_tests(self, paths: list[str] | None = None) -> str:
        """Run tests with pytest.

        Args:
            paths: Test files, folders or ids, such as tests/test_io.py::test_read; all tests if not given.
        """
        result = self._checked(self.workspace.run_pytest(pytest_arguments(paths or ())))
        ran = result.ended is Ended.EXITED and result.exit_code in (0, 1)
        self._tests_run = self._tests_run or ran
        self.reward("executed", float(ran))
        return show_tests(result)

    @tool
    def submit(self) -> str:
        """Submit the repository as it is now. Ends the episode."""
        self._verdict = verdict = verdict_on(self._grader(), self._repository, self._worked())
        self._settle_work(verdict)
        return "Submitted."

    def grade(self) -> Mapping[str, float] | None:
        """If nothing was submitted, record whether anything was changed; close the sandbox."""
        modified = self._verdict is None and self._opened is not None and self._opened.changed
        values = {"modified": float(modified and self._worked() != self._repository.files), "unsubmitted": 1.0}
        self.release()
        return values if self._verdict is None else None

    def details(self) -> Mapping[str, Any]:
        """Return the sandbox that confined the agent's code, and the findings of the grader."""
        details: dict[str, Any] = {"sandbox": dict(self._sandbox_info)} if self._sandbox_info else {}
        if self._lost:
            details["sandbox_lost"] = True
        if self._verdict is not None:
            details["dropped"] = dict(self._verdict.dropped)
            details["tampered"] = bool(self._verdict.tampered)
            details["tests_error"] = self._verdict.error
            details["tests_in"] = self._verdict.manner
            details["tests_unchanged"] = len(self._verdict.unchanged)
        return details

    def solution(self, task: Task) -> Solution:
        """View the places that the gold patch changes, edit them, run the tests and submit."""
        repository = repository_of(self.tasks, task, self._sandboxes)
        return solve(repository, full=self.solution_style == "full")

    def harbor_folder(self, task: Task) -> HarborFolder:
        """Return what a task becomes as a Harbor task folder."""
        return swe_folder(task, repository_of(self.tasks, task, self._sandboxes))

    def release(self) -> None:
        """Close the sandbox of the episode."""
        if self._opened is not None:
            self._opened.sandbox.close()
            self._opened = None

    @property
    def workspace(self) -> RepositoryWorkspace:
        """The agent's workspace, set up on first use."""
        if self._opened is None:
            repository = self._repository
            sandbox = self._sandboxes.open(repository.instance)
            put_tree(sandbox, repository.files, there=repository.in_image)
            self._sandbox_info = {"tier": sandbox.tier.value, "notes": sandbox.notes}
            self._opened = RepositoryWorkspace(sandbox, repository.instance, self._limits)
            if repository.instance.image is None:
                self._opened.start_history()
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _repository(self) -> Repository:
        return repository_of(self.tasks, self.task, self._sandboxes)

    def _grader(self) -> SWEGrader:
        return SWEGrader(self._sandboxes)

    def _worked(self) -> Mapping[str, bytes]:
        """Return the files as the agent left them, read as data."""
        if self._opened is None or not self._opened.changed:
            return self._repository.files
        files = read_tree(self._opened.sandbox)
        if self._repository.instance.image is not None:
            return files
        return {path: data for path, data in files.items() if not path.startswith(".git/")}

    def _checked(self, result: Result) -> Result:
        """Return a result. Raises `ToolError` if the sandbox did not survive the run."""
        if result.ended is Ended.KILLED:
            self.release()
            self._lost = True
            raise ToolError(
                "The command killed the sandbox. A new one was set up: the repository is in its original state."
            )
        return result

    def _done(self, observation: str) -> str:
        self.reward("executed", 1.0)
        return observation

    def _settle_work(self, verdict: SWEVerdict) -> None:
        self.finish(Reason.SOLVED if verdict.passed else Reason.ANSWERED)
        self.reward("modified", float(bool(verdict.changed or verdict.dropped)))
        if verdict.tampered:
            # Treated as nothing submitted: the gates stay shut, and no tier is paid.
            self.reward("unsubmitted", 1.0)
            return
        gold = self._repository.instance.gold_patch
        tier = Tier.PASSES if verdict.passed else Tier.FAILS if verdict.changed else Tier.EMPTY
        self.reward("executed", 1.0)
        self.reward("submitted", 1.0)
        self.reward("tier", float(tier))
        self.reward("patched", float(bool(verdict.changed)))
        self.reward("empty", float(not verdict.changed))
        self.reward("mended", verdict.mended)
        self.reward("tests_run", float(self._tests_run))
        if verdict.changed:
            self.reward("localised", aimed(*localisation(verdict.patch, gold)))
            self.reward("similarity", similarity(verdict.patch, gold))
        self.reward(OUTCOME, float(verdict.passed))
