"""The conformance suite passes a sound environment, and names what is wrong with each broken one."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from agentgym.checks import CHECKS, CheckStatus, check_names, print_report, run_checks
from agentgym.checks.play import Episode
from agentgym.checks.probe import JOBS_BY_HASH_SEED, START_S, patience_s
from agentgym.checks.probe_child import JOBS
from agentgym.registry import register
from agentgym.task import Task
from tests.sound_envs import SoundEnv

FRESH_PROCESS = {
    "process-untouched",
    "stdout-unused",
    "global-rng-untouched",
    "clock-unused",
    "history-unused",
    "vector-async",
    "deterministic-across-processes",
    "spawns",
    "nothing-left",
}
"""Checks that start processes; only those environments are put to them that could fail them."""

IN_PROCESS = [name for name in check_names() if name not in FRESH_PROCESS]

PAY = {"useful-work-pays", "junk-scores-low"}
DOES_NOT_APPLY = {"omissions-fail"}
"""Checks that the sound environments below have nothing for: an answer decides in them."""

NOT_DETERMINISTIC = {
    "gymnasium",
    "vector-sync",
    "seed-honoured",
    "seed-isolated",
    "global-rng-unused",
    "deterministic",
    "group-identity",
    "task-json",
    "grader-stable",
    "reset-clean",
    "snapshot",
    "replay",
    "async-twin",
    "pickles",
}

BROKEN: list[tuple[str, str, str, set[str]]] = [
    # environment, the check that must fail, what it must say, other checks that may fail too
    ("IgnoresSeed", "seed-honoured", "Draw from self.np_random", NOT_DETERMINISTIC),
    ("AlwaysTheSameTask", "seed-honoured", "16 seeds all gave task 'boxes/train/0'", set()),
    ("GoldInPrompt", "gold-hidden-at-start", "shows ‹Full marks for marker", {"gold-hidden-in-play"}),
    ("GoldInTaskPrompt", "gold-hidden-at-start", "keep gold for grade() and solution()", set()),
    ("GoldInToolResult", "gold-hidden-in-play", "[debug: canary", set()),
    ("GoldInToolError", "gold-hidden-in-play", "The grader says: canary", set()),
    ("GoldInInfo", "gold-hidden-in-play", "part of the gold is shown", {"async-twin"}),
    ("PeeksAtGlobalRng", "global-rng-unused", "uses a global generator", NOT_DETERMINISTIC),
    ("CrashesOnLongNames", "hostile-arguments", "OSError: ‹file name too long›; raise ToolError", set()),
    ("CrashesOnBraces", "hostile-text", "raise ToolError for what a model can do wrong", set()),
    ("CrashesOnSecondLook", "plays", "stubborn player: task 'boxes/train/0', turn 2", {"seed-isolated", *PAY}),
    ("EchoesWithoutBound", "hostile-arguments", "characters; cut it to 65536", set()),
    ("ShowsTooMuch", "observations", "turn 1: a message of 100", set()),
    ("PaysOutOfRange", "reward-channels", "channel 'effort' is 6, declared 0 to 1", set()),
    ("PaysAnEpisodeChannelTwice", "reward-channels", "use Channel(per_turn=True)", set()),
    ("UnsoundScheme", "scheme-sound", "a failed episode can earn 5.4", set()),
    ("UnsoundNamedScheme", "scheme-sound", "the scheme 'eager': 'effort' pays its mean", {"useful-work-pays"}),
    ("PaysForHaste", "useful-work-pays", "the adversary 'junk at once (empty)' is paid 0.2, an honest attempt", set()),
    (
        "PaysEveryLook",
        "useful-work-pays",
        "scheme 'curious', task 'boxes/train/0': the adversary 'one call, rep",
        set(),
    ),
    ("AcceptsAnEmptyAnswer", "junk-scores-low", "junk at once (empty) solved 24 of 24 tasks", set()),
    ("FailsToFail", "useful-work-pays", "failing() solved it; make it end with a mistake", {"junk-scores-low"}),
    ("PaysBesidesTheScheme", "rewards-add-up", "let Env compute the reward", {"async-twin", "scheme-sound"}),
    ("WrongSolution", "solution-solves", "outcome 0 after 1 turns, ending 'answered'", set()),
    ("PaysForNothing", "idle-scores-low", "the idle player solved 8 of 8 tasks", set()),
    ("PaysForAnything", "ending-alone-fails", "alone, without any of the work, solved", set()),
    ("PaysForNonsense", "random-scores-low", "the random player solved", {"junk-scores-low"}),
    ("SurvivesReset", "reset-clean", "Set all state of an episode in start()", NOT_DETERMINISTIC),
    ("SharesStateWithSiblings", "seed-isolated", "not on the class or module", {"async-twin"}),
    ("HoldsALocalFunction", "pickles", "define functions and classes at the top level of a module", set()),
    ("HonestWorkCosts", "useful-work-pays", "its costs make honest work worse than none", set()),
    ("DoesNotPickle", "pickles", "cannot pickle '_thread.lock' object; open connections", set()),
    ("GradesByChance", "grader-stable", "nothing but the task and the actions", NOT_DETERMINISTIC),
    ("OverlappingSplits", "splits-disjoint", "'boxes/train/0' and 'boxes/test/0' are the same problem", set()),
    ("TuplesInTasks", "task-json", "'size': (1, 2)", set()),
    ("ForgetsIds", "task-ids", "find('boxes/train/0') raised TaskError", {"group-identity", "replay"}),
    ("NeverEnds", "max-turns", "continues after 6 turns", {"reset-needed"}),
    ("EndsBothWays", "endings", "terminated and truncated at once", {"async-twin"}),
    ("PunishesMistakes", "tool-mistakes", "look(‹{'no_such_argument': 1}›) ended the episode", set()),
    ("LogsCarelessly", "hostile-messages", "raised KeyError: ‹'content'›", set()),
    ("RestoresHalf", "snapshot", "restored in the same instance", set()),
    ("CountsAsTheyCome", "parallel-calls", "4 calls at the same time: turn 1 differs", set()),
    ("ClosesOnce", "close-twice", "closing twice before the first reset raised", {"gymnasium"}),
    ("CannotBeMade", "makes", "boxes.db is missing; run make-boxes (living.py:", set()),
]

BROKEN_ELSEWHERE: list[tuple[str, str, str, set[str]]] = [
    ("UsesGlobalRng", "global-rng-untouched", "drew from or seeded the module 'random'", set()),
    ("SeedsGlobalRng", "global-rng-untouched", "the module 'numpy.random', which the whole process shares", set()),
    ("DependsOnHashSeed", "deterministic-across-processes", "Iterate over sorted(...)", {"spawns"}),
    ("OnlyInTheMainProcess", "vector-async", "the license is for one process", set()),
    ("LeavesProcess", "nothing-left", "child processes than before", set()),
    ("LeavesThread", "nothing-left", "threads than before", set()),
    ("LeavesFiles", "nothing-left", "temporary files than before", set()),
]


@pytest.fixture(autouse=True)
def _environments_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    # What one of them leaves behind goes when the test's own folder goes.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("env", ["SoundEnv", "SoundAsyncEnv", "SoundParallelEnv", "SoundOpenEnv", "SoundFailingEnv"])
def test_a_sound_environment_passes_all_checks(env: str):
    report = run_checks(f"tests.sound_envs:{env}")
    assert {row.name for row in report.rows if row.status is not CheckStatus.PASS} == DOES_NOT_APPLY
    assert [row.name for row in report.rows] == list(check_names())


def test_an_environment_without_tools_skips_what_is_about_tools():
    report = run_checks("tests.sound_envs:SoundTalkEnv")
    assert report.passed
    skipped = {row.name for row in report.rows if row.status is CheckStatus.SKIP}
    about_tools = {"tool-schemas", "tool-mistakes", "hostile-arguments"}
    about_longer_solutions = {"ending-alone-fails", "other-solution-fails", "omissions-fail"}
    about_secrets = {"gold-hidden-at-start", "gold-hidden-in-play"}
    assert skipped == about_tools | about_longer_solutions | about_secrets


@pytest.mark.parametrize(("env", "check", "phrase", "also"), BROKEN, ids=[case[0] for case in BROKEN])
def test_a_broken_environment_fails_where_it_is_broken(env: str, check: str, phrase: str, also: set[str]):
    report = run_checks(f"tests.broken_envs:{env}", only=IN_PROCESS)
    assert phrase in report.row(check).message
    assert check in {row.name for row in report.problems} <= also | {check}
    assert not report.passed


@pytest.mark.parametrize(("env", "check", "phrase", "also"), BROKEN_ELSEWHERE, ids=[c[0] for c in BROKEN_ELSEWHERE])
def test_what_only_a_fresh_process_shows_is_found(env: str, check: str, phrase: str, also: set[str]):
    report = run_checks(f"tests.broken_envs:{env}", only=sorted(FRESH_PROCESS))
    assert phrase in report.row(check).message
    assert check in {row.name for row in report.problems} <= also | {check}


def test_an_environment_that_hangs_is_an_error_and_the_next_check_runs():
    report = run_checks("tests.broken_envs:HangsOnText", only=["hostile-text", "hostile-messages"], timeout_s=3.0)
    assert report.row("hostile-text").status is CheckStatus.ERROR
    assert "did not return within" in report.row("hostile-text").message
    assert report.row("hostile-messages").status is CheckStatus.PASS


def test_a_check_that_needs_another_one_is_no_pass_when_run_alone():
    assert not run_checks("tests.broken_envs:CannotBeMade", only=["pickles"]).passed


def test_an_environment_registered_at_run_time_can_be_checked_in_fresh_processes():
    register("strangers/boxes-v3", SoundEnv, max_turns=4)
    report = run_checks("strangers/boxes-v3", {"split": "test"}, only=["vector-async", "spawns", "max-turns"])
    assert report.passed
    assert report.row("max-turns").message == "max_turns is 4"


def test_arguments_reach_the_environment():
    report = run_checks("guess", {"max_turns": 3}, only=["max-turns", "solution-solves"])
    assert report.row("max-turns").message == "max_turns is 3"
    assert "after 3 turns, ending 'max_turns'" in report.row("solution-solves").message


def test_an_unknown_environment_is_told_in_the_report():
    report = run_checks("gues")
    assert "did you mean 'guess'" in report.row("makes").message
    assert [row.name for row in report.problems] == ["makes"]


def test_the_table_shows_every_guarantee_and_what_to_do():
    out = io.StringIO()
    print_report(
        run_checks("tests.broken_envs:WrongSolution", only=["makes", "solution-solves"]), Console(file=out, width=200)
    )
    text = out.getvalue()
    assert "solution-solves" in text
    assert "fix solution() or the grader" in text
    assert "did not pass: 1 pass, 1 fail" in text


def test_names_are_unique_and_every_promise_is_a_line():
    assert len(set(check_names())) == len(CHECKS)
    assert all(check.promise and "\n" not in check.promise for check in CHECKS)


def test_a_fresh_process_gets_the_more_time_the_slower_the_environment_is():
    task = Task("boxes/train/0", "train", "Find the box.")
    quick, slow = (Episode(task, 0, [], {}, reset_s=each, step_s=[each, each]) for each in (0.001, 1.0))
    assert patience_s([quick]) < START_S + 1 < patience_s([slow, slow])


def test_every_job_of_a_fresh_process_is_done_by_one():
    assert {job for jobs in JOBS_BY_HASH_SEED.values() for job in jobs} == set(JOBS)
