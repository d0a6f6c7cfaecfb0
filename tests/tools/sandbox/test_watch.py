"""Limits that the kernel does not enforce are checked often enough, even on a busy machine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentgym.tools.sandbox.agent import watch
from tests.tools.sandbox.clock import Clock

TOTALS = {"processes": 10, "total_memory_mb": 100, "disk_mb": 10, "files": 100}


def pause_after_a_check(monkeypatch: pytest.MonkeyPatch, use: float, wait: float) -> float:
    """Return the pause after a check that used CPU time and waited for its core."""
    clock = Clock()
    monkeypatch.setattr(watch, "time", clock)

    def members() -> Sequence[int]:
        clock.now += use + wait
        clock.cpu += use
        return ()

    monitor = watch.UsageMonitor(TOTALS, members)
    clock.now += monitor.pause()
    assert monitor.breach() == ""
    return monitor.pause()


def test_a_check_that_waited_for_its_core_does_not_delay_the_next(monkeypatch: pytest.MonkeyPatch):
    assert 0 < pause_after_a_check(monkeypatch, use=0, wait=0.3) <= watch.PERIOD_S


def test_expensive_checks_become_rare(monkeypatch: pytest.MonkeyPatch):
    assert pause_after_a_check(monkeypatch, use=0.1, wait=0) > 10 * watch.PERIOD_S
