"""Entry points for the command line: tasks from packages that the user names, and a rebuild of the bundled ones.

`python -m agentgym.envs.swe.building.command` rebuilds the bundled tasks.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym.base.errors import TaskError
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, assistant
from agentgym.core.registry import make
from agentgym.core.task import Task, TaskList
from agentgym.envs.swe.building.report import BuildOptions, PackageReport, archive_of, build, build_all, summary
from agentgym.envs.swe.building.runner import SubprocessRunner, TestRunner
from agentgym.tasks.swe.bundled import BUNDLED, REPOSITORIES, repository_names, repository_package, write_bundled
from agentgym.tasks.swe.instance import Instance, to_task
from agentgym.tasks.swe.package import read_tree

ENVIRONMENT = "agentgym/swe-v0"
SUBMIT = ToolCall("submit")


class GradingCheck:
    """Returns why an instance cannot be graded, or an empty text.

    Args:
        allow_weak: Accept a sandbox that does not confine everything, for packages that are trusted anyway.
    """

    def __init__(self, *, allow_weak: bool = False):
        self._allow_weak = allow_weak

    def __call__(self, instance: Instance, files: Mapping[str, bytes]) -> str:
        """Grade the solution and a null patch of an instance whose repository has these files."""
        source = _OneTask(instance, files)
        solution = ToolCall("apply_patch", {"patch": instance.gold_patch})
        env = make(ENVIRONMENT, tasks=source, allow_weak=self._allow_weak)
        try:
            if _passes(env, source.task, SUBMIT):
                return "a null patch passes"
            if not _passes(env, source.task, solution, SUBMIT):
                return "the solution does not pass"
        except TaskError as error:
            return str(error)
        finally:
            env.close()
        return ""


class _OneTask(TaskList):
    """One instance as a task source that knows its files."""

    def __init__(self, instance: Instance, files: Mapping[str, bytes]):
        self.task = to_task(instance, "train")
        self._files = files
        super().__init__([self.task])

    def tree(self, task: Task) -> Mapping[str, bytes]:
        """Return the files that the policy sees."""
        return self._files


def _passes(env: Env, task: Task, *calls: ToolCall) -> bool:
    env.reset(options={"task": task})
    steps = [env.step(dict(assistant("", [call]))) for call in calls]
    return bool(steps[-1].info["is_success"])


def pack(folder: Path, archive: Path = REPOSITORIES) -> None:
    """Write the archive. The same files give the same bytes. Raises `UsageError` if there is no such folder."""
    archive.write_bytes(archive_of(read_tree(folder)))


if __name__ == "__main__":
    pack(Path(sys.argv[1]))


@dataclass(frozen=True)
class BuildRequest:
    """Which tasks to build, and how."""

    sources: Sequence[Path]
    """Folders or archives of packages."""
    out: Path
    count: int = 100
    seed: int = 0
    workers: int = 1
    hide_tests: bool = True
    trusted: bool = False
    """Run the packages' tests without a sandbox: only for packages that you would install."""


def run_build(request: BuildRequest, on_progress: Callable[[str], None] = lambda line: None) -> list[PackageReport]:
    """Build tasks from packages; see `build_all`.

    Args:
        request: Which tasks to build.
        on_progress: Receives lines about the progress, for people.
    """
    options = BuildOptions(
        seed=request.seed,
        workers=request.workers,
        hide_tests=request.hide_tests,
        check=GradingCheck(allow_weak=request.trusted),
        on_progress=on_progress,
    )
    return build_all(request.sources, request.out, _runner(request.trusted), count=request.count, options=options)


def build_bundled(
    *,
    per_repository: int = 10,
    seed: int = 0,
    workers: int = 1,
    out: Path = BUNDLED,
    on_progress: Callable[[str], None] = lambda line: None,
) -> list[PackageReport]:
    """Rebuild the bundled tasks and write them with a report."""
    options = BuildOptions(
        count=per_repository, seed=seed, workers=workers, combined_share=0.3, on_progress=on_progress
    )
    reports = [build(repository_package(name), SubprocessRunner(), options) for name in repository_names()]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_bundled(out, tuple(instance for report in reports for instance in report.instances))
    text = json.dumps(summary(reports), indent=2)
    out.with_name(f"{out.stem}_report.json").write_text(text + "\n", encoding="utf-8")
    return reports


def _runner(trusted: bool) -> TestRunner:
    if trusted:
        return SubprocessRunner()
    from agentgym.envs.swe.building.sandbox_runner import SandboxRunner

    return SandboxRunner()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    build_bundled(workers=os.cpu_count() or 1, on_progress=logging.info)
