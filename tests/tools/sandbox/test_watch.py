"""The limits that no kernel enforces are looked at often enough, on a busy machine too."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from agentgym.tools.sandbox.agent.watch import PERIOD_S, UsageMonitor

pytestmark = pytest.mark.real

TOTALS = {"processes": 10, "total_memory_mb": 100, "disk_mb": 10, "files": 100}


def slow_members(use: float, wait: float) -> Sequence[int]:
    """Take CPU time, and time in which other programs have the core."""
    until = time.thread_time() + use
    while time.thread_time() < until:
        pass
    time.sleep(wait)
    return ()


def pause_after_a_check(use: float, wait: float) -> float:
    monitor = UsageMonitor(TOTALS, lambda: slow_members(use, wait))
    while monitor.pause():
        time.sleep(monitor.pause())
    assert monitor.breach() == ""
    return monitor.pause()


def test_a_check_that_waited_for_its_core_does_not_put_off_the_next_one():
    assert pause_after_a_check(use=0, wait=0.3) <= PERIOD_S


def test_checks_that_cost_much_become_rare():
    assert pause_after_a_check(use=0.1, wait=0) > 10 * PERIOD_S
