"""A small package with tests, as input of the task builder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentgym.envs.swe.building import runner as build_runner
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.tasks.swe.package import Package

LIBRARY = '''"""Sums."""


def clamp(value, low=0, high=10):
    """Keep a value within bounds."""
    if low > high:
        raise ValueError("bounds are the wrong way round")
    return max(low, min(value, high))


def total(values, start=0):
    """Add up values."""
    result = start
    for value in values:
        result += value
    return result


def mean(values):
    """Return the mean, or None of nothing."""
    if not values:
        return None
    return total(values) / len(values)
'''
TESTS = """import pytest
from sums import clamp, mean, total
@pytest.mark.parametrize(("value", "result"), [(-1, 0), (0, 0), (5, 5), (10, 10), (11, 10)])
def test_clamp(value, result):
    assert clamp(value) == result
def test_clamp_bounds():
    with pytest.raises(ValueError):
        clamp(1, 3, 2)
    assert clamp(7, 2, 4) == 4
def test_total():
    assert total([1, 2, 3]) == 6
def test_total_start():
    assert total([1], start=5) == 6
def test_mean():
    assert mean([1, 3]) == 2
def test_mean_of_nothing():
    assert mean([]) is None
class TestClass:
    def test_inside(self):
        assert total([]) == 0
"""
FILES = {"sums.py": LIBRARY.encode(), "tests/test_sums.py": TESTS.encode()}


def package(files: Mapping[str, bytes] = FILES) -> Package:
    return Package("sums", "1.0", dict(files), (".",), ("sums.py",), ("tests/test_sums.py",))


def run(files: Mapping[str, bytes], **options: object) -> build_runner.TestOutcome:
    return SubprocessRunner()(files, ["tests/test_sums.py"], **options)  # type: ignore[arg-type]


def only_tests(body: str) -> dict[str, bytes]:
    return {"tests/test_sums.py": body.encode()}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
