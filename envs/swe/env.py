"""`SWEEnv`: mend a repository: read it, change it, run its tests, and submit.

Sandboxes come from `agentgym.tools.sandbox`, tasks from `agentgym.tasks.swe` or a file of instances, the verdict from
`grading`, which never runs anything in the sandbox that the agent worked in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from agentgym.choices import one_of
from agentgym.endings import Reason
from agentgym.env import Env
from agentgym.envs.swe.grading import Grader, Verdict
from agentgym.envs.swe.options import FILES, above_zero, run_limits, task_source
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.running import command_of, pytest_arguments
from agentgym.envs.swe.sandboxes import Sandboxes, put_tree, read_tree
from agentgym.envs.swe.schemes import CHANNELS, Tier, g_ra
from agentgym.envs.swe.show import show_run, show_tests
from agentgym.envs.swe.solving import solve
from agentgym.envs.swe.source import repository_of
from agentgym.envs.swe.verdicts import verdict_on
from agentgym.envs.swe.workspace import Workspace
from agentgym.errors import ToolError
from agentgym.rewards import OUTCOME
from agentgym.steps import Solution
from agentgym.task import Task, TaskSource
from agentgym.tasks.swe.bundled import BundledSWETasks
from agentgym.tasks.swe.pytest_folder import require_pytest
from agentgym.tools.patches import localisation, similarity
from agentgym.tools.sandbox import Ended, Limits, Result
from agentgym.toolset import tool

SolutionStyle = Literal["full", "short"]


class SWEEnv(Env):
    """Mend a repository.

    Task: a repository with a fault and a description of it; hidden tests that the agent never sees.
    Tools: `list_files`, `search`, `view`, `edit`, `insert`, `create`, `apply_patch`, `run`, `run_tests`, `submit`.
    Observation: terse text; durations and addresses are left out of what programs print.
    Reward: `outcome` 1 if the submitted change passes every hidden test, graded in fresh sandboxes. Smaller parts for
        the right places changed and tests mended are paid only to episodes that submit a change, for running tests
        only if that change overlaps the gold patch, and for readable, working calls only to solved ones (G-RA,
        arXiv 2508.10548); `agentgym.envs.swe.g_ra` varies tiers and gate.
    Episode end: the work is submitted, or 30 turns are over.
    Version history: v0, first version.

    Args:
        kind: Bundled tasks: `"bugs"` to mend, or `"refactor"` over several files, judged by the shape of the code too.
        file: Instances to take tasks from instead, in any known format (`agentgym.tasks.swe.formats`).
        format: Name of that format; told by the fields of the rows if not given.
        repositories: A folder of archives or checkouts to take their files from, instead of images.
        environments: A folder of Python environments to run their tests in, or one for all
            (`agentgym.tasks.swe.local`).
        split_by: `"auto"`, or the one split that they are all in.
        strict: Refuse files with a broken instance, instead of leaving the instance out.
        backend: How code is held in (`agentgym.tools.sandbox.backends`); `"auto"` takes the strongest that works.
        allow_weak: Accept a backend that does not hold in everything.
        limits: Bounds on a run of the agent's (`Limits`, or its fields by name).
        test_timeout_s: Seconds that one run of hidden tests may take.
        solution_style: What `solution` does: `"full"` looks at the files, edits them and runs the tests, `"short"`
            applies the patch and submits.
        tasks: A task source of your own, instead of a file.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = CHANNELS
    files = FILES
    scheme = g_ra()
    system_prompt = (
        "Mend the repository so that the described problem is gone. Look at the code, change it, run the tests, then "
        "submit. Hidden tests decide; changes to tests and test settings do not count."
    )
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
        limits: Limits | Mapping[str, Any] | None = None,
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
        self._opened: Workspace | None = None
        self._verdict: Verdict | None = None
        self._held: dict[str, str] = {}
        self._tests_run = self._lost = False

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return the bundled tasks about bugs."""
        return BundledSWETasks()

    def start(self, task: Task) -> str:
        """Tell what is wrong."""
        self.release()
        self._verdict, self._held = None, {}
        self._tests_run = self._lost = False
        return f"Repository: {task.data['repo']}\n\n{task.prompt}"

    @tool
    def list_files(self, path: str = ".") -> str:
        """List the files and folders below a folder, two levels deep.

        Args:
            path: The folder, relative to the repository.
        """
        return self._done(self.workspace.list_files(path))

    @tool
    def search(self, pattern: str, path: str = ".") -> str:
        """Show the lines that match a regular expression, with file and line number.

        Args:
            pattern: Python regular expression.
            path: File or folder to look in.
        """
        return self._done(self.workspace.search(pattern, path))

    @tool(max_chars=16_000)
    def view(self, path: str, start: int = 1, end: int | None = None) -> str:
        """Show lines of a file with their numbers.

        Args:
            path: The file.
            start: First line.
            end: Last line; 200 lines if not given.
        """
        return self._done(self.workspace.view(path, start, end))

    @tool
    def edit(self, path: str, old: str, new: str) -> str:
        """Replace text that stands in a file exactly once.

        Args:
            path: The file.
            old: The text to replace, exactly, without line numbers.
            new: What to put there.
        """
        return self._done(self.workspace.edit(path, old, new))

    @tool
    def insert(self, path: str, line: int, text: str) -> str:
        """Insert lines into a file.

        Args:
            path: The file.
            line: Number of the line after which they go; 0 is the top.
            text: The lines.
        """
        return self._done(self.workspace.insert(path, line, text))

    @tool
    def create(self, path: str, content: str) -> str:
        """Write a new file.

        Args:
            path: The file, which must not be there yet.
            content: All of its text.
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
        result = self._known(self.workspace.run(command_of(command)))
        self.reward("executed", float(result.ok))
        return show_run(result) or "No output."

    @tool
    def run_tests(self, paths: list[str] | None = None) -> str:
        """Run tests with pytest.

        Args:
            paths: Test files, folders or test ids; all tests if not given.
        """
        result = self._known(self.workspace.run_pytest(pytest_arguments(paths or ())))
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
        """Note whether something was changed, if nothing was submitted, and let go of the sandbox."""
        modified = self._verdict is None and self._opened is not None and self._opened.changed
        values = {"modified": float(modified and self._worked() != self._repository.files), "unsubmitted": 1.0}
        self.release()
        return values if self._verdict is None else None

    def details(self) -> Mapping[str, Any]:
        """Tell what held the agent's code, and what was noticed when its work was graded."""
        told: dict[str, Any] = {"sandbox": dict(self._held)} if self._held else {}
        if self._lost:
            told["sandbox_lost"] = True
        if self._verdict is not None:
            told["dropped"] = dict(self._verdict.dropped)
            told["tampered"] = bool(self._verdict.tampered)
            told["tests_error"] = self._verdict.error
            told["tests_in"] = self._verdict.manner
            told["tests_unchanged"] = len(self._verdict.unchanged)
        return told

    def solution(self, task: Task) -> Solution:
        """Look at what the gold patch changes, change it, run the tests and submit."""
        repository = repository_of(self.tasks, task, self._sandboxes)
        return solve(repository, full=self.solution_style == "full")

    def release(self) -> None:
        """End the sandbox of the episode."""
        if self._opened is not None:
            self._opened.sandbox.close()
            self._opened = None

    @property
    def workspace(self) -> Workspace:
        """The agent's workspace, set up when it is first needed."""
        if self._opened is None:
            repository = self._repository
            sandbox = self._sandboxes.open(repository.instance)
            put_tree(sandbox, repository.files, there=repository.in_image)
            self._held = {"tier": sandbox.tier.value, "notes": sandbox.notes}
            self._opened = Workspace(sandbox, repository.instance, self._limits)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    @property
    def _repository(self) -> Repository:
        return repository_of(self.tasks, self.task, self._sandboxes)

    def _grader(self) -> Grader:
        return Grader(self._sandboxes)

    def _worked(self) -> Mapping[str, bytes]:
        """Return the files as the agent left them, read as data."""
        if self._opened is None or not self._opened.changed:
            return self._repository.files
        return read_tree(self._opened.sandbox)

    def _known(self, result: Result) -> Result:
        """Return a result; if the sandbox did not survive the run, let the agent know."""
        if result.ended is Ended.KILLED:
            self.release()
            self._lost = True
            raise ToolError(
                "The command ended the whole sandbox. It was set up anew: the repository is as it was at first."
            )
        return result

    def _done(self, told: str) -> str:
        self.reward("executed", 1.0)
        return told

    def _settle_work(self, verdict: Verdict) -> None:
        self.finish(Reason.SOLVED if verdict.passed else Reason.ANSWERED)
        self.reward("modified", float(bool(verdict.changed or verdict.dropped)))
        if verdict.tampered:
            # Worth as much as nothing at all: the gates stay shut, and no tier is paid.
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
            files, lines = localisation(verdict.patch, gold)
            self.reward("localised", (files + lines) / 2)
            self.reward("similarity", similarity(verdict.patch, gold))
        self.reward(OUTCOME, float(verdict.passed))
