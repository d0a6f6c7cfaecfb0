"""What the checks look at a process with: copies of it, a watch on what is shared, clues to causes, stumbles."""

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

from agentgym.checks import CHECKS
from agentgym.checks.clues import class_state, clues_while
from agentgym.checks.forks import ForkFailed, in_fork
from agentgym.checks.patience import Patience
from agentgym.checks.play import Episode, canonical
from agentgym.checks.stumble import PER_TASK, Slip, stumbles_of
from agentgym.checks.subject import Subject
from agentgym.checks.watch import Watch
from tests.orders import CachingEnv, OrdersEnv


def test_what_a_copy_does_to_its_process_stays_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLOUR", "red")

    def work() -> str:
        os.environ["COLOUR"] = "blue"
        return os.environ["COLOUR"]

    assert in_fork(work, 30) == "blue"
    assert os.environ["COLOUR"] == "red"


def test_an_error_in_a_copy_is_reported():
    def work() -> None:
        raise ValueError("no such box")

    with pytest.raises(ForkFailed, match="ValueError: no such box"):
        in_fork(work, 30)


def test_a_copy_that_ends_without_an_answer_is_reported():
    with pytest.raises(ForkFailed, match="ended without an answer"):
        in_fork(lambda: os._exit(0), 30)


def test_a_copy_that_does_not_answer_in_time_is_ended():
    with pytest.raises(ForkFailed, match="no answer came"):
        in_fork(lambda: time.sleep(600), 0.2)


def test_a_copy_removes_its_own_temporary_folders_and_no_others():
    ours = tempfile.TemporaryDirectory()

    def work() -> str:
        work.kept = tempfile.TemporaryDirectory()  # type: ignore[attr-defined]
        return work.kept.name  # type: ignore[attr-defined]

    theirs = in_fork(work, 30)
    assert not Path(theirs).exists()
    assert Path(ours.name).exists()
    ours.cleanup()


def watched(*turns: str) -> list[str]:
    """Run lines of code as turns under a watch and return what it says was changed, and where."""

    def work() -> list[str]:
        watch = Watch()

        def play() -> None:
            for number, line in enumerate(turns, start=1):
                exec(line, {"os": os, "random": random, "sys": sys, "__name__": "played"})
                watch.look(lambda number=number: f"turn {number}")

        play()
        watch.confirm(play)
        return [f"{change.where}: {change.what} {change.how}".strip() for change in watch.changes.values()]

    return in_fork(work, 30)


def test_a_watch_says_what_was_changed_and_where_first():
    assert watched("pass", "os.environ['A'] = 'b'") == ["turn 2: os.environ A"]
    assert watched("sys.setrecursionlimit(5000)")[0].startswith("turn 1: the recursion limit")
    assert watched("pass", "print('hello')") == ["turn 2: standard output ‹hello›"]
    assert watched("os.system('echo hello')") == ["turn 1: standard output ‹hello›"]


def test_a_watch_sees_a_change_of_folder_that_is_undone():
    [change] = watched("here = os.getcwd(); os.chdir('/'); os.chdir(here)")
    assert change == "turn 1: the working directory for a while to ‹/›"


def test_what_is_set_up_once_by_a_library_is_no_change():
    assert watched("'_lazy' in sys.modules or os.environ.update(LAZY='1'); sys.modules['_lazy'] = sys") == []


def test_who_draws_from_a_shared_generator_more_than_once_changes_it():
    assert watched("random.random()") == []
    assert watched("random.random()", "pass", "random.random()") == ["turn 3: the module 'random'"]


def test_seeding_a_shared_generator_alike_again_is_seen():
    assert watched("random.seed(7)", "random.seed(7)") == ["turn 2: the module 'random'"]


def reads_clocks() -> None:
    datetime.now()
    time.time()


def test_clues_name_the_lines_that_read_the_clock():
    clues = clues_while(reads_clocks)
    assert [line.split(" calls ")[1] for line in clues.clock] == ["now()", "time()"]
    assert all(line.startswith("test_checks_surroundings.py:") for line in clues.clock)
    assert clues.chance == []


def test_clues_tell_chance_and_timers_from_the_clock():
    def draws() -> None:
        uuid.uuid4()
        time.perf_counter()

    clues = clues_while(draws)
    assert clues.clock == []
    assert {line.split(" calls ")[1] for line in clues.chance} >= {"uuid4()", "perf_counter()"}


def test_the_state_of_classes_is_told_by_name(monkeypatch: pytest.MonkeyPatch):
    before = class_state(CachingEnv)
    monkeypatch.setattr(CachingEnv, "seen", {"a": "b"})
    changed = [name for name, text in class_state(CachingEnv).items() if before.get(name) != text]
    assert changed == ["CachingEnv.seen"]


def solved(actions: list[str]) -> Episode:
    subject = Subject("tests.orders:OrdersEnv")
    [first, *_] = subject.episodes("solution")
    return Episode(first.task, first.seed, first.opening, first.info, list(actions) or first.actions)


def test_a_stumble_is_the_solution_with_one_action_gone_wrong():
    episode = solved(["a", "b", "c"])
    with Subject("tests.orders:OrdersEnv").env() as env:
        ways = {(one.slip, one.index): "".join(map(str, one.actions)) for one in stumbles_of(env, episode)}
    assert ways[Slip.OMITTED, 0] == "bc"
    assert ways[Slip.OMITTED, 1] == "ac"
    assert ways[Slip.TWICE, 1] == "abbc"
    assert ways[Slip.EARLY, 2] == "acb"
    assert (Slip.OMITTED, 2) not in ways


def test_a_wrong_argument_is_a_stumble_and_the_rest_stays():
    episode = solved([])
    with Subject("tests.orders:OrdersEnv").env() as env:
        wrong = [one for one in stumbles_of(env, episode) if one.slip is Slip.WRONG]
    assert wrong
    for one in wrong:
        differing = [canonical(a) != canonical(b) for a, b in zip(one.actions, episode.actions, strict=True)]
        assert differing == [index == one.index for index in range(len(differing))]


def test_a_long_solution_is_stumbled_over_from_its_beginning_to_its_end():
    episode = solved([str(number) for number in range(60)])
    with Subject("tests.orders:OrdersEnv").env() as env:
        places = [one.index for one in stumbles_of(env, episode)]
    assert len(places) <= PER_TASK
    assert min(places) < 5
    assert max(places) > 54


def test_an_environment_gets_a_copy_of_the_task():
    subject = Subject("tests.order_faults:ChangesItsTask")
    [episode, *_] = subject.episodes("solution")
    assert episode.task_change is not None
    assert "turn 2 changed task.data['orders']" in episode.task_change
    assert episode.task == OrdersEnv.default_tasks().get("train", 0)


def test_patience_outlasts_a_busy_machine_but_not_for_ever():
    assert not Patience(60).is_over
    assert Patience(0).is_over


def test_every_cause_of_a_check_runs_before_it():
    names = [check.name for check in CHECKS]
    for number, check in enumerate(CHECKS):
        assert set(check.causes) <= set(names[:number]), check.name
