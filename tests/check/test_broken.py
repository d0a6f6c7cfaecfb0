"""Each check fails environments that break its promise and says what is wrong, and no other check fails."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Sequence
from typing import Any

import pytest

from agentgym import check as checks
from agentgym.check import CHECKS, Check, CheckStatus, Report, check_names, run_checks
from tests.order_faults import FAULTS

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
"""Checks that start processes; `test_processes.py` runs them."""

IN_PROCESS = [name for name in check_names() if name not in FRESH_PROCESS]

NOT_JUDGED = {"latency"}
"""Checks that never fail."""

PAY = {"useful-work-pays", "junk-scores-low"}

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

Row = tuple[str, str, str, set[str]]
"""An environment, the check that must fail, words of its message, other checks that may fail too."""

BROKEN: dict[str, list[Row]] = {
    "seeds": [
        ("IgnoresSeed", "seed-honoured", "Draw from self.np_random", NOT_DETERMINISTIC),
        ("AlwaysTheSameTask", "seed-honoured", "16 seeds all gave task 'boxes/train/0'", set()),
        ("PeeksAtGlobalRng", "global-rng-unused", "uses a global generator", NOT_DETERMINISTIC),
        ("SharesStateWithSiblings", "seed-isolated", "not on the class or module", {"async-twin"}),
    ],
    "gold": [
        ("GoldInTaskPrompt", "gold-hidden-at-start", "keep gold for grade() and solution()", set()),
        ("GoldInInfo", "gold-hidden-in-play", "part of the gold is shown", {"async-twin"}),
    ],
    "answers": [
        ("CrashesOnBraces", "hostile-text", "raise ToolError for what a model can do wrong", set()),
        ("CrashesOnSecondLook", "plays", "stubborn player: task 'boxes/train/0', turn 2", {"seed-isolated", *PAY}),
        ("EchoesWithoutBound", "hostile-arguments", "characters; cut it to 65536", set()),
        ("ShowsTooMuch", "observations", "turn 1: a message of 100", set()),
        ("PunishesMistakes", "tool-mistakes", "look(‹{'no_such_argument': 1}›) ended the episode", set()),
        ("LogsCarelessly", "hostile-messages", "raised KeyError: ‹'content'›", set()),
        ("CountsAsTheyCome", "parallel-calls", "4 calls at the same time: turn 1 differs", set()),
    ],
    "rewards": [
        ("PaysOutOfRange", "reward-channels", "channel 'effort' is 6, declared 0 to 1", set()),
        ("PaysAnEpisodeChannelTwice", "reward-channels", "use Channel(per_turn=True)", set()),
        ("UnsoundScheme", "scheme-sound", "a failed episode can earn 5.4", set()),
        ("UnsoundNamedScheme", "scheme-sound", "the scheme 'eager': 'effort' pays its mean", {"useful-work-pays"}),
        ("PaysForHaste", "useful-work-pays", "the adversary 'junk at once (empty)' is paid 0.2, an honest", set()),
        ("PaysEveryLook", "useful-work-pays", "scheme 'curious', task 'boxes/train/0': the adversary 'one call", set()),
        ("HonestWorkCosts", "useful-work-pays", "its costs make honest work worse than none", set()),
    ],
    "grades": [
        ("AcceptsAnEmptyAnswer", "junk-scores-low", "junk at once (empty) solved 24 of 24 tasks", set()),
        ("FailsToFail", "useful-work-pays", "failing() solved it; make it end with a mistake", {"junk-scores-low"}),
        ("WrongSolution", "solution-solves", "outcome 0 after 1 turns, ending 'answered'", set()),
        ("PaysForNothing", "idle-scores-low", "the idle player solved 8 of 8 tasks", set()),
        (
            "PaysForNonsense",
            "random-scores-low",
            "the random player solved",
            {"junk-scores-low", "constant-scores-low"},
        ),
    ],
    "guesses": [
        ("HalfAreDeclined", "constant-scores-low", "decline() solves 5", set()),
        ("PaysForWaiting", "unfinished-fails", "waiting in place of the answer solved 4 of 4 tasks", PAY),
        ("MarblesEnv", "enumeration-fails", "numbers around the usual ones, one after another, solved 12 of 12", set()),
        ("CountsThenCloses", "enumeration-fails", "answer(count=...) with numbers around the usual ones", set()),
        ("PaysWhatItCannotRead", "hostile-unpaid", "pay nothing where the grader fails, in its except-branches", set()),
        ("HiddenCoin", "equal-pay", "after the same observations and actions", set()),
        ("TellsTheAnswer", "labels-hide-gold", "the difficulty tells the answer of 100 of 100 tasks, e.g. ‹", set()),
    ],
    "tasks": [
        ("TuplesInTasks", "task-json", "'size': (1, 2)", set()),
        ("ForgetsIds", "task-ids", "find('boxes/train/0') raised TaskError", {"group-identity", "replay"}),
    ],
    "life": [
        ("CannotBeMade", "makes", "boxes.db is missing; run make-boxes (living.py:", set()),
        ("HoldsALocalFunction", "pickles", "define functions and classes at the top level of a module", set()),
        ("DoesNotPickle", "pickles", "cannot pickle '_thread.lock' object; open connections", set()),
        ("NeverEnds", "max-turns", "continues after 6 turns", {"reset-needed"}),
        ("EndsBothWays", "endings", "terminated and truncated at once", {"async-twin"}),
        ("RestoresHalf", "snapshot", "restored in the same instance", set()),
        ("ClosesOnce", "close-twice", "closing twice before the first reset raised", {"gymnasium"}),
    ],
}

ANSWERED = {"ending": "answered"}


def effort(value: Any) -> dict[str, Any]:
    return {"pays": {"effort": value}}


def described(**parameters: Any) -> dict[str, Any]:
    return {"changes": {"parameters": parameters}}


BARE = described(type="object", properties={"box": {"type": "string"}})

CONTRACTS: list[tuple[Any, ...]] = [
    # an environment, the check that must fail when it runs alone, words of its message, arguments if any
    ("Undocumented", "makes", "Undocumented has no docstring"),
    ("WrongSpace", "gymnasium", "check_env"),
    ("BreaksAtReset", "gymnasium", "check_env"),
    ("FourValues", "wrappers", "not enough values to unpack"),
    ("NumbersItself", "vector-sync", "alone and in the vector"),
    ("CountsResets", "seed-honoured", "seed 0, reset 2, two instances"),
    ("NumbersItself", "group-identity", "again"),
    ("OpensOtherwiseById", "group-identity", "again"),
    ("CountsLooks", "replay", "observation differs"),
    ("OtherOnALoop", "async-twin", "on an event loop"),
    ("KnowsItIsACopy", "pickles", "in a copy"),
    ("CleansUpAtTheEnd", "reset-clean", "after another episode: turn 2 differs"),
    ("RestoresOnlyItself", "snapshot", "restored in another instance"),
    ("ClosesOnce", "close-twice", "closing twice in the middle raised AssertionError", {"when": "look"}),
    ("ClosesOnce", "close-twice", "closing twice after the end raised AssertionError", {"when": "end"}),
    ("StepsBeforeReset", "reset-needed", "before the first reset was accepted"),
    ("AcceptsStepsAfterTheEnd", "reset-needed", "after the end of an episode was accepted"),
    ("RefusesInItsOwnWords", "reset-needed", "raised RuntimeError('reset me')"),
    ("TakesOneTurnMore", "max-turns", "max_turns=2 was given, yet an episode took 3 turns"),
    ("Says", "endings", "turn 1: info names the ending 'answered' of an episode that has not", {"before": ANSWERED}),
    ("EndsForNoReason", "endings", "env.reason is 'bored'; end episodes", {"at_end": {"ending": "bored"}}),
    ("Says", "endings", "info['ending'] 'gave_up'", {"at_end": {"ending": "gave_up"}}),
    ("Says", "endings", "info['is_success'] is 1, not a bool", {"at_end": {"is_success": 1}}),
    ("EndsWithTheOtherFlag", "endings", "the reason 'answered' means terminated, the flags say truncated"),
    ("TuplesInGold", "task-json", "after JSON, gold differs"),
    ("HidesATool", "tool-schemas", "does not list look, answer"),
    ("Describes", "tool-schemas", "tool 'look': its parameters are not a valid JSON Schema", described(type=5)),
    ("Describes", "tool-schemas", "must be of type 'object', not 'string'", described(type="string")),
    ("Describes", "tool-schemas", "tool 'look' has no description", {"changes": {"description": " "}}),
    ("Describes", "tool-schemas", "tool 'look': argument 'box' is not explained", BARE),
    ("AnswersMistakesWithNo", "tool-mistakes", "the answer must name 'no_such_argument'"),
    ("TakesWordsForNumbers", "tool-mistakes", "was answered ‹Waited.›; the answer must name 'minutes'"),
    ("BreaksOnUnknownTools", "tool-mistakes", "look_x(‹{}›) raised"),
    ("Says", "reward-channels", "declared are ['effort', 'outcome']", {"pays": {"bonus": 1.0}}),
    ("Says", "reward-channels", "turn 1: channel 'effort' is nan, not a finite number", effort(math.nan)),
    ("Says", "reward-channels", "turn 1: channel 'effort' is '1', not a finite number", effort("1")),
    ("Says", "reward-channels", "turn 1: channel 'effort' is -0.5, declared 0 to 1", effort(-0.5)),
    ("PaysALittleBesidesTheScheme", "rewards-add-up", "let Env compute the reward"),
    ("TellsTheAnswer", "labels-hide-gold", "tag 2 tells the answer", {"how": "tag"}),
    ("TellsTheAnswer", "labels-hide-gold", "the id tells the answer", {"how": "id"}),
    ("TellsTheAnswer", "labels-hide-gold", "info['jar']['of'] tells the answer", {"how": "info"}),
    ("PaysFailuresMore", "scheme-sound", "a failed episode of 'boxes/train/0' earned 2.4, a solved one of"),
    ("StopsEarly", "solution-solves", "outcome 1 after 1 turns, ending 'none'"),
    ("Says", "solution-solves", "outcome 1 after 2 turns, ending 'answered'", {"at_end": {"is_success": False}}),
    ("ChangesItsMind", "grader-stable", "time; a grader may depend on nothing but the task and the actions"),
    ("TellsSuccessByChance", "grader-stable", "the 2. time; a grader may depend on nothing"),
]

ELSEWHERE: list[tuple[str, str, str]] = [
    # the same for checks that start processes (`test_processes.py`)
    ("OnlyInTheMainProcess", "vector-async", "the license is for one process"),
    ("KnowsItIsACopy", "spawns", "I was copied"),
    ("LeavesEverything", "nothing-left", "child processes than before"),
    ("LeavesEverything", "nothing-left", "threads than before"),
    ("LeavesEverything", "nothing-left", "temporary files than before"),
]

SOURCES = [
    # a fault of a task source, words of the message of `task-ids`
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


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_environment_fails_the_right_check_and_no_other(kind: str):
    wrong: list[str] = []
    for env, check, words, also in BROKEN[kind]:
        report = run_checks(f"tests.check.broken_envs:{env}", only=IN_PROCESS)
        failed = {row.name for row in report.problems}
        if words not in report.row(check).message or not check in failed <= also | {check} or report.passed:
            wrong.append(f"{env}: {failed}; {check} says {report.row(check).message}")
    assert wrong == []


def unnoticed(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return the environments that a check alone does not fail with the right message."""
    reports: dict[str, Report] = {}
    wrong: list[str] = []
    for env, check, words, *arguments in rows:
        key = f"{env} {check} {arguments}"
        if key not in reports:
            reports[key] = run_checks(f"tests.check.broken_envs:{env}", *arguments, only=[check])
        row = reports[key].row(check)
        if row.status not in (CheckStatus.FAIL, CheckStatus.ERROR) or words not in row.message:
            wrong.append(f"{env}: {check} says {row.message}")
    return wrong


def test_a_check_alone_detects_the_broken_promise():
    assert unnoticed([(env, check, words) for rows in BROKEN.values() for env, check, words, _ in rows]) == []
    assert unnoticed(CONTRACTS) == []
    assert unnoticed([("HasTasks", "task-ids", words, {"wrong": fault}) for fault, words in SOURCES]) == []


def test_every_check_is_in_the_suite_with_a_unique_name_and_a_failing_case():
    files = pkgutil.iter_modules(checks.__path__)
    modules = [importlib.import_module(f"agentgym.check.{module.name}") for module in files]
    written = {value.name for module in modules for value in vars(module).values() if isinstance(value, Check)}
    assert written == set(check_names())
    assert len(written) == len(CHECKS)
    assert all(check.promise and "\n" not in check.promise for check in CHECKS)
    failing = {check for rows in BROKEN.values() for _, check, *_ in rows} | {fault.check for fault in FAULTS}
    failing |= {check for _, check, *_ in (*CONTRACTS, *ELSEWHERE)}
    assert written - NOT_JUDGED - failing == set()


def test_causes_of_a_check_run_before_it():
    names = [check.name for check in CHECKS]
    assert [check.name for number, check in enumerate(CHECKS) if not set(check.causes) <= set(names[:number])] == []
