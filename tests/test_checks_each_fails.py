"""No check is empty: each is in the suite, passes a sound environment, and fails one that breaks its promise."""

from __future__ import annotations

import importlib
import io
import pkgutil
from pathlib import Path

import pytest
from rich.console import Console

from agentgym import checks
from agentgym.checks import CHECKS, Check, CheckStatus, check_names, print_report, run_checks
from tests.order_faults import FAULTS
from tests.test_checks import BROKEN, BROKEN_ELSEWHERE

BROKEN_CONTRACTS: list[tuple[str, str, str]] = [
    # the environment, the check that must fail, what it must say
    ("Undocumented", "makes", "Undocumented has no docstring"),
    ("WrongSpace", "gymnasium", "check_env"),
    ("BreaksAtReset", "gymnasium", "check_env"),
    ("FourValues", "wrappers", "not enough values to unpack"),
    ("NumbersItself", "vector-sync", "alone and in the vector"),
    ("CountsResets", "seed-honoured", "seed 0, reset 2, two instances"),
    ("NumbersItself", "group-identity", "again"),
    ("OpensOtherwiseById", "group-identity", "again"),
    ("SeedsRandomOnly", "global-rng-untouched", "the module 'random', which the whole process shares"),
    ("CountsLooks", "deterministic", "again"),
    ("CountsLooks", "replay", "observation differs"),
    ("OtherOnALoop", "async-twin", "on an event loop"),
    ("KnowsItIsACopy", "pickles", "in a copy"),
    ("KnowsItIsACopy", "spawns", "I was copied"),
    ("CleansUpAtTheEnd", "reset-clean", "after another episode: turn 2 differs"),
    ("RestoresOnlyItself", "snapshot", "restored in another instance"),
    ("HoldsWhatItLookedAt", "close-twice", "closing twice in the middle raised AssertionError"),
    ("HoldsWhatWasAnswered", "close-twice", "closing twice after the end raised AssertionError"),
    ("StepsBeforeReset", "reset-needed", "before the first reset was accepted"),
    ("AcceptsStepsAfterTheEnd", "reset-needed", "after the end of an episode was accepted"),
    ("RefusesInItsOwnWords", "reset-needed", "raised RuntimeError('reset me')"),
    ("TakesOneTurnMore", "max-turns", "max_turns=2 was given, yet an episode took 3 turns"),
    ("EndsTooEarly", "endings", "turn 1: info names the ending 'answered' of an episode that has not ended"),
    ("EndsForNoReason", "endings", "env.reason is 'bored'; end episodes with finish(Reason...)"),
    ("EndsForAnotherReason", "endings", "info['ending'] 'gave_up'"),
    ("EndsWithACount", "endings", "info['is_success'] is 1, not a bool"),
    ("EndsWithTheOtherFlag", "endings", "the reason 'answered' means terminated, the flags say truncated"),
    ("TuplesInGold", "task-json", "after JSON, gold differs"),
    ("HidesATool", "tool-schemas", "does not list look, answer"),
    ("DescribesNoSchema", "tool-schemas", "tool 'look': its parameters are not a valid JSON Schema"),
    ("DescribesAText", "tool-schemas", "tool 'look': its parameters must be of type 'object', not 'string'"),
    ("DescribesNothing", "tool-schemas", "tool 'look' has no description"),
    ("DescribesNoArgument", "tool-schemas", "tool 'look': argument 'box' is not explained"),
    ("AnswersMistakesWithNo", "tool-mistakes", "the answer must name 'no_such_argument'"),
    ("TakesWordsForNumbers", "tool-mistakes", "was answered ‹Waited.›; the answer must name 'minutes'"),
    ("BreaksOnUnknownTools", "tool-mistakes", "look_x(‹{}›) raised"),
    ("PaysIntoAnotherChannel", "reward-channels", "declared are ['effort', 'outcome']"),
    ("PaysNan", "reward-channels", "turn 1: channel 'effort' is nan, not a finite number"),
    ("PaysText", "reward-channels", "turn 1: channel 'effort' is '1', not a finite number"),
    ("PaysTooLittle", "reward-channels", "turn 1: channel 'effort' is -0.5, declared 0 to 1"),
    ("PaysALittleBesidesTheScheme", "rewards-add-up", "let Env compute the reward"),
    ("PaysFailuresMore", "scheme-sound", "a failed episode of 'boxes/train/0' earned 2.4, a solved one of"),
    ("StopsEarly", "solution-solves", "outcome 1 after 1 turns, ending 'none'"),
    ("HidesItsSuccess", "solution-solves", "outcome 1 after 2 turns, ending 'answered'"),
    ("ChangesItsMind", "grader-stable", "time; a grader may depend on nothing but the task and the actions"),
    ("TellsSuccessByChance", "grader-stable", "the 2. time; a grader may depend on nothing"),
]

