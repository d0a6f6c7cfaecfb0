"""The baseline of a package contains only its reliable tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.envs.swe.building import runner as build_runner
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.envs.swe.building.steady import MAX_SUITE_S, Unfit, unfit_tests
from agentgym.envs.swe.building.validation import Baseline, measure_baseline
from tests.envs.swe.building.package import FILES, TESTS, package
from tests.rows import each_row

pytestmark = pytest.mark.nightly

UNFIT = {
    "wrong": ("def test_wrong(): assert total([1]) == 2", Unfit.FAILS),
    "set": ("@pytest.mark.parametrize('x', {'a', 'b', 'c', 'd', 'e', 'f'})\ndef test_set(x): pass", Unfit.RENAMED),
    "address": ("@pytest.mark.parametrize('x', [object()], ids=id)\ndef test_address(x): pass", Unfit.RENAMED),
    "hash": ("import sys\ndef test_hash(): assert not sys.flags.hash_randomization", Unfit.DISTURBED),
    "elapsed": (
        "import time\ndef test_elapsed():\n    start = time.perf_counter()\n    total([1])\n"
        "    assert time.perf_counter() - start < 2",
        Unfit.DISTURBED,
    ),
    "order": (
        "import sums\ndef test_first(): sums.mark = 1\ndef test_order(): assert sums.mark == 1",
        Unfit.DISTURBED,
    ),
    "written": (
        "import pathlib\ndef test_written(): pathlib.Path(__file__).with_name('x.txt').write_text('x')",
        Unfit.WRITES,
    ),
}


@pytest.fixture(scope="module")
def measured() -> Baseline:
    """Return the baseline of a package with all unreliable tests, each in its own file."""
    bodies = {
        f"tests/test_{name}_alone.py": f"import pytest\nfrom sums import total\n\n{body}\n".encode()
        for name, (body, _) in UNFIT.items()
    }
    whole = package({**FILES, **bodies})
    return measure_baseline(replace(whole, test_files=(*whole.test_files, *bodies)), SubprocessRunner())


@each_row("name", UNFIT)
def test_unreliable_tests_are_dropped(measured: Baseline, name: str) -> None:
    assert {reason for test, reason in measured.dropped.items() if f"::test_{name}" in test} == {UNFIT[name][1]}
    assert not any(f"::test_{name}" in test for test in measured.passing)


def test_reliable_tests_in_other_files_are_kept(measured: Baseline) -> None:
    reliable = [test for test in measured.passing if test.startswith("tests/test_sums.py")]
    assert len(reliable) == len(measure_baseline(package(), SubprocessRunner()).passing) >= 11
    assert not any(test.startswith("tests/test_sums.py") for test in measured.dropped)


def test_flaky_test_is_dropped(tmp_path: Path) -> None:
    body = f"""
import os
def test_third():
    number = len(os.listdir({str(tmp_path)!r}))
    open(os.path.join({str(tmp_path)!r}, str(os.getpid())), "w").close()
    assert number % 3 != 2
"""
    tests = {"tests/test_sums.py": (TESTS + body).encode()}
    baseline = measure_baseline(package({**FILES, **tests}), SubprocessRunner())
    assert list(baseline.dropped) == ["tests/test_sums.py::test_third"]


def test_tests_that_write_elsewhere_or_wait_are_kept() -> None:
    body = """
import time
def test_temporary(tmp_path):
    (tmp_path / "x").write_text("x")
def test_clock_goes_on():
    start = time.monotonic()
    time.sleep(0.01)
    assert time.monotonic() - start >= 0.01
"""
    tests = {"tests/test_sums.py": (TESTS + body).encode()}
    assert measure_baseline(package({**FILES, **tests}), SubprocessRunner()).dropped == {}


def test_slowest_tests_are_dropped_beyond_the_time_limit() -> None:
    def outcome(**durations: float) -> build_runner.TestOutcome:
        return build_runner.TestOutcome(dict.fromkeys(durations, "passed"), durations=durations)

    run = outcome(a=1.0, b=MAX_SUITE_S, c=2.0, d=2 * MAX_SUITE_S)
    assert unfit_tests(run, run, []) == {"b": Unfit.SLOW, "d": Unfit.SLOW}


def test_missing_modules_are_named() -> None:
    files = {**FILES, "tests/test_more.py": b"import nothing.of_the_kind"}
    both = replace(package(files), test_files=("tests/test_more.py", "tests/test_sums.py"))
    assert measure_baseline(both, SubprocessRunner()).missing_modules == ("nothing",)
    only = replace(both, test_files=("tests/test_more.py",))
    with pytest.raises(UsageError, match="missing modules: nothing"):
        measure_baseline(only, SubprocessRunner())
