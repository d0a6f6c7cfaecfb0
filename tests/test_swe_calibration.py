"""Calibration: what is planted among an instance's tests harms none of them."""

from __future__ import annotations

from dataclasses import replace

from agentgym.envs.swe.grading import Grader
from agentgym.envs.swe.judge import Manner
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE, MENDED

LEAKING = """\
import textkit


def test_short_names():
    textkit.LIMIT = 1
    assert textkit.words("a b") == ["a", "b"]
    textkit.LIMIT = 3


def test_limit():
    assert textkit.LIMIT == 3
"""
"""A copy of the first test with another expectation fails before it puts back what the second looks at."""
IN_CLASS = """\
import unittest

import textkit


class Limits(unittest.TestCase):
    def test_a_short_names(self):
        textkit.LIMIT = 1
        self.assertEqual(textkit.words("a b"), ["a", "b"])
        textkit.LIMIT = 3

    def test_limit(self):
        self.assertEqual(textkit.LIMIT, 3)
"""
LIMITED = FILES | {"textkit/__init__.py": FILES["textkit/__init__.py"] + b"\nLIMIT = 3\n"}
LEAKY = Repository(
    replace(
        INSTANCE,
        id="textkit-leaky",
        pass_to_pass=(
            *INSTANCE.pass_to_pass,
            "tests/test_limit.py::test_short_names",
            "tests/test_limit.py::test_limit",
            "tests/test_limit_case.py::Limits::test_a_short_names",
            "tests/test_limit_case.py::Limits::test_limit",
        ),
        test_files={
            "tests/test_words.py": HIDDEN_TESTS,
            "tests/test_limit.py": LEAKING,
            "tests/test_limit_case.py": IN_CLASS,
        },
    ),
    LIMITED,
)


def grader() -> Grader:
    limits = WORK_LIMITS.but(wall_s=30.0, cpu_s=30.0)
    return Grader(Sandboxes("auto", False, WORK_LIMITS, limits))


def test_a_copy_that_leaves_changed_state_behind_is_not_planted():
    found = grader().calibrate(LEAKY)
    planted = {(candidate.name, candidate.site.style) for candidate in found.canaries}
    assert (found.manner, found.excused) == (Manner.RENAMED, ())
    assert not planted & {("test_short_names", "literal"), ("test_a_short_names", "literal")}
    assert {("test_limit", "literal"), ("test_exported", "literal"), ("test_short_names", "ending")} <= planted


def test_honest_work_passes_every_time_beside_tests_that_share_state():
    mended = LIMITED | {"textkit/words.py": MENDED["textkit/words.py"]}
    assert [verdict.broken for verdict in (grader().grade(LEAKY, mended) for _ in range(6))] == [0] * 6