BROKEN_SOURCES = [
    # what the task source does wrong, what `task-ids` must say
    ("says another split", "task 'boxes/test/0' came from split 'test', but its split is 'train'"),
    ("repeats an id", "the id 'boxes/train/0' names two tasks"),
    ("numbers itself", "task 39 of 'train' differs in a second task source"),
    ("finds the first", "find('boxes/train/1') returns a different task from get('train', 1)"),
    ("finds anything", "find('no such task') returned a task"),
    ("takes any split", "get('no such split', 0) returned a task"),
    ("takes any number", "get('train', -1) returned a task; raise TaskError for a task that does not exist"),
    ("has no end", "get('train', 60) returned a task; raise TaskError for a task that does not exist"),
    ("looks up", "get('no such split', 0) raised KeyError"),
]
NOT_JUDGED = {"latency"}
"""Checks that only tell something."""


@pytest.fixture(autouse=True)
def _environments_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


@pytest.mark.parametrize(("env", "check", "phrase"), BROKEN_CONTRACTS)
def test_a_broken_promise_is_found(env: str, check: str, phrase: str):
    row = run_checks(f"tests.broken_contracts:{env}", only=[check]).row(check)
    assert row.status in (CheckStatus.FAIL, CheckStatus.ERROR)
    assert phrase in row.message


@pytest.mark.parametrize(("wrong", "phrase"), BROKEN_SOURCES)
def test_what_is_wrong_with_a_task_source_is_found(wrong: str, phrase: str):
    row = run_checks("tests.broken_contracts:HasTasks", {"wrong": wrong}, only=["task-ids"]).row("task-ids")
    assert row.status is CheckStatus.FAIL
    assert phrase in row.message


@pytest.mark.parametrize(("env", "check", "phrase", "also"), BROKEN, ids=[case[0] for case in BROKEN])
def test_a_check_alone_finds_what_it_is_there_for(env: str, check: str, phrase: str, also: set[str]):
    row = run_checks(f"tests.broken_envs:{env}", only=[check]).row(check)
    assert row.status in (CheckStatus.FAIL, CheckStatus.ERROR)
    assert phrase in row.message


def test_every_check_is_seen_to_fail_somewhere():
    """With those of `test_checks` and `test_checks_subtle`; that all pass a sound environment is tested there."""
    seen = {check for _, check, *_ in (*BROKEN, *BROKEN_ELSEWHERE)} | {check for _, check, _ in BROKEN_CONTRACTS}
    seen |= {fault.check for fault in FAULTS}
    assert set(check_names()) - NOT_JUDGED - seen == set()


def test_every_check_that_is_written_is_in_the_suite():
    modules = [
        importlib.import_module(f"agentgym.checks.{found.name}") for found in pkgutil.iter_modules(checks.__path__)
    ]
    written = {value.name for module in modules for value in vars(module).values() if isinstance(value, Check)}
    assert written == {check.name for check in CHECKS}


def test_a_report_in_which_nothing_passed_is_no_success():
    report = run_checks("tests.sound_envs:SoundTalkEnv", only=["tool-schemas", "tool-mistakes"])
    assert [row.status for row in report.rows] == [CheckStatus.SKIP, CheckStatus.SKIP]
    assert not report.passed
    out = io.StringIO()
    print_report(report, Console(file=out, width=200))
    assert "was not checked: 2 skip" in out.getvalue()


def test_one_check_that_passed_beside_others_that_do_not_apply_is_a_success():
    assert run_checks("tests.sound_envs:SoundTalkEnv", only=["tool-schemas", "makes"]).passed
