"""Verdicts that follow from the results of the processes, which are scripted: no sandbox is needed."""

from __future__ import annotations

import fcntl
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from agentgym.base.cache import cache_folder
from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.draws import PROCESSES
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.grading import PARALLEL, PROCESS_S, Evidence, SWEGrader, SWEVerdict
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import ChangedTestResult, HiddenTests, Manner, TestRun
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.perturb import FunctionChange, NodeEdit
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from tests.rows import each_row
from tests.swe_cases import FILES, INSTANCE, MENDED

REPOSITORY = Repository(INSTANCE, FILES)
DECISIVE, OTHERS = INSTANCE.fail_to_pass, INSTANCE.pass_to_pass
KEPT = "tests/test_other.py::WordsCase::test_exported"


def forms_of(test: str) -> list[ChangedForm]:
    """Return changed forms of a test; all its cases fail in line 3."""
    path, scope, name = NodeId.of(test).place
    cases = {NodeId.of(id_).case: "3" for id_ in (*DECISIVE, *OTHERS) if NodeId.of(id_).place == (path, scope, name)}
    changes = [FunctionChange(path, scope, name, (NodeEdit(number, "constant", "1"),)) for number in range(4)]
    return [ChangedForm(change, cases, contradicts=True) for change in changes]


PLACES = {NodeId.of(test).place: test for test in (*DECISIVE, *OTHERS)}
BLIND = {NodeId.of(test).place for test in DECISIVE}
CALIBRATION = Calibration(
    Manner.RENAMED,
    tuple(form for test in PLACES.values() for form in forms_of(test)),
    withheld=tuple(ChangedForm(FunctionChange(*place, (NodeEdit(9, "left out", ""),))) for place in BLIND),
)


class ScriptedGrader(SWEGrader):
    """A grader with prepared results, which records the requested runs.

    Args:
        statuses: Statuses of tests in their true form, if they do not pass.
        disturbed: The same, for processes with changed tests only.
        changed: Status and lines of every test in a changed form.
        more: Further fields of the first runs, in order.
        excused: Tests that correct code fails too.
    """

    def __init__(
        self,
        statuses: Mapping[str, str] | None = None,
        disturbed: Mapping[str, str] | None = None,
        changed: tuple[str, str] = ("failed", "3"),
        more: Collection[Mapping[str, Any]] = (),
        excused: tuple[str, ...] = (),
    ):
        super().__init__(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))
        self._statuses, self._disturbed, self._changed = statuses or {}, disturbed or {}, changed
        self._more: Iterator[Mapping[str, Any]] = iter(more)
        self._excused = excused
        self.requests: list[tuple[HiddenTests, Collection[ChangedForm]]] = []
        self.walls_s: list[float] = []
        self.alone: list[bool] = []
        self.in_turn: list[bool] = []
        self.calibration = CALIBRATION

    def calibrate(self, repository: Repository) -> Calibration:
        return replace(self.calibration, excused=self._excused)

    def run(
        self,
        repository: Repository,
        tree: Mapping[str, bytes],
        hidden: HiddenTests,
        forms: Collection[ChangedForm],
        manner: Manner,
        wall_s: float = inf,
    ) -> TestRun:
        self.requests.append((hidden, forms))
        self.walls_s.append(wall_s)
        self.alone.append(not could_run_beside(repository, fcntl.LOCK_SH))
        self.in_turn.append(not could_run_beside(repository, fcntl.LOCK_EX))
        true = {**self._statuses, **(self._disturbed if forms else {})}
        by_place = {form.change.place: form for form in forms}
        blind = (self._statuses.get(test, "passed") for test in hidden.tests)
        changed = {
            test: ChangedTestResult(form, NodeId.of(test).case, *((status, "") if form.withholds else self._changed))
            for test, status in zip(hidden.tests, blind, strict=True)
            if (form := by_place.get(NodeId.of(test).place)) is not None
        }
        statuses = {test: true.get(test, "passed") for test in hidden.tests if test not in changed}
        return replace(TestRun(statuses, changed), **next(self._more, {}))


def verdict(grader: ScriptedGrader, worked: Mapping[str, bytes] = MENDED) -> SWEVerdict:
    return grader.grade(REPOSITORY, worked)


def could_run_beside(repository: Repository, kind: int) -> bool:
    """Whether a process of another grading could run now: one beside others (`LOCK_SH`), or one alone (`LOCK_EX`)."""
    with (cache_folder() / "swe" / "turns" / f"{repository.key[:32]}.lock").open("a") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@each_row(
    "withheld, alone", [(CALIBRATION.withheld, [True] + [False] * 4 + [True]), (CALIBRATION.withheld[1:], [True] * 6)]
)
def test_a_process_that_must_receive_nothing_runs_first_and_alone(withheld: tuple[ChangedForm, ...], alone: list[bool]):
    """Without a withheld form of every test that decides, all processes could learn from others."""
    grader = ScriptedGrader()
    grader.calibration = replace(CALIBRATION, withheld=withheld)
    assert verdict(grader).passed
    assert any(form.withholds for form in grader.requests[0][1])
    assert grader.alone == alone


