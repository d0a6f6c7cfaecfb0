"""`SubprocessRunner` reports every outcome of a package's tests, and nothing outlives a run."""

from __future__ import annotations

import os

import pytest

from agentgym.base.errors import UsageError
from agentgym.envs.swe.building.runner import Conditions, RunError, SubprocessRunner
from tests.envs.swe.building.package import FILES, LIBRARY, only_tests, run
from tests.waiting import eventually, is_running

pytestmark = pytest.mark.nightly


def test_runner_reports_every_status() -> None:
    body = """import pytest
def test_a(): pass
def test_b(): assert 1 == 2
def test_c(): pytest.skip("no")
@pytest.mark.xfail
def test_d(): assert False
@pytest.fixture
def broken(): raise OSError("x")
def test_e(broken): pass
"""
    outcome = run(only_tests(body))
    assert [status for _, status in sorted(outcome.statuses.items())] == [
        "passed", "failed", "skipped", "xfailed", "error",
    ]  # fmt: skip
    assert outcome.error is None


def test_runner_reports_the_reason_of_a_failure() -> None:
    outcome = run({**FILES, "sums.py": LIBRARY.replace("max(", "min(").encode()})
    failure = outcome.failures["tests/test_sums.py::test_clamp[5-5]"]
    assert failure.compared == ("0", "==", "5")
    assert failure.parameters == {"value": "5", "result": "5"}
    assert failure.frames[-1][0] == "tests/test_sums.py"


def test_runner_traces_functions_by_test() -> None:
    ran = run(FILES, trace=True).ran
    assert ran["tests/test_sums.py::test_mean"] >= {("sums.py", "mean"), ("sums.py", "total")}
    assert ("sums.py", "mean") not in ran["tests/test_sums.py::test_total"]


def test_timeout_ends_the_whole_process_group() -> None:
    child = f"sleep 600.{os.getpid()}"
    body = f"import subprocess, time\ndef test_a():\n    subprocess.Popen({child.split()})\n    time.sleep(600)\n"
    assert run(only_tests(body), timeout_s=2.0).error is RunError.TIMEOUT
    assert eventually(lambda: not is_running(child))


def test_incomplete_runs_report_the_error() -> None:
    assert run(only_tests("import os\ndef test_a(): os._exit(0)")).error is RunError.CRASH
    outcome = run(only_tests("import nothing_of_the_kind"))
    assert (outcome.error, "nothing_of_the_kind" in outcome.detail) == (RunError.COLLECTION, True)


def test_runner_ignores_the_configuration_of_the_package() -> None:
    files = {**FILES, "pytest.ini": b"[pytest]\naddopts = --wrong\n", "setup.cfg": b"[tool:pytest]\naddopts = -x\n"}
    assert len(run(files).passing) == 11


def test_files_outside_of_the_tree_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\.\./evil"):
        run({"../evil.py": b""})


def test_runner_limits_memory() -> None:
    outcome = SubprocessRunner(memory_mb=600)(
        only_tests("def test_a():\n    bytearray(2_000_000_000)"), ["tests/test_sums.py"]
    )
    assert outcome.failures["tests/test_sums.py::test_a"].exception == "MemoryError"


def test_runner_applies_the_conditions() -> None:
    body = """import time
def test_b():
    start = time.monotonic_ns()
    assert time.monotonic_ns() - start < 1_000_000_000
def test_a(): pass
"""
    usual = run(only_tests(body))
    other = run(only_tests(body), conditions=Conditions(hash_seed=1, backwards=True, leap=1))
    assert len(usual.passing) == 2
    assert list(other.statuses) == [*usual.statuses][::-1]
    assert other.failing == {"tests/test_sums.py::test_b"}
