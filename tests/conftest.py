"""What all tests share: how properties are tried, which skips are failures, and which files take longest."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)
PROVIDED = re.compile(
    r"needs (the \[|a Chromium|a model)|could not import|is not installed|run first: |AGENTGYM_TEST_IMAGE is not set"
    r"|no backend"
)
"""Reasons to skip that `.ci/run` takes away: it installs every extra, a model, a browser, bubblewrap and a Docker
engine."""

SLOWEST = 10
"""Files that are named as the slowest after a run."""

# A slow machine is no failure, and a red run is about the change: the same examples each time.
settings.register_profile(
    "agentgym", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("agentgym")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _not_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _not_skipped((yield))


def _not_skipped(report: _Report) -> _Report:
    """Make a skip a failure where `AGENTGYM_TEST_SKIPS=refuse` says that all that tests need is there."""
    if report.skipped and os.environ.get("AGENTGYM_TEST_SKIPS") == "refuse" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if PROVIDED.search(reason):
            report.outcome = "failed"
            report.longrepr = f"{reason}: but AGENTGYM_TEST_SKIPS=refuse says that it is here"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After a run of many files, print those that took longest, set-up included."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.location[0]] += report.duration
    if len(seconds) > SLOWEST:
        terminalreporter.section("slowest files")
        for file in sorted(seconds, key=seconds.__getitem__, reverse=True)[:SLOWEST]:
            terminalreporter.write_line(f"{seconds[file]:7.1f} s  {file}")
