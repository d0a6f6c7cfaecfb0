"""Grading by the log of a test command: only the reported statuses of exact test ids count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from agentgym.base.errors import BrokenTask
from agentgym.envs.swe.by_log import as_on_gold, run_by_log
from agentgym.envs.swe.judge import TestRun
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.tasks.swe.instance import PREFIX_IDS, PYTHON, TEST_TARGETS
from agentgym.tools.sandbox import Sandbox
from tests.rows import each_row
from tests.swe_cases import FILES, INSTANCE

FINE = {"a.py::mended": "passed", "a.py::kept": "passed", "a.py::skipped": "skipped", "a.py::expected": "xfailed"}


def repository(name: str, meta: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> Repository:
    instance = replace(
        INSTANCE,
        id=name,
        meta={PYTHON: "/an/environment", **meta},
        fail_to_pass=("a.py::mended",),
        pass_to_pass=("a.py::kept", "a.py::skipped", "a.py::expected", "a.py::lost", "a.py::unknown"),
        **more,
    )
    return Repository(instance, FILES)


def test_tests_that_the_gold_patch_fails_here_are_not_required():
    run_of_tests = as_on_gold(repository("kept"), lambda _: TestRun({**FINE, "a.py::lost": "failed"}))
    assert run_of_tests.instance.fail_to_pass == ("a.py::mended",)
    assert run_of_tests.instance.pass_to_pass == ("a.py::kept", "a.py::skipped", "a.py::expected")


def test_gold_patch_runs_once_per_instance():
    trees: list[Mapping[str, bytes]] = []

    def run(tree: Mapping[str, bytes]) -> TestRun:
        trees.append(tree)
        return TestRun(FINE)

    for _ in range(2):
        as_on_gold(repository("once"), run)
    assert trees == [repository("once").to_grade(repository("once").gold)]


@each_row(
    "run, reason",
    [
        (TestRun({**FINE, "a.py::mended": "failed"}), "a.py::mended failed"),
        (TestRun({**FINE, "a.py::mended": "skipped"}), "a.py::mended skipped"),
        (TestRun({}), "a.py::mended is not in the log"),
        (TestRun(FINE, error="the tests ran into a limit: timeout"), "ran into a limit"),
    ],
)
def test_task_is_broken_if_the_gold_patch_fails_in_the_environment(run: TestRun, reason: str):
    with pytest.raises(BrokenTask, match=reason):
        as_on_gold(repository(f"broken: {reason}"), lambda _: run)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS).open(INSTANCE) as opened:
        yield opened


def ran(sandbox: Sandbox, *command: str, wall_s: float = 20.0, meta: Any = None, **more: Any) -> TestRun:
    """Return the statuses in the log of a command."""
    own = repository("log", meta or {}, test_command=command, parser="pytest").instance
    return run_by_log(sandbox, Repository(replace(own, **more), FILES), WORK_LIMITS.but(wall_s=wall_s))


LOG = "PASSED a.py::mended\nFAILED a.py::kept - x\nPASSED a.py::another\n"


@pytest.mark.real
def test_statuses_are_read_from_either_output_stream(sandbox: Sandbox):
    for stream in (1, 2):
        run_of_tests = ran(sandbox, "bash", "-c", f"printf '{LOG}' >&{stream}; exit 1")
        assert (run_of_tests.statuses, run_of_tests.error) == ({"a.py::mended": "passed", "a.py::kept": "failed"}, "")


@pytest.mark.real
def test_test_targets_are_arguments_of_any_form_of_the_command(sandbox: Sandbox):
    names = ("a.py::mended", "a.py::kept - a b.py", "a.py::$HOME")
    script = """sh -c 'for target; do echo "PASSED $target"; done' name"""
    for command in (("sh", "-c", """for target; do echo "PASSED $target"; done""", "name"), (script,)):
        others = ("a.py::kept", "a.py::$HOME")
        run_of_tests = ran(sandbox, *command, meta={TEST_TARGETS: names}, pass_to_pass=others)
        assert run_of_tests.statuses == {"a.py::mended": "passed", "a.py::kept": "passed", "a.py::$HOME": "passed"}


@pytest.mark.real
def test_prefix_ids_match_the_tests_that_continue_them(sandbox: Sandbox):
    log = "echo 'PASSED a.py::mended[x y]'; echo 'PASSED a.py::kept[x y]'"
    ids: dict[str, Any] = {"fail_to_pass": ("a.py::mended[x",), "pass_to_pass": ("a.py::kept[x",)}
    run_of_tests = ran(sandbox, "bash", "-c", log, meta={PREFIX_IDS: ["a.py::mended[x"]}, **ids)
    assert run_of_tests.statuses == {"a.py::mended[x": "passed"}


@pytest.mark.real
def test_empty_log_and_endless_command_are_errors(sandbox: Sandbox):
    silent = ran(sandbox, "bash", "-c", "echo nothing here >&2; exit 3")
    assert (silent.statuses, silent.error) == ({}, "no test was reported: nothing here")
    stuck = ran(sandbox, "bash", "-c", f"printf '{LOG}'; sleep 30", wall_s=1.0)
    assert stuck.error == "the tests ran into a limit: timeout"
