"""Tools of the checks: forks, the watch on shared state, clues to causes, stumbles."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import pytest

from agentgym.check.holdings import ForkFailed, in_fork
from agentgym.check.watch import ProcessWatch
from tests.refusals import differing, not_refused

pytestmark = pytest.mark.real


# Forks.


def test_side_effects_and_temporary_folders_of_a_fork_stay_in_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLOUR", "red")
    ours = tempfile.TemporaryDirectory()

    def work() -> list[str]:
        os.environ["COLOUR"] = "blue"
        work.folder = tempfile.TemporaryDirectory()  # type: ignore[attr-defined]
        return [os.environ["COLOUR"], work.folder.name]  # type: ignore[attr-defined]

    colour, theirs = in_fork(work, 30)
    assert (colour, os.environ["COLOUR"]) == ("blue", "red")
    assert (Path(theirs).exists(), Path(ours.name).exists()) == (False, True)
    ours.cleanup()


def test_a_fork_that_fails_exits_or_times_out_is_reported():
    def fail() -> None:
        raise ValueError("no such box")

    rows = [
        ((fail, 30), "ValueError: no such box"),
        ((lambda: os._exit(0), 30), "ended without an answer"),
        ((lambda: time.sleep(600), 0.2), "no answer came"),
    ]
    assert not_refused(lambda arguments: in_fork(*arguments), rows, ForkFailed) == []


# The watch.


def watched(*turns: str) -> list[str]:
    """Run lines of code as turns under a watch; return the reported changes."""

    def work() -> list[str]:
        watch = ProcessWatch()

        def play() -> None:
            for number, line in enumerate(turns, start=1):
                exec(line, {"os": os, "random": random, "sys": sys, "__name__": "played"})
                watch.look(lambda number=number: f"turn {number}")

        play()
        watch.confirm(play)
        return [f"{change.where}: {change.what} {change.how}".strip() for change in watch.changes.values()]

    return in_fork(work, 30)


def test_a_watch_reports_changes_and_where_they_first_occurred():
    rows = [
        (("pass", "os.environ['A'] = 'b'"), ["turn 2: os.environ A"]),
        (("pass", "print('hello')"), ["turn 2: standard output ‹hello›"]),
        (("os.system('echo hello')",), ["turn 1: standard output ‹hello›"]),
        (
            ("here = os.getcwd(); os.chdir('/'); os.chdir(here)",),
            ["turn 1: the working directory for a while to ‹/›"],
        ),
        (("'_lazy' in sys.modules or os.environ.update(LAZY='1'); sys.modules['_lazy'] = sys",), []),
        (("random.random()",), []),  # a library may draw once
        (("random.random()", "pass", "random.random()"), ["turn 3: the module 'random'"]),
        (("random.seed(7)", "random.seed(7)"), ["turn 2: the module 'random'"]),
    ]
    assert differing(lambda turns: watched(*turns), rows) == []
    assert watched("sys.setrecursionlimit(5000)")[0].startswith("turn 1: the recursion limit")
