"""The limits that no kernel enforces are looked at often enough, on a busy machine too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentgym.tools.sandbox.agent import watch
from tests.tools.sandbox.clock import Clock

TOTALS = {"processes": 10, "total_memory_mb": 100, "disk_mb": 10, "files": 100}


def pause_after_a_check(monkeypatch: pytest.MonkeyPatch, use: float, wait: float) -> float:
    """Return the pause after a check that used CPU time, and waited while other programs had the core."""
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


def test_a_check_that_waited_for_its_core_does_not_put_off_the_next_one(monkeypatch: pytest.MonkeyPatch):
    assert 0 < pause_after_a_check(monkeypatch, use=0, wait=0.3) <= watch.PERIOD_S


def test_checks_that_cost_much_become_rare(monkeypatch: pytest.MonkeyPatch):
    assert pause_after_a_check(monkeypatch, use=0.1, wait=0) > 10 * watch.PERIOD_S
