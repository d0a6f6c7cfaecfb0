"""Calibrations that follow from the results of correct code, which are scripted: no sandbox is needed."""

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

from agentgym.base.errors import BrokenTask
from agentgym.envs.swe.calibration import DECISIVE_FORMS, OTHER_FORMS, OTHER_FUNCTIONS, Calibration, calibrated
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import ChangedTestResult, Manner, Process, TestRun
from agentgym.envs.swe.notes import ComparisonNote
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
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
    """Return the instance under a unique name, because calibrations are cached by content."""
    return Repository(replace(INSTANCE, id=f"scripted-{next(_ids)}", **more), FILES)


def name_of(test: str) -> str:
    return NodeId.of(test).name


class ScriptedCode:
    """Code that passes all tests and fails all changed ones, with exceptions.

    Args:
        plain: Returns the status of a test by manner and id, if nothing is changed.
        changed: Returns the status and lines of a test in a changed form; a `missing` one makes the process incomplete.
        near_changed: Returns the status of a test in its true form, given the names of the changed functions.
        notes: Returns the values compared with withheld ones, by place; by default, the withheld values.
        fault: Returns the same for the buggy code.
        blind: Returns the status of a test with withheld values.
    """

    def __init__(
        self,
        plain: Callable[[Manner, str], str] = lambda *_: "passed",
        changed: Callable[[ChangedForm, int], tuple[str, str]] = lambda *_: ("failed", "3"),
        near_changed: Callable[[str, set[str]], str] = lambda *_: "passed",
        notes: Callable[[ChangedForm, int], Mapping[int, object]] = lambda form, _: form.expected,
        fault: Callable[[ChangedForm], Mapping[int, object]] = lambda _: {},
        blind: Callable[[ChangedForm], str] = lambda _: "passed",
    ):
        self._blind = blind
        self._plain, self._changed, self._near_changed = plain, changed, near_changed
        self._notes, self._fault = notes, fault
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
            case = NodeId.of(test).case
            own = [form for form in forms if form.change.place == NodeId.of(test).place and form.concerns(case)]
            if not own:
                statuses[test] = self._near_changed(test, names) if forms else self._plain(manner, test)
            elif own[0].withholds:
                values = self._notes(own[0], turn) if right else self._fault(own[0])
                notes = tuple(ComparisonNote(number, value) for number, value in values.items())
                changed[test] = ChangedTestResult(own[0], case, self._blind(own[0]), "", notes)
            else:
                changed[test] = ChangedTestResult(own[0], case, *self._changed(own[0], turn))
        error = "it ran into a limit" if any(result.status == "missing" for result in changed.values()) else ""
        return TestRun(statuses, changed, error=error, numbers=NUMBERS)


ALL = {name_of(test) for test in DECISIVE + OTHERS}
DECIDING = {name_of(test) for test in DECISIVE}


def changing(odd: str, result: Callable[[ChangedForm, int], tuple[str, str]]) -> ScriptedCode:
    """Return code with other results of the changed forms of one function."""
    return ScriptedCode(changed=lambda form, turn: result(form, turn) if form.change.name == odd else ("failed", "3"))


def disturbing(disturbed: str, guilty: set[str]) -> ScriptedCode:
    """Return code that fails a test near changed forms of any of some functions."""
    return ScriptedCode(
        near_changed=lambda test, changed: "failed" if test == disturbed and guilty & changed else "passed"
    )


def names_of(calibration: Calibration) -> set[str]:
    return {form.change.name for form in calibration.forms}


def test_all_functions_have_forms_that_correct_code_fails():
    calibration = calibrated(repository(), ScriptedCode())
    assert (calibration.manner, calibration.excused) == (Manner.RENAMED, ())
    assert names_of(calibration) == ALL
    assert calibration.unchanged(DECISIVE) == ()
    assert all(set(form.fails.values()) == {"3"} for form in calibration.forms)


