"""Shared by all tests: tiers, Hypothesis settings, skips that count as failures, distribution over workers."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadGroupScheduling

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)
PROVIDED = re.compile(
    r"needs (the \[|a Chromium|a model)|could not import|is not installed|run first: |AGENTGYM_TEST_IMAGE is not set"
    r"|no backend"
)
"""Skip reasons that must not occur in `.ci/run`, which installs every extra, a model, a browser and a Docker engine."""

FIRST = (
    "agentgym/web-v0 difficulty max_turns",
    "agentgym/swe-v0",
    "tests/tools/sandbox/test_hostile.py",
    "agentgym/miniwob-click-button-v0",
    "agentgym/code-v0",
    "agentgym/code-v0 tools stateful difficulty",
    "tests/tools/browser/test_hostile.py",
    "tests/trainers/test_train_run.py",
    "tests/envs/web/test_env.py",
    "tests/check/test_processes.py",
    "tests/rollout/test_workers.py",
    "tests/project/test_mutants.py",
    "tests/envs/swe/building/test_building.py",
)
"""Groups and files to run first, the slowest first, so that none of them runs alone at the end.

Not `tests/rollout/test_workers_ray.py`: a process that has been connected to Ray cannot be forked, as other tests do.
"""

FEWEST_WORKERS, MOST_WORKERS = 3, 8
"""Many tests wait for a browser, a sandbox or a process, so two processors can serve more than two workers; a worker
with torch and a browser uses about a gigabyte."""

SLOWEST = 10
"""Number of slowest files to report after a run."""

TIERS = ("real", "nightly")
"""Marks of the tests that the fast tier leaves out."""

TIER_OF = {"train": "real", "web": "real", "docker": "nightly", "peers": "nightly", "ray": "nightly", "vllm": "nightly"}
"""Tiers that follow from other marks."""

MARKED_FILE = re.compile(rf"^pytestmark = .*pytest\.mark\.({'|'.join([*TIERS, *TIER_OF])})\b", re.MULTILINE)
"""A file whose tests all belong to one of `TIERS`."""

ALLOWED_PROGRAMS = (
    "agentgym.tools.database.duckdb.worker",
    "agentgym.check.probe_child",
    "agentgym.base.template_trial",
    "uname -p",
)
"""Programs that a fast test may start: DuckDB, the fresh process of `agentgym check`, the trial of a chat template, and
that of `platform`."""

STARTS = frozenset(("os.fork", "os.forkpty", "os.exec", "os.system"))


class TierGuard:
    """Records uses of resources that only the tiers `real` and `nightly` may use.

    It listens to Python's audit events, among them `agentgym.sandbox.open`, and cannot be removed.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.is_armed = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, details: tuple[object, ...]) -> None:
        if not self.is_armed:
            return
        if event in ("subprocess.Popen", "os.posix_spawn"):  # from Python 3.13 on, the former may call the latter
            command = details[1] if isinstance(details[1], str) else " ".join(map(str, details[1]))  # pyright: ignore
            if not any(program in command for program in ALLOWED_PROGRAMS):
                self.violations.append(f"starts the process {command[:100]!r}")
        elif event in STARTS:
            self.violations.append(f"calls {event}")
        elif event == "agentgym.sandbox.open":
            self.violations.append(f"opens a sandbox of the tier {details[0]}")
        elif event == "import" and details[0] == "torch":
            self.violations.append("imports torch")


GUARD = TierGuard()

# Set here, so that workers and the processes that tests start inherit it. Tests run side by side and their matrices are
# tiny, but each thread that numpy starts when it is imported spins for as long as the rest of the import takes.
for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

# No deadline, since machines are slow; the same examples each time, so that failures come from changes.
settings.register_profile(
    "agentgym", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("agentgym")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude collected test items from garbage collection: they are many and live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Let the interpreter collect everything at its end, since libraries complain otherwise."""
    gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore a file, and so its imports, if the expression after `-m` excludes all of its tests."""
    if collection_path.suffix != ".py" or "not " not in _expression(config):
        return None
    mark = MARKED_FILE.search(collection_path.read_text(encoding="utf-8"))
    return True if mark and f"not {TIER_OF.get(mark[1], mark[1])}" in _expression(config) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put a test into the tier of its other marks."""
    for need, tier in TIER_OF.items():
        if item.get_closest_marker(need):
            item.add_marker(tier)


def _expression(config: pytest.Config) -> str:
    """Return what follows `-m` on the command line of pytest."""
    return config.getoption("markexpr") or ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest groups first."""
    places = {group: place for place, group in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(_group(item), len(FIRST)))


def _group(item: pytest.Item) -> str:
    """Return the group of a test: from its mark, or its file."""
    mark = item.get_closest_marker("xdist_group")
    return item.nodeid.partition("::")[0] if mark is None else mark.args[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Choose the number of workers that `-n auto` starts."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_WORKERS, max(FEWEST_WORKERS, processors))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadGroupScheduling | None:
    """With `--dist loadgroup`, let one worker run all tests of a group or file, which share slow fixtures."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByGroupOrFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = super()._split_scope(nodeid)
            return nodeid.partition("::")[0] if group == nodeid else group

    config.option.loadscopereorder = False  # keep the order of `FIRST`
    return ByGroupOrFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Guard each test and its fixtures in runs of the fast tier only; in other runs, other tests leave threads
    behind."""
    GUARD.violations.clear()
    GUARD.is_armed = "not real" in _expression(item.config)
    try:
        return (yield)
    finally:
        GUARD.is_armed = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = _not_skipped((yield))
    if GUARD.violations and report.passed:
        report.outcome = "failed"
        report.longrepr = (
            f"A test of the fast tier {'; '.join(GUARD.violations)}: mark it with `real`, or with `nightly` if it "
            "takes minutes or needs another project."
        )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _not_skipped((yield))


def _not_skipped(report: _Report) -> _Report:
    """Turn a skip for a missing requirement into a failure if `AGENTGYM_TEST_SKIPS=refuse`."""
    if report.skipped and os.environ.get("AGENTGYM_TEST_SKIPS") == "refuse" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if PROVIDED.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{reason}: but AGENTGYM_TEST_SKIPS=refuse says that it is here"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After a run of many files, print the slowest ones, with set-up."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.location[0]] += report.duration
    if len(seconds) > SLOWEST:
        terminalreporter.section("slowest files")
        for file in sorted(seconds, key=seconds.__getitem__, reverse=True)[:SLOWEST]:
            terminalreporter.write_line(f"{seconds[file]:7.1f} s  {file}")
