"""Tools of the checks: forks, the watch on shared state, clues to causes, stumbles."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
import uuid
from datetime import datetime
from pathlib import Path

import pytest

from agentgym.check.holdings import ForkFailed, in_fork
from agentgym.check.honest import PER_TASK, Slip, stumbles_of
from agentgym.check.play import RecordedEpisode, canonical
from agentgym.check.subject import Subject
from agentgym.check.surroundings import clues_while
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


# Clues.


def reads_clocks() -> None:
    datetime.now()
    time.time()


def test_clues_name_lines_that_read_clocks_apart_from_randomness_and_timers():
    clues = clues_while(reads_clocks)
    assert [line.split(" calls ")[1] for line in clues.clock] == ["now()", "time()"]
    assert all(line.startswith("test_surroundings.py:") for line in clues.clock)
    assert clues.chance == []

    def draws() -> None:
        uuid.uuid4()
        time.perf_counter()

    clues = clues_while(draws)
    assert clues.clock == []
    assert {line.split(" calls ")[1] for line in clues.chance} >= {"uuid4()", "perf_counter()"}


def solved(actions: list[str]) -> RecordedEpisode:
    subject = Subject("tests.orders:OrdersEnv")
    [first, *_] = subject.episodes("solution")
    return RecordedEpisode(first.task, first.seed, first.opening, first.info, list(actions) or first.actions)


def test_a_stumble_is_the_solution_with_one_mistake():
    with Subject("tests.orders:OrdersEnv").env() as env:
        stumbles = stumbles_of(env, solved(["a", "b", "c"]))
        ways = {(stumble.slip, stumble.index): "".join(map(str, stumble.actions)) for stumble in stumbles}
        episode = solved([])
        wrong = [stumble for stumble in stumbles_of(env, episode) if stumble.slip is Slip.WRONG]
        places = [stumble.index for stumble in stumbles_of(env, solved([str(number) for number in range(60)]))]
    assert [ways[Slip.OMITTED, 0], ways[Slip.OMITTED, 1]] == ["bc", "ac"]
    assert (ways[Slip.TWICE, 1], ways[Slip.EARLY, 2]) == ("abbc", "acb")
    assert (Slip.OMITTED, 2) not in ways
    assert wrong
    for stumble in wrong:
        pairs = zip(stumble.actions, episode.actions, strict=True)
        differing = [canonical(action) != canonical(right) for action, right in pairs]
        assert differing == [index == stumble.index for index in range(len(differing))]
    assert len(places) <= PER_TASK
    assert (min(places) < 5, max(places) > 54) == (True, True), "spread over a long solution"