@each_row("seconds, most_s", [(0.5, PROCESS_S), (7.0, 70.0), (1000.0, 10_000.0)])
def test_every_process_has_a_time_limit_that_depends_on_the_gold_solution(seconds: float, most_s: float):
    grader = ScriptedGrader()
    grader.calibration = replace(CALIBRATION, seconds=seconds)
    assert verdict(grader).passed
    assert most_s / 2 < max(grader.walls_s) <= most_s


def test_correct_work_passes_after_all_processes():
    grader = ScriptedGrader()
    outcome = verdict(grader)
    assert (outcome.passed, outcome.mended, outcome.broken, outcome.error, outcome.tampered) == (True, 1.0, 0, "", ())
    assert len(grader.requests) == PROCESSES
    assert outcome.changed_tests == sum(
        any(form.change.place == NodeId.of(test).place for form in forms)
        for hidden, forms in grader.requests
        for test in hidden.tests
    )


@each_row(
    "failing, worked, mended, runs",
    [
        ((), FILES, 0.0, 0),
        (DECISIVE, MENDED, 0.0, 1),
        (DECISIVE[1:], MENDED, pytest.approx(1 / 3), PROCESSES),
    ],
)
def test_failing_work_runs_only_as_long_as_needed(failing: Any, worked: Mapping[str, bytes], mended: float, runs: int):
    grader = ScriptedGrader(dict.fromkeys(failing, "failed"))
    outcome = verdict(grader, worked)
    assert (outcome.passed, outcome.mended, outcome.broken, len(grader.requests)) == (False, mended, 0, runs)


@each_row("sign", [{"error": "it left early"}, {"tampered": ("a record is not signed",)}])
@each_row(
    "where, runs",
    [(0, 1), (1, 1 + PARALLEL), (PROCESSES - 1, PROCESSES), (PROCESSES, PROCESSES + 1)],
)
def test_early_exit_or_tampering_in_any_process_earns_nothing(sign: dict[str, Any], where: int, runs: int):
    disturbed = {KEPT: "failed"} if where == PROCESSES else None
    grader = ScriptedGrader(disturbed=disturbed, more=[{}] * where + [sign])
    outcome = verdict(grader)
    assert (outcome.passed, outcome.mended, len(grader.requests)) == (False, 0.0, runs)
    assert (outcome.error, outcome.tampered) == (sign.get("error", ""), sign.get("tampered", ()))


def test_examine_to_the_end_runs_all_processes():
    grader = ScriptedGrader(dict.fromkeys(DECISIVE, "failed"))
    outcome = grader.examine(REPOSITORY, REPOSITORY.to_grade(FILES), CALIBRATION, to_the_end=True)
    assert (outcome.complete, len(outcome.runs)) == (True, PROCESSES)


@each_row("result, tampered", [(("passed", ""), True), (("failed", "4"), False)])
def test_changed_tests_that_do_not_fail_as_on_gold_earn_nothing(result: tuple[str, str], tampered: bool):
    outcome = verdict(ScriptedGrader(changed=result))
    assert (outcome.passed, outcome.mended, outcome.broken, bool(outcome.tampered)) == (False, 0.0, 0, tampered)


def test_test_disturbed_by_changed_ones_runs_again_alone():
    grader = ScriptedGrader(disturbed={KEPT: "failed"})
    outcome = verdict(grader)
    assert (outcome.passed, outcome.broken, len(grader.requests)) == (True, 0, PROCESSES + 1)
    hidden, forms = grader.requests[-1]
    assert (hidden.tests, tuple(forms)) == ((KEPT,), ())
    assert all(grader.in_turn), "no process of a grading runs beside one that must be alone"


def test_test_that_fails_alone_too_is_broken_unless_it_is_excused():
    outcome = verdict(ScriptedGrader({KEPT: "failed"}))
    assert (outcome.passed, outcome.mended, outcome.broken) == (False, 1.0, 1)
    grader = ScriptedGrader({KEPT: "failed"}, excused=(KEPT,))
    outcome = verdict(grader)
    assert (outcome.passed, outcome.broken, len(grader.requests)) == (True, 0, PROCESSES)


def test_instance_without_deciding_tests_cannot_be_passed():
    outcome = ScriptedGrader().grade(Repository(replace(INSTANCE, fail_to_pass=()), FILES), MENDED)
    assert (outcome.passed, outcome.mended) == (False, 0.0)


def test_evidence_has_the_first_error_and_each_sign_once():
    runs = [TestRun({}, tampered=("a", "b")), TestRun({}, tampered=("b",), error="first"), TestRun({}, error="second")]
    assert (Evidence(runs).error, Evidence(runs).signs()) == ("first", ["a", "b"])