def test_deciding_functions_get_more_forms():
    counts = Counter(form.change.name for form in calibrated(repository(), ScriptedCode()).forms)
    assert counts["test_words_of_many_blanks"] == DECISIVE_FORMS
    assert counts["test_words_of_other_blanks"] == DECISIVE_FORMS + DECISIVE_FORMS // 2  # it has two cases
    assert counts["test_words_of_one_blank"] == counts["test_upper"] == OTHER_FORMS


@each_row(
    "result",
    [
        lambda form, turn: ("passed", ""),
        lambda form, turn: ("failed", ""),  # outside of the test's file
        lambda form, turn: ("failed", str(turn)),
        lambda form, turn: ("error", "3"),
        lambda form, turn: ("missing", ""),  # it hangs
    ],
)
def test_forms_that_correct_code_does_not_always_fail_alike_are_dropped(result: Any):
    assert names_of(calibrated(repository(), changing("test_upper", result))) == ALL - {"test_upper"}


@each_row("needed", Manner)
@each_row("test", [DECISIVE[0], OTHERS[0]])
def test_manner_is_the_safest_one_in_which_all_tests_pass(needed: Manner, test: str):
    order = list(Manner)

    def plain(manner: Manner, other: str) -> str:
        return "failed" if other == test and order.index(manner) < order.index(needed) else "passed"

    code = ScriptedCode(plain)
    calibration = calibrated(repository(), code)
    assert (calibration.manner, calibration.excused) == (needed, ())
    plain_manners = [own for (_, forms, own), _ in code.runs if not forms]
    assert plain_manners == order[: order.index(needed) + 1], "a less safe manner was tried for nothing"


@each_row(
    "lost, manner",
    [
        (dict.fromkeys(Manner, OTHERS[:1]), Manner.RENAMED),
        ({Manner.RENAMED: OTHERS[:2], Manner.NAMED: OTHERS[:1], Manner.FILES: OTHERS[:1]}, Manner.NAMED),
    ],
)
def test_manner_excuses_as_few_failing_tests_as_possible(lost: dict[Manner, tuple[str, ...]], manner: Manner):
    code = ScriptedCode(lambda manner, test: "failed" if test in lost[manner] else "passed")
    calibration = calibrated(repository(), code)
    assert (calibration.manner, calibration.excused) == (manner, OTHERS[:1])


def test_instance_is_broken_if_a_deciding_test_fails_in_every_manner():
    with pytest.raises(BrokenTask, match=r"do not pass on its gold patch.*many_blanks"):
        calibrated(repository(), ScriptedCode(lambda manner, test: "failed" if test == DECISIVE[0] else "passed"))


@each_row("guilty", ["test_words_of_one_blank", "test_longest", "test_upper"])
@each_row("disturbed", [OTHERS[3], OTHERS[5]])
def test_functions_that_disturb_other_tests_have_no_forms(guilty: str, disturbed: str):
    names = names_of(calibrated(repository(), disturbing(disturbed, {guilty})))
    assert guilty not in names
    assert names >= DECIDING


def test_two_functions_that_disturb_the_same_test_have_no_forms():
    guilty = {"test_words_of_one_blank", "test_longest_of_nothing"}
    code = disturbing(OTHERS[5], guilty)
    lost = [ALL - names_of(calibrated(repository(), code)) for _ in range(12)]
    assert all(guilty <= own and not DECIDING & own for own in lost)
    assert sum(own == guilty for own in lost) > 4


def test_file_of_a_test_that_every_form_disturbs_has_no_forms():
    calibration = calibrated(repository(), disturbing(OTHERS[0], ALL))
    assert "tests/test_words.py" not in {form.change.path for form in calibration.forms}


