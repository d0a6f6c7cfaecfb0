"""What a calibration makes of what right code shows; that is scripted here, so that no sandbox is needed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count, permutations
from math import inf
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.swe.calibration import DECISIVE_FORMS, OTHER_FORMS, OTHER_FUNCTIONS, Calibration, calibrated
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import ChangedTestResult, Manner, Process, TestRun
from agentgym.envs.swe.notes import ComparisonNote
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
from agentgym.errors import BrokenTask
from tests.rows import each_row
from tests.swe_cases import FILES, INSTANCE

DECISIVE, OTHERS = INSTANCE.fail_to_pass, INSTANCE.pass_to_pass
CASES: Counter[tuple[str, str, str]] = Counter()
NUMBERS = {
    test: CASES.update([NodeId.of(test).place]) or CASES[NodeId.of(test).place] - 1 for test in DECISIVE + OTHERS
}
_ids = count()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


def repository(**more: Any) -> Repository:
    """The instance under a name that no other test uses: calibrations are remembered by content."""
    return Repository(replace(INSTANCE, id=f"scripted-{next(_ids)}", **more), FILES)


def name_of(test: str) -> str:
    return NodeId.of(test).name


class Code:
    """Code that passes all tests and fails all changed ones, but for what it is told.

    Args:
        plain: Status by manner and test, where nothing is changed.
        seen: What becomes of a test in a changed form: its status and lines; a process with a missing one has an error.
        beside: Status of a test in its true form, given the names of the functions that are changed.
        notes: What is compared with what a form withholds, by place; the same as what is withheld, if not told.
        fault: The same of code with the fault.
        blind: What becomes of a test from which something is withheld.
    """

    def __init__(
        self,
        plain: Callable[[Manner, str], str] = lambda *_: "passed",
        seen: Callable[[ChangedForm, int], tuple[str, str]] = lambda *_: ("failed", "3"),
        beside: Callable[[str, set[str]], str] = lambda *_: "passed",
        notes: Callable[[ChangedForm, int], Mapping[int, object]] = lambda form, _: form.expected,
        fault: Callable[[ChangedForm], Mapping[int, object]] = lambda _: {},
        blind: Callable[[ChangedForm], str] = lambda _: "passed",
    ):
        self._blind = blind
        self._plain, self._seen, self._beside, self._notes, self._fault = plain, seen, beside, notes, fault
        self.runs: list[tuple[Process, float]] = []
        self._turn = 0

    def __call__(self, tree: Mapping[str, bytes], processes: Sequence[Process], wall_s: float = inf) -> list[TestRun]:
        self.runs += [(process, wall_s) for process in processes]
        return [self._run(tree is not FILES, *process) for process in processes]

    def _run(self, right: bool, hidden: Any, forms: Sequence[ChangedForm], manner: Manner) -> TestRun:
        self._turn += 1
        turn, names = self._turn, {form.change.name for form in forms}
        statuses, changed = {}, {}
        for test in hidden.tests:
            own = [form for form in forms if form.change.place == NodeId.of(test).place]
            form = next((one for one in own if one.concerns(NodeId.of(test).case)), None)
            if form is None:
                statuses[test] = self._beside(test, names) if forms else self._plain(manner, test)
            elif form.withholds:
                values = self._notes(form, turn) if right else self._fault(form)
                notes = tuple(ComparisonNote(number, value) for number, value in values.items())
                changed[test] = ChangedTestResult(form, NodeId.of(test).case, self._blind(form), "", notes)
            else:
                changed[test] = ChangedTestResult(form, NodeId.of(test).case, *self._seen(form, turn))
        error = "it ran into a limit" if any(one.status == "missing" for one in changed.values()) else ""
        return TestRun(statuses, changed, error=error, numbers=NUMBERS)


def names_of(found: Calibration) -> set[str]:
    return {form.change.name for form in found.forms}


def test_forms_of_all_tests_are_kept_where_right_code_fails_them_and_disturb_nothing():
    found = calibrated(repository(), Code())
    assert (found.manner, found.excused) == (Manner.RENAMED, ())
    assert names_of(found) == {name_of(test) for test in DECISIVE + OTHERS}
    assert found.unchanged(DECISIVE) == ()
    assert all(set(form.fails.values()) == {"3"} for form in found.forms)


def test_more_forms_are_tried_of_the_functions_that_decide():
    found = Counter(form.change.name for form in calibrated(repository(), Code()).forms)
    assert found["test_words_of_many_blanks"] == DECISIVE_FORMS
    assert found["test_words_of_other_blanks"] == DECISIVE_FORMS + DECISIVE_FORMS // 2  # it has two cases
    assert found["test_words_of_one_blank"] == found["test_upper"] == OTHER_FORMS


@each_row(
    "seen",
    [
        lambda form, turn: ("passed", ""),
        lambda form, turn: ("failed", ""),  # outside of the test's file
        lambda form, turn: ("failed", str(turn)),
        lambda form, turn: ("error", "3"),
    ],
)
def test_a_form_that_right_code_does_not_always_fail_in_the_same_lines_is_not_kept(seen: Any):
    odd = "test_upper"
    code = Code(seen=lambda form, turn: seen(form, turn) if form.change.name == odd else ("failed", "3"))
    found = calibrated(repository(), code)
    assert names_of(found) == {name_of(test) for test in DECISIVE + OTHERS} - {odd}


@each_row(
    "needed, manner", [(Manner.RENAMED, Manner.RENAMED), (Manner.NAMED, Manner.NAMED), (Manner.FILES, Manner.FILES)]
)
@each_row("test", [DECISIVE[0], OTHERS[0]])
def test_tests_are_brought_in_as_safely_as_all_of_them_pass(needed: Manner, manner: Manner, test: str):
    order = list(Manner)

    def plain(manner: Manner, asked: str) -> str:
        return "failed" if asked == test and order.index(manner) < order.index(needed) else "passed"

    code = Code(plain)
    found = calibrated(repository(), code)
    assert (found.manner, found.excused) == (manner, ())
    plainly = [own for (_, forms, own), _ in code.runs if not forms]
    assert plainly == order[: order.index(needed) + 1], "a less safe manner was tried for nothing"


def test_tests_to_keep_that_right_code_fails_in_any_manner_are_excused():
    code = Code(lambda manner, test: "failed" if test == OTHERS[1] else "passed")
    found = calibrated(repository(), code)
    assert (found.manner, found.excused) == (Manner.RENAMED, (OTHERS[1],))


def test_of_two_manners_the_one_that_excuses_fewer_tests_is_taken():
    lost = {Manner.RENAMED: OTHERS[:2], Manner.NAMED: OTHERS[:1], Manner.FILES: OTHERS[:1]}
    found = calibrated(repository(), Code(lambda manner, test: "failed" if test in lost[manner] else "passed"))
    assert (found.manner, found.excused) == (Manner.NAMED, OTHERS[:1])


def test_an_instance_whose_tests_that_decide_fail_in_every_manner_is_broken():
    with pytest.raises(BrokenTask, match=r"do not pass on its gold patch.*many_blanks"):
        calibrated(repository(), Code(lambda manner, test: "failed" if test == DECISIVE[0] else "passed"))


def test_forms_that_hang_are_taken_out_and_the_others_are_kept():
    stuck = "test_longest_of_nothing"
    code = Code(seen=lambda form, _: ("missing", "") if form.change.name == stuck else ("failed", "3"))
    found = calibrated(repository(), code)
    assert names_of(found) == {name_of(test) for test in DECISIVE + OTHERS} - {stuck}


@each_row("guilty", ["test_words_of_one_blank", "test_longest", "test_upper"])
@each_row("disturbed", [OTHERS[3], OTHERS[5]])
def test_of_tests_that_disturb_others_no_form_is_kept_and_all_others_are(guilty: str, disturbed: str):
    code = Code(beside=lambda test, changed: "failed" if test == disturbed and guilty in changed else "passed")
    found = calibrated(repository(), code)
    assert guilty not in names_of(found)
    assert {name_of(test) for test in DECISIVE} <= names_of(found)


def test_two_tests_that_disturb_the_same_one_are_both_found():
    guilty, disturbed = {"test_words_of_one_blank", "test_longest_of_nothing"}, OTHERS[5]
    code = Code(beside=lambda test, changed: "failed" if test == disturbed and guilty & changed else "passed")
    lost = [{name_of(test) for test in DECISIVE + OTHERS} - names_of(calibrated(repository(), code)) for _ in range(12)]
    assert all(guilty <= own and not {name_of(test) for test in DECISIVE} & own for own in lost)
    assert sum(own == guilty for own in lost) > 4


def test_where_everything_disturbs_a_test_no_form_of_its_file_is_kept():
    found = calibrated(repository(), Code(beside=lambda test, _: "failed" if test == OTHERS[0] else "passed"))
    assert "tests/test_words.py" not in {form.change.path for form in found.forms}


@each_row("number", [1, 5, 16, 33])
def test_any_two_functions_are_tried_with_either_one_changed(number: int):
    """However few forms the tests that decide have: one here, as there is nothing in it but a condition."""
    names = [f"test_other{one}" for one in range(number)]
    texts = ["def test_decides():\n    assert works()\n", *(f"def {name}():\n    assert f(3) == 4\n" for name in names)]
    some = repository(
        fail_to_pass=("tests/test_words.py::test_decides",),
        pass_to_pass=tuple(f"tests/test_words.py::{name}" for name in names),
        test_files={"tests/test_words.py": "\n\n".join(texts)},
    )
    code = Code()
    calibrated(some, code)
    turns = [{form.change.name for form in forms} for (_, forms, _), _ in code.runs if forms]
    seen = {name for turn in turns for name in turn} - {"test_decides"}
    assert len(seen) == min(number, OTHER_FUNCTIONS * 3 // 4)
    for one, two in permutations(seen, 2):
        assert any(one in turn and two not in turn for turn in turns)
    assert all(any(one not in turn for turn in turns) for one in seen)


def test_kept_forms_were_tried_with_one_form_per_function_and_process():
    code = Code()
    found = calibrated(repository(), code)
    tried = {form.change for (_, forms, _), _ in code.runs for form in forms}
    assert {form.change for form in found.forms} <= tried
    for (_, forms, _), _ in code.runs:
        rows = Counter((form.change.place, form.change.row) for form in forms)
        assert set(rows.values()) <= {1}


def test_only_forms_of_what_every_run_comes_past_contradict():
    for form in calibrated(repository(), Code()).forms:
        if form.change.name == "test_longest_of_nothing":  # it expects an exception, and some are of two kinds
            assert not form.contradicts
    assert any(form.contradicts for form in calibrated(repository(), Code()).forms)


def test_withheld_values_are_those_that_right_code_compares_every_time():
    found = calibrated(repository(), Code())
    withheld = {form.change.name: form for form in found.withheld}
    assert set(withheld) == {name_of(test) for test in DECISIVE}
    for form in withheld.values():
        assert set(form.notes) == {NodeId.of(test).case for test in DECISIVE if name_of(test) == form.change.name}
        assert all(counts == dict.fromkeys(form.expected, 1) for counts in form.notes.values())


def test_a_form_is_of_no_use_where_the_fault_compares_the_same():
    assert calibrated(repository(), Code(fault=lambda form: form.expected)).withheld == ()


@each_row(
    "notes",
    [
        lambda form, turn: dict.fromkeys(form.expected, "something else"),
        lambda form, turn: form.expected if turn % 2 else {},
        lambda form, turn: {},
    ],
)
def test_nothing_is_withheld_where_right_code_does_not_come_to_it_every_time(notes: Any):
    assert calibrated(repository(), Code(notes=notes)).withheld == ()


def test_only_withheld_values_that_stop_right_code_are_given_up():
    some = repository(
        fail_to_pass=("tests/test_words.py::test_more",),
        pass_to_pass=(),
        test_files={"tests/test_words.py": "def test_more():\n    assert f(1) == 2\n    assert f(3) == 4\n"},
    )
    code = Code(
        notes=lambda form, _: {number: value for number, value in form.expected.items() if value != 4},
        blind=lambda form: "failed" if 4 in form.expected.values() else "passed",
    )
    (form,) = calibrated(some, code).withheld
    assert list(form.expected.values()) == [2]


def test_calibrations_of_another_version_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one = repository()
    first = calibrated(one, Code())
    (path,) = (tmp_path / "cache").rglob("*.json")
    kept = path.read_text()
    for data, known in ((kept, True), (json.dumps({**json.loads(kept), "stamp": "0"}), False), ("{", False)):
        path.write_text(data)
        monkeypatch.setattr("agentgym.envs.swe.calibration._CALIBRATIONS", BoundedCache(4))
        code = Code()
        again = calibrated(one, code)
        assert (not code.runs) is known
        assert again == first if known else again.manner == first.manner
