"""Entry points for the command line: tasks from packages that the user names, and a rebuild of the bundled ones.

`python -m agentgym.envs.swe.building.command` rebuilds the bundled tasks.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym.envs.swe.building.build import BuildOptions, build, build_all
from agentgym.envs.swe.building.check import GradingCheck
from agentgym.envs.swe.building.report import PackageReport, summary
from agentgym.envs.swe.building.runner import SubprocessRunner, TestRunner
from agentgym.tasks.swe.bundled import BUNDLED, repository_names, repository_package, write_bundled


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