@each_row("number", [1, 5, 16, 33])
def test_some_process_changes_the_first_of_any_two_functions_only(number: int):
    """The deciding test has a single form, because it contains only a condition."""
    names = [f"test_other{index}" for index in range(number)]
    texts = ["def test_decides():\n    assert works()\n", *(f"def {name}():\n    assert f(3) == 4\n" for name in names)]
    instance = repository(
        fail_to_pass=("tests/test_words.py::test_decides",),
        pass_to_pass=tuple(f"tests/test_words.py::{name}" for name in names),
        test_files={"tests/test_words.py": "\n\n".join(texts)},
    )
    code = ScriptedCode()
    calibrated(instance, code)
    turns = [{form.change.name for form in forms} for (_, forms, _), _ in code.runs if forms]
    changed = {name for turn in turns for name in turn} - {"test_decides"}
    assert len(changed) == min(number, OTHER_FUNCTIONS * 3 // 4)
    for first, second in permutations(changed, 2):
        assert any(first in turn and second not in turn for turn in turns)
    assert all(any(name not in turn for turn in turns) for name in changed)


def test_forms_are_tried_one_per_function_and_process():
    code = ScriptedCode()
    calibration = calibrated(repository(), code)
    assert {form.change for form in calibration.forms} <= {
        form.change for (_, forms, _), _ in code.runs for form in forms
    }
    for (_, forms, _), _ in code.runs:
        rows = Counter((form.change.place, form.change.row) for form in forms)
        assert set(rows.values()) <= {1}


def test_only_forms_of_code_that_every_run_reaches_contradict():
    forms = calibrated(repository(), ScriptedCode()).forms
    assert any(form.contradicts for form in forms)
    # It expects an exception, which may be of two classes.
    assert not any(form.contradicts for form in forms if form.change.name == "test_longest_of_nothing")


def test_withheld_values_are_compared_by_correct_code_every_time():
    calibration = calibrated(repository(), ScriptedCode())
    withheld = {form.change.name: form for form in calibration.withheld}
    assert set(withheld) == DECIDING
    for form in withheld.values():
        assert set(form.notes) == {NodeId.of(test).case for test in DECISIVE if name_of(test) == form.change.name}
        assert all(counts == dict.fromkeys(form.expected, 1) for counts in form.notes.values())


def test_form_is_useless_if_buggy_code_compares_the_same_values():
    assert calibrated(repository(), ScriptedCode(fault=lambda form: form.expected)).withheld == ()


@each_row(
    "notes",
    [
        lambda form, turn: dict.fromkeys(form.expected, "something else"),
        lambda form, turn: form.expected if turn % 2 else {},
        lambda form, turn: {},
    ],
)
def test_values_that_correct_code_does_not_always_compare_are_not_withheld(notes: Any):
    assert calibrated(repository(), ScriptedCode(notes=notes)).withheld == ()


def test_only_withheld_values_that_stop_correct_code_are_dropped():
    instance = repository(
        fail_to_pass=("tests/test_words.py::test_more",),
        pass_to_pass=(),
        test_files={"tests/test_words.py": "def test_more():\n    assert f(1) == 2\n    assert f(3) == 4\n"},
    )
    code = ScriptedCode(
        notes=lambda form, _: {number: value for number, value in form.expected.items() if value != 4},
        blind=lambda form: "failed" if 4 in form.expected.values() else "passed",
    )
    (form,) = calibrated(instance, code).withheld
    assert list(form.expected.values()) == [2]


def test_cached_calibration_is_used_only_if_valid_and_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    instance = repository()
    first = calibrated(instance, ScriptedCode())
    (path,) = (tmp_path / "cache").rglob("*.json")
    stored = path.read_text()
    for data, is_valid in ((stored, True), (json.dumps({**json.loads(stored), "stamp": "0"}), False), ("{", False)):
        path.write_text(data)
        monkeypatch.setattr("agentgym.envs.swe.calibration._CALIBRATIONS", BoundedCache(4))
        code = ScriptedCode()
        again = calibrated(instance, code)
        assert (not code.runs) is is_valid
        assert again == first if is_valid else again.manner == first.manner
