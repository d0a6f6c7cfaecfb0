"""What a grading makes of what its processes show; what they show is scripted here, so that no sandbox is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.draws import PROCESSES
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.grading import PARALLEL, Evidence, SWEGrader, SWEVerdict
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
    """Some changed forms of a test, all of whose cases fail in line 3."""
    path, scope, name = NodeId.of(test).place
    cases = {NodeId.of(one).case: "3" for one in (*DECISIVE, *OTHERS) if NodeId.of(one).place == (path, scope, name)}
    changes = [FunctionChange(path, scope, name, (NodeEdit(number, "constant", "1"),)) for number in range(4)]
    return [ChangedForm(change, cases, contradicts=True) for change in changes]


PLACES = {NodeId.of(test).place: test for test in (*DECISIVE, *OTHERS)}
CALIBRATION = Calibration(Manner.RENAMED, tuple(form for test in PLACES.values() for form in forms_of(test)))


class Scripted(SWEGrader):
    """A grader of code that does what it is told to, and that notes what each process was to run.

    Args:
        statuses: What becomes of tests in their true form, where they do not pass.
        beside: The same, but only where some other test is in a changed form.
        changed: What becomes of every test in a changed form.
        more: What else the first runs show, one after the other.
        excused: Tests that right code fails too.
    """

    def __init__(
        self,
        statuses: Mapping[str, str] | None = None,
        beside: Mapping[str, str] | None = None,
        changed: tuple[str, str] = ("failed", "3"),
        more: Collection[Mapping[str, Any]] = (),
        excused: tuple[str, ...] = (),
    ):
        super().__init__(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))
        self._statuses, self._beside, self._changed = statuses or {}, beside or {}, changed
        self._more: Iterator[Mapping[str, Any]] = iter(more)
        self._excused = excused
        self.asked: list[tuple[HiddenTests, Collection[ChangedForm]]] = []

    def calibrate(self, repository: Repository) -> Calibration:
        return replace(CALIBRATION, excused=self._excused)

    def run(
        self,
        repository: Repository,
        tree: Mapping[str, bytes],
        hidden: HiddenTests,
        forms: Collection[ChangedForm],
        manner: Manner,
        wall_s: float = inf,
    ) -> TestRun:
        self.asked.append((hidden, forms))
        true = {**self._statuses, **(self._beside if forms else {})}
        by_place = {form.change.place: form for form in forms}
        seen = {
            test: ChangedTestResult(by_place[NodeId.of(test).place], NodeId.of(test).case, *self._changed)
            for test in hidden.tests
            if NodeId.of(test).place in by_place
        }
        statuses = {test: true.get(test, "passed") for test in hidden.tests if test not in seen}
        return replace(TestRun(statuses, seen), **next(self._more, {}))


def verdict(grader: Scripted, worked: Mapping[str, bytes] = MENDED) -> SWEVerdict:
    return grader.grade(REPOSITORY, worked)


def test_right_code_passes_after_every_process_has_run():
    grader = Scripted()
    outcome = verdict(grader)
    assert (outcome.passed, outcome.mended, outcome.broken, outcome.error, outcome.tampered) == (True, 1.0, 0, "", ())
    assert len(grader.asked) == PROCESSES
    assert outcome.changed_tests == sum(
        any(form.change.place == NodeId.of(test).place for form in forms)
        for hidden, forms in grader.asked
        for test in hidden.tests
    )


def test_work_that_changes_nothing_is_not_run_at_all():
    grader = Scripted()
    outcome = verdict(grader, FILES)
    assert (outcome.passed, outcome.mended, grader.asked) == (False, 0.0, [])


def test_work_that_passes_no_deciding_test_stops_after_the_first_processes():
    grader = Scripted(dict.fromkeys(DECISIVE, "failed"))
    outcome = verdict(grader)
    assert (outcome.passed, outcome.mended, outcome.broken) == (False, 0.0, 0)
    assert len(grader.asked) == PARALLEL


def test_work_that_passes_some_deciding_tests_runs_to_the_end_for_its_share():
    grader = Scripted(dict.fromkeys(DECISIVE[1:], "failed"))
    outcome = verdict(grader)
    assert (outcome.passed, outcome.mended, outcome.broken) == (False, pytest.approx(1 / 3), 0)
    assert len(grader.asked) == PROCESSES


def test_all_processes_run_where_everything_is_asked_for():
    grader = Scripted(dict.fromkeys(DECISIVE, "failed"))
    outcome = grader.examine(REPOSITORY, REPOSITORY.to_grade(FILES), CALIBRATION, to_the_end=True)
    assert outcome.complete
    assert len(outcome.runs) == PROCESSES


@each_row("sign", [{"error": "it left early"}, {"tampered": ("a record is not signed",)}])
@each_row("where", [0, PARALLEL - 1])
def test_work_that_left_early_or_tampered_is_run_no_further_and_earns_nothing(sign: dict[str, Any], where: int):
    grader = Scripted(more=[{}] * where + [sign])
    outcome = verdict(grader)
    assert (outcome.passed, outcome.mended) == (False, 0.0)
    assert (outcome.error, outcome.tampered) == (sign.get("error", ""), sign.get("tampered", ()))
    assert len(grader.asked) == PARALLEL


@each_row("sign", [{"error": "it left early"}, {"tampered": ("a record is not signed",)}])
def test_signs_in_the_last_process_count(sign: dict[str, Any]):
    outcome = verdict(Scripted(more=[{}] * (PROCESSES - 1) + [sign]))
    assert (outcome.passed, outcome.mended) == (False, 0.0)


def test_changed_tests_that_pass_are_tampering_and_earn_nothing():
    outcome = verdict(Scripted(changed=("passed", "")))
    assert (outcome.passed, outcome.mended) == (False, 0.0)
    assert "where correct code fails it" in outcome.tampered[0]


def test_changed_tests_that_fail_elsewhere_convince_nobody_and_accuse_nobody():
    outcome = verdict(Scripted(changed=("failed", "4")))
    assert (outcome.passed, outcome.mended, outcome.broken, outcome.tampered) == (False, 0.0, 0, ())


def test_a_test_that_was_disturbed_by_changed_ones_is_asked_again_alone():
    grader = Scripted(beside={KEPT: "failed"})
    outcome = verdict(grader)
    assert (outcome.passed, outcome.broken) == (True, 0)
    hidden, forms = grader.asked[-1]
    assert (hidden.tests, tuple(forms)) == ((KEPT,), ())
    assert len(grader.asked) == PROCESSES + 1


def test_a_test_that_fails_alone_too_is_broken():
    outcome = verdict(Scripted({KEPT: "failed"}))
    assert (outcome.passed, outcome.mended, outcome.broken) == (False, 1.0, 1)


@each_row("sign", [{"error": "it left early"}, {"tampered": ("a record is not signed",)}])
def test_signs_when_a_test_is_run_alone_count(sign: dict[str, Any]):
    outcome = verdict(Scripted(beside={KEPT: "failed"}, more=[{}] * PROCESSES + [sign]))
    assert (outcome.passed, outcome.mended) == (False, 0.0)
    assert (outcome.error, outcome.tampered) == (sign.get("error", ""), sign.get("tampered", ()))


def test_a_test_that_right_code_fails_too_is_not_asked_for():
    grader = Scripted({KEPT: "failed"}, excused=(KEPT,))
    outcome = verdict(grader)
    assert (outcome.passed, outcome.broken) == (True, 0)
    assert len(grader.asked) == PROCESSES


def test_an_instance_without_tests_that_decide_is_passed_by_nothing():
    outcome = Scripted().grade(Repository(replace(INSTANCE, fail_to_pass=()), FILES), MENDED)
    assert (outcome.passed, outcome.mended) == (False, 0.0)


def test_the_first_reason_why_a_process_did_not_end_is_reported():
    runs = [TestRun({}), TestRun({}, error="first"), TestRun({}, error="second")]
    assert Evidence(runs).error == "first"
    assert Evidence(runs[:1]).error == ""


def test_each_sign_is_told_once():
    assert Evidence([TestRun({}, tampered=("a", "b")), TestRun({}, tampered=("b",))]).signs() == ["a", "b"]


def test_a_test_that_passed_alone_does_not_fail():
    outcome = Evidence([TestRun({"a": "failed"})], alone={"a": "passed"})
    assert not outcome.fails("a")
    assert outcome.fails("b")
