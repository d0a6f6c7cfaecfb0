"""How checks are run and what their reports say: time, seeds, errors, and that nothing is left open or changed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from agentgym.checks import CHECKS, CheckStatus, check_names, run_checks
from agentgym.checks.catalog import Check
from agentgym.checks.contract import MAX_MESSAGE_CHARS, observation_problem
from agentgym.checks.outcomes import Blocked, CheckFailed, CheckSkipped
from agentgym.checks.play import Episode
from agentgym.checks.probe import JOBS_BY_HASH_SEED, Process, Request, Surroundings
from agentgym.checks.speed import latency
from agentgym.checks.subject import Subject
from agentgym.dialects import dialect_names
from agentgym.endings import Reason
from agentgym.engine.spaces import MessagesSpace
from agentgym.engine.steps import Solution, StepResult
from agentgym.errors import NoSolution, UsageError
from agentgym.messages import ToolCall, text_of
from agentgym.rewards import OUTCOME, Scheme
from agentgym.task import GeneratedTasks, Task
from tests.sound_envs import SoundEnv, boxes_task
from tests.test_checks import FRESH_PROCESS

FINDINGS = {
    "makes": "tests.sound_envs:SoundEnv, tools: look, answer",
    "plays": "8 tasks over 2 splits and difficulties [1, 2]",
    "endings": "seen: answered, format_errors, max_turns",
    "max-turns": "max_turns is 6",
    "seed-honoured": "14 tasks from 16 seeds",
    "deterministic": "8 episodes, 13 turns",
    "group-identity": "8 tasks",
    "splits-disjoint": "compared: train 60, test 60",
    "task-ids": "120 ids",
    "task-json": "120 tasks",
    "solution-solves": "8 of 8 tasks, 2.0 turns on average",
    "idle-scores-low": "idle solved 0 of 8, mean reward 0.00; helpless solved 0 of 8, mean reward 0.00",
    "random-scores-low": "random solved 0 of 8, mean reward 0.00",
    "grader-stable": "12 episodes, three times each",
    "reward-channels": "channels: outcome, effort",
    "scheme-sound": "solved earn from 1.00, failed up to 0.00",
    "useful-work-pays": "4 tasks, 2 schemes: honest failures earn 0.00 on average, the best adversary 0.00",
    "junk-scores-low": "4 kinds of junk",
    "gold-hidden-at-start": "looked for 8 pieces of gold and 8 canaries",
    "gold-hidden-in-play": "36 canaries in 36 episodes",
    "tool-schemas": "2 tools",
    "tool-mistakes": "6 wrong calls",
    "replay": "8 trajectories",
    "async-twin": "8 episodes at once",
}
"""What checks tell of `SoundEnv`: how much they have tried."""


@pytest.fixture(autouse=True)
def _environments_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def subject_of(env: type, **kwargs: Any) -> Subject:
    return Subject(f"{env.__module__}:{env.__qualname__}", kwargs)


def check_named(name: str) -> Check:
    return next(check for check in CHECKS if check.name == name)


# What is tried.


def test_what_a_check_tells_is_what_it_has_tried():
    subject = Subject("tests.sound_envs:SoundEnv")
    assert {name: check_named(name).run(subject) for name in FINDINGS} == FINDINGS


class Counted(SoundEnv):
    """Counts how many of it are open."""

    made = 0
    open: ClassVar[set[int]] = set()

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        Counted.made += 1
        self.number = Counted.made
        self.open.add(self.number)

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        Counted.made += 1
        self.number = Counted.made
        self.open.add(self.number)

    def release(self) -> None:
        self.open.discard(self.number)


@pytest.mark.parametrize("name", [name for name in check_names() if name not in FRESH_PROCESS])
def test_every_environment_that_a_check_makes_is_closed(name: str):
    subject = subject_of(Counted)
    Counted.made = 0
    with suppress(CheckSkipped):
        check_named(name).run(subject)
    assert Counted.made > 0
    assert not Counted.open


@pytest.mark.parametrize("name", ["global-rng-unused", "seed-isolated", "deterministic"])
def test_checks_leave_the_global_generators_as_they_were(name: str):
    random.seed(11)
    np.random.seed(11)
    check_named(name).run(Subject("tests.sound_envs:SoundEnv"))
    drawn = random.random(), np.random.random()
    random.seed(11)
    np.random.seed(11)
    assert drawn == (random.random(), np.random.random())


class OneTask(SoundEnv):
    """Has one task in one split."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", boxes_task, {"train": 1})


