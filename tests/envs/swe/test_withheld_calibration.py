"""Calibration of forms that withhold expected values, on the gold solution and on the buggy code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.tasks.swe.instance import Instance
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


def calibrated_with(test: str, wrong: str = WRONG) -> tuple[Calibration, Instance]:
    """Return the instance with another deciding test, and its calibration."""
    files = {**FILES, "textkit/words.py": wrong.encode()}
    instance = replace(
        INSTANCE,
        gold_patch=diff_trees(files, MENDED),
        fail_to_pass=(*INSTANCE.fail_to_pass, "tests/test_words.py::test_more"),
        test_files={"tests/test_words.py": f"{HIDDEN_TESTS}\n\ndef test_more():\n{test}"},
    )
    return grader().calibrate(Repository(instance, files)), instance


def test_deciding_functions_have_withholding_forms():
    forms = grader().calibrate(Repository(INSTANCE, FILES)).withheld
    assert {form.change.name for form in forms} == {"test_words_of_many_blanks", "test_words_of_other_blanks"}
    assert all(form.notes and form.withholds for form in forms)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the wall-clock limits of all runs, which are short once the gold solution has passed."""
    wall_s: list[float] = []
    execute = Sandbox.exec

    def recording(self: Sandbox, *arguments: Any, **more: Any) -> Any:
        wall_s.append(more["limits"].wall_s)
        return execute(self, *arguments, **more)

    monkeypatch.setattr(Sandbox, "exec", recording)
    monkeypatch.setattr("agentgym.envs.swe.calibration.LEAST_WALL_S", 3.0)
    monkeypatch.setattr("agentgym.envs.swe.calibration.PATIENCE", 0.0)
    return wall_s


def test_hanging_fault_does_not_delay_the_calibration(limits: list[float]):
    hangs = WRONG.replace('return text.split(" ")', 'while "  " in text: pass\n    return text.split()')
    calibration, _ = calibrated_with("    assert words('a  b') == ['a', 'b']\n", hangs)
    assert "test_more" in {form.change.name for form in calibration.withheld}
    assert set(limits[1:]) == {3.0}


def test_hanging_forms_do_not_delay_the_calibration(limits: list[float]):
    test = "    left = 3\n    while left != 0:\n        left -= 3\n    assert words('a  b') == ['a', 'b']\n"
    calibration, instance = calibrated_with(test)
    assert calibration.unchanged(instance.fail_to_pass) == ()
    assert set(limits[1:]) == {3.0}
