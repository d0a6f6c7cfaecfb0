"""Changed tests do no harm to honest work: forms that disturb other tests are dropped, or the tests run again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.judge import Manner
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE, MENDED

pytestmark = pytest.mark.nightly

LIMITED = FILES | {"textkit/__init__.py": FILES["textkit/__init__.py"] + b"\nLIMIT = 3\n"}
MENDED_LIMITED = LIMITED | {"textkit/words.py": MENDED["textkit/words.py"]}
LIMIT_TESTS = """\
import textkit


def test_short_names():
    textkit.LIMIT {begin}
    assert textkit.words("a b") == ["a", "b"]
    textkit.LIMIT {end}


def test_limit():
    assert textkit.LIMIT == 3
"""


def with_shared_state(begin: str, end: str) -> Repository:
    """Return the instance with a test that, if it fails half-way, changes the state that the next test checks."""
    tests = ("tests/test_limit.py::test_short_names", "tests/test_limit.py::test_limit")
    texts = {"tests/test_words.py": HIDDEN_TESTS, "tests/test_limit.py": LIMIT_TESTS.format(begin=begin, end=end)}
    instance = replace(INSTANCE, pass_to_pass=(*INSTANCE.pass_to_pass, *tests), test_files=texts)
    return Repository(instance, LIMITED)


def grader() -> SWEGrader:
    limits = WORK_LIMITS.but(wall_s=30.0, cpu_s=30.0)
    return SWEGrader(Sandboxes("auto", False, WORK_LIMITS, limits))


def test_forms_that_leave_changed_state_behind_are_not_used():
    calibration = grader().calibrate(with_shared_state("+= 1", "-= 1"))
    used = {form.change.name for form in calibration.forms}
    assert (calibration.manner, calibration.excused) == (Manner.RENAMED, ())
    assert "test_short_names" not in used
    assert {"test_words_of_many_blanks", "test_words_of_other_blanks"} <= used


def test_honest_work_passes_every_time_despite_shared_state():
    repository = with_shared_state("= 1", "= 3")
    assert all(grader().grade(repository, MENDED_LIMITED).passed for _ in range(3))


def test_second_run_does_not_save_work_that_breaks_a_test():
    broken = MENDED_LIMITED | {"textkit/__init__.py": FILES["textkit/__init__.py"] + b"\nLIMIT = 4\n"}
    verdict = grader().grade(with_shared_state("+= 1", "-= 1"), broken)
    assert (verdict.passed, verdict.mended, verdict.broken, verdict.tampered) == (False, 1.0, 1, ())