class AnswersAtOnce(SoundEnv):
    """Has solutions of one step."""

    def solution(self, task: Task) -> Solution:
        yield ToolCall("answer", {"text": task.gold["content"]})


class Unsolved(SoundEnv):
    """Cannot say how its tasks are solved."""

    def solution(self, task: Task) -> Solution:
        raise NoSolution("nobody knows")


def test_without_a_solution_only_its_absence_is_a_failure():
    about_solutions = ["ending-alone-fails", "other-solution-fails", "omissions-fail"]
    report = run_checks(f"{__name__}:Unsolved", only=[*about_solutions, "solution-solves"])
    assert {report.row(name).status for name in about_solutions} == {CheckStatus.SKIP}
    assert [row.name for row in report.problems] == ["solution-solves"]


def test_one_task_is_enough_for_all_seeds_and_leaves_no_splits_to_compare():
    subject = subject_of(OneTask)
    assert check_named("seed-honoured").run(subject) == "1 tasks from 16 seeds"
    with pytest.raises(CheckSkipped, match="there is one split only"):
        check_named("splits-disjoint").run(subject)
    assert check_named("task-ids").run(subject) == "1 ids"


@pytest.mark.parametrize("turns", [1, 2])
def test_short_episodes_are_no_mistake(turns: int):
    # Of these checks none needs a longer episode; with one turn, a wrong call ends it.
    for name in ("tool-mistakes", "max-turns", "reset-clean", "snapshot", "seed-isolated", "close-twice", "endings"):
        check_named(name).run(subject_of(AnswersAtOnce, max_turns=turns))


class HangsUp(SoundEnv):
    """Ends an episode at the third wrong call."""

    begun: ClassVar[int] = 0

    def start(self, task: Task) -> str:
        type(self).begun += 1
        self.wrong = 0
        return super().start(task)

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        self.wrong += "Error: " in text_of(result.observation[-1])
        if self.reason is None and self.wrong == 3:
            return self.interrupt(Reason.FORMAT_ERRORS)._replace(observation=result.observation)
        return result


def test_wrong_calls_share_episodes_and_only_what_ends_one_by_itself_is_a_fault():
    HangsUp.begun = 0
    assert check_named("tool-mistakes").run(subject_of(HangsUp)) == "6 wrong calls"
    assert HangsUp.begun < 6


class SlowToBegin(SoundEnv):
    """Counts its episodes."""

    begun: ClassVar[int] = 0

    def start(self, task: Task) -> str:
        type(self).begun += 1
        return super().start(task)


