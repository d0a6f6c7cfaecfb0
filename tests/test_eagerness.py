"""What comes quickly is looked for, what comes slowly is slept for, and nothing that comes is missed."""

from __future__ import annotations

import pytest

from agentgym import eagerness
from agentgym.eagerness import Eagerness

LONG_S = 1_000.0


@pytest.fixture(autouse=True)
def _cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eagerness, "cores", lambda: 2)


def wait(eager: Eagerness, *looks: str | None) -> str:
    """Return what is found: one of what looks show, the last of them for good, or "slept"."""
    left = list(looks)
    return eager.wait(lambda: left.pop(0) if len(left) > 1 else left[0], lambda: "slept")


def test_the_first_wait_sleeps_and_the_next_one_looks_if_that_was_quick():
    eager = Eagerness(LONG_S)
    assert [wait(eager, "seen"), wait(eager, None, None, "seen"), wait(eager, "seen")] == ["slept", "seen", "seen"]


def test_what_does_not_come_within_a_moment_is_slept_for_from_then_on():
    eager = Eagerness(LONG_S)
    wait(eager, "seen")
    eager._moment_s = 1e-9
    assert [wait(eager, None), wait(eager, "seen"), wait(eager, "seen")] == ["slept"] * 3


def test_on_a_single_core_nobody_looks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(eagerness, "cores", lambda: 1)
    eager = Eagerness(LONG_S)
    assert [wait(eager, "seen"), wait(eager, "seen")] == ["slept"] * 2


def test_what_breaks_while_looking_or_sleeping_is_told():
    def broken() -> str:
        raise ConnectionResetError

    eager = Eagerness(LONG_S)
    with pytest.raises(ConnectionResetError):
        eager.wait(lambda: "seen", broken)
    wait(eager, "seen")
    with pytest.raises(ConnectionResetError):
        eager.wait(broken, lambda: "slept")
