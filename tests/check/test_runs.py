"""Runs of checks and their reports: time limits, errors, skips, and no side effects."""

from __future__ import annotations

import json
import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from agentgym.base.errors import NoSolution, UsageError
from agentgym.check import CHECKS, CheckStatus, run_checks
from agentgym.check.catalog import Check
from agentgym.check.contract import MAX_MESSAGE_CHARS, observation_problem
from agentgym.check.outcomes import Blocked, CheckFailed, CheckSkipped
from agentgym.check.subject import Subject
from agentgym.cli.app import app
from agentgym.core.engine.spaces import MessagesSpace
from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall, user
from agentgym.core.task import GeneratedTasks, Task
from tests.check.sound_envs import SoundEnv, boxes_task
from tests.check.test_broken import IN_PROCESS

FINDINGS = {
    "makes": "tests.check.sound_envs:SoundEnv, tools: look, answer",
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
"""Findings for `SoundEnv`, which say how much a check examined."""

WRONG_SOLUTION = "tests.check.broken_envs:WrongSolution"


def subject_of(env: type, **kwargs: Any) -> Subject:
    return Subject(f"{env.__module__}:{env.__qualname__}", kwargs)


def check_named(name: str) -> Check:
    return next(check for check in CHECKS if check.name == name)


def sound() -> Subject:
    return subject_of(SoundEnv)


# Findings.


def test_a_finding_says_how_much_was_examined():
    subject = sound()
    assert {name: check_named(name).run(subject) for name in FINDINGS} == FINDINGS


class Counted(SoundEnv):
    """Records open instances."""

    number = 0
    open: ClassVar[set[int]] = set()

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.count_in()

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self.count_in()

    def count_in(self) -> None:
        Counted.number += 1
        self.number = Counted.number
        self.open.add(self.number)

    def release(self) -> None:
        self.open.discard(self.number)


def test_checks_close_all_environments():
    for name in IN_PROCESS:
        Counted.number = 0
        with suppress(CheckSkipped):
            check_named(name).run(subject_of(Counted))
        assert Counted.number > 0, name
        assert not Counted.open, name


def test_checks_restore_the_global_generators():
    for name in ("global-rng-unused", "seed-isolated", "deterministic"):
        random.seed(11)
        np.random.seed(11)
        check_named(name).run(sound())
        numbers = random.random(), np.random.random()
        random.seed(11)
        np.random.seed(11)
        assert numbers == (random.random(), np.random.random()), name


class OneTask(SoundEnv):
    """Has one split with one task."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", boxes_task, {"train": 1})


class AnswersAtOnce(SoundEnv):
    """Has solutions of one action."""

    def solution(self, task: Task) -> Solution:
        yield ToolCall("answer", {"text": task.gold["content"]})


class Unsolved(SoundEnv):
    """Has no solutions."""

    def solution(self, task: Task) -> Solution:
        raise NoSolution("nobody knows")


def test_only_solution_solves_fails_without_a_solution():
    about_solutions = ["ending-alone-fails", "other-solution-fails", "omissions-fail"]
    report = run_checks(f"{__name__}:Unsolved", only=[*about_solutions, "solution-solves"])
    assert {report.row(name).status for name in about_solutions} == {CheckStatus.SKIP}
    assert [row.name for row in report.problems] == ["solution-solves"]


def test_an_environment_with_a_single_task_passes():
    subject = subject_of(OneTask)
    assert check_named("seed-honoured").run(subject) == "1 tasks from 16 seeds"
    with pytest.raises(CheckSkipped, match="only one split"):
        check_named("splits-disjoint").run(subject)
    assert check_named("task-ids").run(subject) == "1 ids"


def test_short_episodes_pass():
    for name in ("tool-mistakes", "max-turns", "reset-clean", "snapshot", "seed-isolated", "close-twice", "endings"):
        for turns in (1, 2):
            check_named(name).run(subject_of(AnswersAtOnce, max_turns=turns))
    with pytest.raises(CheckFailed, match="ended the episode; report the mistake and let it continue"):
        check_named("tool-mistakes").run(Subject("tests.check.broken_envs:PunishesMistakes", {"max_turns": 2}))


# Time.


def test_a_hanging_check_is_an_error_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Subject, "pace", lambda self: (0.001, 0.0001))  # 500 resets and 5000 steps: a second
    report = run_checks("tests.check.broken_envs:HangsOnText", only=["hostile-text", "close-twice"], timeout_s=1.0)
    assert report.row("hostile-text").status is CheckStatus.ERROR
    assert "did not return within 2 s" in report.row("hostile-text").message
    assert report.row("close-twice").status is CheckStatus.PASS
    hanging = [thread.daemon for thread in threading.enumerate() if thread.name == "check-hostile-text"]
    assert hanging, "the thread is abandoned"
    assert all(hanging), "it does not keep the program running"


# Reports.


def test_an_error_names_the_line_that_raised_it():
    row = run_checks("tests.check.broken_envs:CannotBeMade", only=["makes"]).row("makes")
    source = (Path(__file__).parent / "broken_envs" / "living.py").read_text(encoding="utf-8").splitlines()
    number = 1 + next(i for i, line in enumerate(source) if "boxes.db is missing" in line)
    assert row.status is CheckStatus.ERROR
    assert row.message == f"FileNotFoundError: boxes.db is missing; run make-boxes (living.py:{number} in __init__)"


def test_a_blocked_check_is_skipped_only_if_an_earlier_check_reported_the_reason():
    after = run_checks("tests.check.broken_envs:CannotBeMade", only=["makes", "pickles"])
    assert after.row("pickles").status is CheckStatus.SKIP
    assert after.row("pickles").message == "it cannot be made; see 'makes'"
    alone = run_checks("tests.check.broken_envs:CannotBeMade", only=["pickles"])
    assert not alone.passed
    assert "boxes.db is missing" in alone.row("pickles").message
    with pytest.raises(Blocked, match="see 'makes'"):
        check_named("plays").run(Subject("tests.check.broken_envs:CannotBeMade"))
    with pytest.raises(CheckSkipped, match="see 'pickles'"):
        check_named("spawns").run(Subject("tests.check.broken_envs:DoesNotPickle"))


def test_arguments_reach_the_environment_and_results_are_in_order():
    names_reported: list[str] = []
    names = ["solution-solves", "max-turns"]
    report = run_checks("guess", {"max_turns": 3}, only=names, on_row=lambda row: names_reported.append(row.name))
    assert names_reported == [row.name for row in report.rows] == ["max-turns", "solution-solves"]
    assert report.row("max-turns").message == "max_turns is 3"
    assert "after 3 turns, ending 'max_turns'" in report.row("solution-solves").message


def test_an_unknown_environment_or_check_gets_a_suggestion():
    report = run_checks("gues")
    assert "did you mean 'guess'" in report.row("makes").message
    assert [row.name for row in report.problems] == ["makes"]
    with pytest.raises(UsageError, match="unknown check 'pickle'; did you mean 'pickles'"):
        run_checks("guess", only=["pickle"])


def test_a_report_passes_only_if_a_check_passed():
    skipped = run_checks("tests.check.sound_envs:SoundTalkEnv", only=["tool-schemas", "tool-mistakes"])
    assert [row.status for row in skipped.rows] == [CheckStatus.SKIP, CheckStatus.SKIP]
    assert not skipped.passed
    assert run_checks("tests.check.sound_envs:SoundTalkEnv", only=["tool-schemas", "makes"]).passed


def test_the_command_prints_all_or_only_failures_and_exits_with_1_on_failures():
    def run(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["check", *words], env={"COLUMNS": "200"})
        return result.exit_code, result.stdout

    options = (WRONG_SOLUTION, "--only", "makes", "--only", "solution-solves")
    code, text = run(*options)
    parts = ("it can be made", "solution-solves", "fix solution() or the grader", "did not pass: 1 pass, 1 fail")
    assert (code, [part for part in parts if part not in text]) == (1, [])
    code, text = run(*options, "--failures")
    assert (code, [part for part in parts if part not in text]) == (1, [parts[0]])
    content = json.loads(run(*options, "--json")[1])
    assert (content["target"], content["passed"]) == (WRONG_SOLUTION, False)
    assert [check["status"] for check in content["checks"]] == ["pass", "fail"]


def test_the_documentation_lists_all_guarantees_in_order():
    text = (Path(__file__).parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    listed = text.partition("## All guarantees")[2]
    assert [line for line in listed.splitlines() if line.startswith("| `")] == [
        f"| `{check.name}` | {check.promise} |" for check in CHECKS
    ]


def test_observations_are_bounded_text_with_a_role():
    rows: list[tuple[Any, str]] = [
        ([], ""),
        ([user("x" * MAX_MESSAGE_CHARS)], ""),
        ([user("x" * (MAX_MESSAGE_CHARS + 1))], "a message of 65537 characters"),
        ([user("a"), user("\ud800")], "a message with invalid Unicode"),
        ([{"content": "no role"}], "is not in the observation space"),
        ("text", "is not in the observation space"),
    ]
    for observed, words in rows:
        problem = observation_problem(MessagesSpace(), observed) or ""
        assert words in problem
        assert bool(words) == bool(problem)