def test_what_cannot_be_read_does_not_end_the_episodes_that_hostile_actions_are_tried_in():
    SlowToBegin.begun = 0
    told = check_named("hostile-text").run(subject_of(SlowToBegin))
    actions = int(str(told).split()[0])
    assert SlowToBegin.begun <= -(-actions // SoundEnv.max_turns) + len(dialect_names())


def test_adversaries_that_play_like_a_recorded_player_are_not_played_again():
    subject = Subject("tests.sound_envs:SoundEnv")
    stubborn = subject.episodes("stubborn")
    for one, index in zip(subject.contests, subject.spread(), strict=True):
        assert one.adversaries["one call, repeated"] is stubborn[index]
        assert one.adversaries["idle"] is subject.episodes("idle")[index]


class PaysForTalk(SoundEnv):
    """Pays a little for every word."""

    scheme = Scheme({OUTCOME: 1.0, "effort": 0.05})

    def respond(self, text: str) -> str:
        self.reward("effort", 1.0)
        return "Hm."


def test_wrappers_add_up_what_every_turn_pays():
    check_named("wrappers").run(subject_of(PaysForTalk))


def test_an_end_after_a_mistake_is_found_in_the_shortest_episodes_that_could_go_on():
    with pytest.raises(CheckFailed, match="ended the episode; report the mistake and let it continue"):
        check_named("tool-mistakes").run(Subject("tests.broken_envs:PunishesMistakes", {"max_turns": 2}))


class RightHalfOfTheTime(SoundEnv):
    """Takes any answer for a right one in every other task."""

    def grade(self) -> dict[str, float]:
        return {"outcome": 1.0} if self.task.difficulty == 1 and self.reason == "answered" else {}


def test_random_actions_may_solve_half_of_the_tasks():
    told = check_named("random-scores-low").run(subject_of(RightHalfOfTheTime))
    assert str(told).startswith("random solved 4 of 8, mean reward 0.5")


# Fresh processes.


class Noted:
    """Stands for a fresh interpreter, and notes which were started."""

    started: ClassVar[list[tuple[str, ...]]] = []

    def __init__(self, request: Request, process: Process, hash_seed: str, jobs: Sequence[str], patience_s: float):
        self.jobs, self.left = tuple(jobs), []
        self.started.append(self.jobs)

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        return {
            job: {"job": job, "value": asdict(Surroundings()) if job == "surroundings" else []} for job in self.jobs
        }

    def close(self) -> None:
        """Nothing runs."""


@pytest.mark.parametrize(
    ("only", "started"),
    [
        (["stdout-unused"], [("surroundings",)]),
        (["spawns", "nothing-left"], [("leftovers", "traces"), ("traces", "unpickled")]),
        (["pickles"], []),
        (None, list(JOBS_BY_HASH_SEED.values())),
    ],
)
def test_fresh_processes_do_what_the_chosen_checks_need_and_are_started_together(
    only: list[str] | None, started: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("agentgym.checks.probe.Probe", Noted)
    monkeypatch.setattr(Noted, "started", [])
    run_checks("tests.sound_envs:SoundEnv", only=only)
    assert Noted.started == started


def test_a_job_that_was_not_foreseen_is_done_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.checks.probe.Probe", Noted)
    monkeypatch.setattr(Noted, "started", [])
    subject = Subject("tests.sound_envs:SoundEnv", jobs=("traces",))
    assert subject.probes.values("unpickled") == [[]]
    assert Noted.started == [("traces",), ("traces",), ("unpickled",)]


# Time.


class Timed(Subject):
    """Has played episodes that took given seconds."""

    def __init__(self, resets: list[float], steps: list[float]):
        super().__init__("tests.sound_envs:SoundEnv")
        self._resets, self._steps = resets, steps

    def episodes(self, player: str) -> list[Episode]:
        task = boxes_task("train", 0)
        if player == "random":
            return [Episode(task, 0, [], {}, reset_s=self._resets[-1], step_s=self._steps[5:])]
        return [Episode(task, 0, [], {}, reset_s=seconds, step_s=self._steps[:5]) for seconds in self._resets[:-1]]


def test_the_median_and_the_slowest_hundredth_are_told_in_milliseconds():
    few = latency.run(Timed([0.003, 0.001], [0.5]))
    assert few == "reset median 2.00 ms, p99 3.00 ms; step median 500.00 ms, p99 500.00 ms"
    many = latency.run(Timed([0.001, 0.002], [index / 1e3 for index in range(200)]))
    assert many == "reset median 1.50 ms, p99 2.00 ms; step median 99.50 ms, p99 198.00 ms"


def test_a_check_has_its_time_and_that_of_its_resets_and_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Subject, "pace", lambda self: (0.001, 0.0001))
    began = time.perf_counter()
    report = run_checks("tests.broken_envs:HangsOnText", only=["hostile-text"], timeout_s=1.0)
    [row] = report.problems
    # 500 resets and 5000 steps more than a second.
    assert row.message == "did not return within 2 s; find out what it waits for, and bound the wait"
    assert 0.0 < row.seconds < time.perf_counter() - began


def test_what_hangs_does_not_keep_the_program_from_ending():
    report = run_checks("tests.broken_contracts:HangsAtReset", only=["deterministic"], timeout_s=0.2)
    assert report.row("deterministic").status is CheckStatus.ERROR
    left = {thread.name: thread.daemon for thread in threading.enumerate() if thread.name.startswith("check-")}
    assert left.keys() >= {"check-pace", "check-deterministic"}
    assert all(left.values())


# What is told.


def test_an_error_is_told_with_the_line_that_raised_it():
    row = run_checks("tests.broken_envs:CannotBeMade", only=["makes"]).row("makes")
    source = (Path(__file__).parent / "broken_envs" / "living.py").read_text(encoding="utf-8").splitlines()
    number = 1 + next(i for i, line in enumerate(source) if "boxes.db is missing" in line)
    assert row.status is CheckStatus.ERROR
    assert row.message == f"FileNotFoundError: boxes.db is missing; run make-boxes (living.py:{number} in __init__)"


def test_a_check_that_cannot_run_is_skipped_where_the_reason_has_been_told_and_an_error_elsewhere():
    after = run_checks("tests.broken_envs:CannotBeMade", only=["makes", "pickles"])
    assert after.row("pickles").status is CheckStatus.SKIP
    assert after.row("pickles").message == "it cannot be made; see 'makes'"
    alone = run_checks("tests.broken_envs:CannotBeMade", only=["pickles"])
    assert alone.row("pickles").status is CheckStatus.ERROR
    assert "boxes.db is missing" in alone.row("pickles").message
    with pytest.raises(Blocked, match="see 'makes'"):
        check_named("plays").run(Subject("tests.broken_envs:CannotBeMade"))


def test_an_environment_that_does_not_pickle_is_not_sent_to_another_process():
    with pytest.raises(CheckSkipped, match="it does not pickle; see 'pickles'"):
        check_named("spawns").run(Subject("tests.broken_envs:DoesNotPickle"))


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_check_that_is_ended_is_an_error_of_that_check(error: type[BaseException], monkeypatch: pytest.MonkeyPatch):
    def ended(*_: Any, **__: Any) -> None:
        raise error("over")

    monkeypatch.setattr(SoundEnv, "__init__", ended)
    report = run_checks("tests.sound_envs:SoundEnv", only=["makes", "pickles"])
    assert [row.status for row in report.rows] == [CheckStatus.ERROR, CheckStatus.SKIP]
    assert f"{error.__name__}: over" in report.row("makes").message


def test_an_unknown_check_is_refused_with_a_suggestion():
    with pytest.raises(UsageError, match="unknown check 'pickle'; did you mean 'pickles'"):
        run_checks("guess", only=["pickle"])


def test_results_come_one_by_one():
    seen: list[str] = []
    run_checks("guess", only=["makes", "pickles"], on_row=lambda row: seen.append(row.name))
    assert seen == ["makes", "pickles"]


# Messages.


@pytest.mark.parametrize(
    ("observed", "problem"),
    [
        ([], None),
        ([{"role": "user", "content": "x" * MAX_MESSAGE_CHARS}], None),
        (
            [{"role": "user", "content": "x" * (MAX_MESSAGE_CHARS + 1)}],
            "a message of 65537 characters",
        ),
        (
            [{"role": "user", "content": "a"}, {"role": "user", "content": "\ud800"}],
            "a message with invalid Unicode",
        ),
        ([{"content": "who says this?"}], "is not in the observation space"),
        ("text", "is not in the observation space"),
    ],
)
def test_messages_are_bounded_text_with_a_role(observed: Any, problem: str | None):
    found = observation_problem(MessagesSpace(), observed)
    assert found is None if problem is None else problem in str(found)
