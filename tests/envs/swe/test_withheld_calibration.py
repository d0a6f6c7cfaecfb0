"""Forms that withhold what a test expects, tried on right code and on the fault: which are kept, and in what time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.tools.patches import diff_trees
from agentgym.tools.sandbox import Sandbox
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE, MENDED, WRONG

pytestmark = pytest.mark.nightly


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))


def grader() -> SWEGrader:
    limits = WORK_LIMITS.but(wall_s=30.0, cpu_s=30.0)
    return SWEGrader(Sandboxes("auto", False, WORK_LIMITS, limits))


def calibrated_with(test: str, wrong: str = WRONG) -> dict[str, ChangedForm]:
    """The forms that withhold something, by name, of the instance with one more test that decides."""
    files = {**FILES, "textkit/words.py": wrong.encode()}
    instance = replace(
        INSTANCE,
        gold_patch=diff_trees(files, MENDED),
        fail_to_pass=(*INSTANCE.fail_to_pass, "tests/test_words.py::test_more"),
        test_files={"tests/test_words.py": f"{HIDDEN_TESTS}\n\ndef test_more():\n{test}"},
    )
    return {form.change.name: form for form in grader().calibrate(Repository(instance, files)).withheld}


def test_forms_that_withhold_are_found_for_the_tests_that_decide():
    found = grader().calibrate(Repository(INSTANCE, FILES)).withheld
    assert {form.change.name for form in found} == {"test_words_of_many_blanks", "test_words_of_other_blanks"}
    assert all(form.notes and form.withholds for form in found)


def test_places_where_right_code_compares_no_plain_value_are_given_up():
    five = "    class Five:\n        def __eq__(self, other): return str(other) == '5'\n    assert Five() == 5\n"
    forms = calibrated_with(f"{five}    assert words('a  b') == ['a', 'b']\n")
    assert list(forms["test_more"].expected.values()) == [["a", "b"]]


def test_a_form_is_of_no_use_if_faulty_code_does_in_it_what_right_code_does():
    """What tells them apart here is in no place that can be withheld."""
    body = "    assert words('a b') == ['a', 'b']\n    if len(words('a  b')) != 2:\n        raise ValueError\n"
    assert "test_more" not in calibrated_with(body)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The wall-clock limits of all runs to come, which are short where right code has passed before."""
    noted: list[float] = []
    execute = Sandbox.exec

    def noting(self: Sandbox, *arguments: Any, **more: Any) -> Any:
        noted.append(more["limits"].wall_s)
        return execute(self, *arguments, **more)

    monkeypatch.setattr(Sandbox, "exec", noting)
    monkeypatch.setattr("agentgym.envs.swe.calibration.LEAST_WALL_S", 3.0)
    monkeypatch.setattr("agentgym.envs.swe.calibration.PATIENCE", 0.0)
    return noted


def test_a_fault_that_hangs_does_not_hold_up_the_calibration(limits: list[float]):
    hangs = WRONG.replace('return text.split(" ")', 'while "  " in text: pass\n    return text.split()')
    assert "test_more" in calibrated_with("    assert words('a  b') == ['a', 'b']\n", hangs)
    assert set(limits[1:]) == {3.0}


def test_changed_forms_that_hang_do_not_hold_up_the_calibration(limits: list[float]):
    test = "    left = 3\n    while left != 0:\n        left -= 3\n    assert words('a  b') == ['a', 'b']\n"
    files = {**FILES, "textkit/words.py": WRONG.encode()}
    names = ("tests/test_words.py::test_more",)
    texts = {"tests/test_words.py": f"{HIDDEN_TESTS}\n\ndef test_more():\n{test}"}
    instance = replace(INSTANCE, fail_to_pass=(*INSTANCE.fail_to_pass, *names), test_files=texts)
    found = grader().calibrate(Repository(instance, files))
    assert found.unchanged(instance.fail_to_pass) == ()
    assert set(limits[1:]) == {3.0}


def test_the_solution_passes_with_what_is_expected_withheld():
    repository = Repository(INSTANCE, FILES)
    calibration = grader().calibrate(repository)
    for tree, right in ((MENDED, True), (FILES, False)):
        run = grader().run(
            repository, repository.to_grade(tree), repository.hidden, calibration.withheld, calibration.manner
        )
        decisive = [run.changed[test] for test in INSTANCE.fail_to_pass]
        assert all(one.as_on_gold is right for one in decisive)
