"""Measures which tests of the refactoring tasks fail before and pass after the gold change.

`python -m agentgym.envs.swe.building.measure_refactor` rewrites `data/tests.json`.
"""

from __future__ import annotations

import json

from agentgym.base.errors import UsageError
from agentgym.envs.swe.building.runner import SubprocessRunner, TestOutcome, TestRunner
from agentgym.tasks.swe.bundled import repository_files, repository_package
from agentgym.tasks.swe.refactor.source import TESTS, Refactoring, refactorings


def measure(item: Refactoring, run_tests: TestRunner) -> dict[str, list[str]]:
    """Return the test ids of a task. Raises `UsageError` if a test fails after the change or none fails before."""
    package = repository_package(item.repository)
    files = tuple(sorted({*package.test_files, *item.tests()}))

    def run(tree: dict[str, bytes]) -> TestOutcome:
        return run_tests(tree, files, python_path=package.python_path, timeout_s=120.0)

    after = run({**item.gold(), **item.tests()})
    before = run({**repository_files(item.repository), **item.tests()})
    if after.failing or after.error:
        raise UsageError(f"{item.name}: after the gold change these fail: {sorted(after.failing)} {after.detail}")
    failing = [test for test in after.statuses if test not in before.passing]
    if not failing:
        raise UsageError(f"{item.name}: no test fails before the change")
    return {"fail_to_pass": failing, "pass_to_pass": [test for test in after.statuses if test in before.passing]}


def measure_all() -> dict[str, dict[str, list[str]]]:
    """Measure all tasks and write the results."""
    measured = {item.name: measure(item, SubprocessRunner()) for item in refactorings()}
    TESTS.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    return measured


if __name__ == "__main__":
    measure_all()
