"""Changed tests harm no honest work: forms that disturb other tests are not used, or what they disturb is run again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym.envs.swe.grading import SWEGrader
from agentgym.envs.swe.judge import Manner
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE, MENDED

pytestmark = pytest.mark.nightly

LIMITED = FILES | {"textkit/__init__.py": FILES["textkit/__init__.py"] + b"\nLIMIT = 3\n"}
MENDED_LIMITED = LIMITED | {"textkit/words.py": MENDED["textkit/words.py"]}
IN_FUNCTIONS = """\
import textkit


def test_short_names():
    textkit.LIMIT {begin}
    assert textkit.words("a b") == ["a", "b"]
    textkit.LIMIT {end}


def test_limit():
    assert textkit.LIMIT == 3
"""
IN_CLASS = """\
import unittest

import textkit


class Limits(unittest.TestCase):
    def test_a_short_names(self):
        textkit.LIMIT {begin}
        self.assertEqual(textkit.words("a b"), ["a", "b"])
        textkit.LIMIT {end}

    def test_limit(self):
        self.assertEqual(textkit.LIMIT, 3)
"""


def with_shared_state(begin: str, end: str) -> Repository:
    """The instance with tests of which one that fails half-way changes what the next test looks at."""
    texts = {"tests/test_limit.py": IN_FUNCTIONS, "tests/test_limit_case.py": IN_CLASS}
    more = ("test_limit.py::test_short_names", "test_limit.py::test_limit")
    more += ("test_limit_case.py::Limits::test_a_short_names", "test_limit_case.py::Limits::test_limit")
    instance = replace(
        INSTANCE,
        pass_to_pass=(*INSTANCE.pass_to_pass, *(f"tests/{test}" for test in more)),
        test_files={
            "tests/test_words.py": HIDDEN_TESTS,
            **{path: text.format(begin=begin, end=end) for path, text in texts.items()},
        },
    )
    return Repository(instance, LIMITED)


def grader() -> SWEGrader:
    limits = WORK_LIMITS.but(wall_s=30.0, cpu_s=30.0)
    return SWEGrader(Sandboxes("auto", False, WORK_LIMITS, limits))


def test_a_test_that_leaves_changed_state_behind_is_in_no_form_that_does():
    found = grader().calibrate(with_shared_state("+= 1", "-= 1"))
    used = {form.change.name for form in found.forms}
    assert (found.manner, found.excused) == (Manner.RENAMED, ())
    assert not used & {"test_short_names", "test_a_short_names"}
    assert {"test_words_of_many_blanks", "test_words_of_other_blanks"} <= used


def test_forms_are_kept_only_if_right_code_fails_them_where_they_say():
    repository = Repository(INSTANCE, FILES)
    calibration = grader().calibrate(repository)
    gold = repository.to_grade(repository.gold)
    assert calibration.unchanged(INSTANCE.fail_to_pass) == ()
    for form in calibration.forms[:12]:
        run = grader().run(repository, gold, repository.hidden, [form], calibration.manner)
        assert run.changed
        assert all(seen.as_on_gold for seen in run.changed.values())
        assert not set(run.statuses.values()) - {"passed"}


def test_calibrations_are_read_again(monkeypatch: pytest.MonkeyPatch):
    repository = Repository(replace(INSTANCE, id="textkit-kept"), FILES)
    first = grader().calibrate(repository)
    monkeypatch.setattr("agentgym.envs.swe.calibration._CALIBRATIONS", BoundedCache(4))
    monkeypatch.setattr("agentgym.envs.swe.calibration._calibrate", None)
    assert grader().calibrate(repository) == first


def test_honest_work_passes_every_time_beside_tests_that_share_state():
    """Whether a changed test leaves the state changed depends here on which others come after it."""
    repository = with_shared_state("= 1", "= 3")
    assert all(grader().grade(repository, MENDED_LIMITED).passed for _ in range(3))


def test_work_that_breaks_a_test_is_not_saved_by_the_second_run():
    broken = MENDED_LIMITED | {"textkit/__init__.py": FILES["textkit/__init__.py"] + b"\nLIMIT = 4\n"}
    found = grader().grade(with_shared_state("+= 1", "-= 1"), broken)
    assert (found.passed, found.mended, found.broken, found.tampered) == (False, 1.0, 2, ())
