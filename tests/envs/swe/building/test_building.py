"""Building tasks of packages: reading them, running their tests, verdicts, whole builds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.swe.building import runner as build_runner
from agentgym.envs.swe.building.command import BuildRequest, GradingCheck, run_build
from agentgym.envs.swe.building.instance import without_tests
from agentgym.envs.swe.building.report import BuildOptions, build
from agentgym.envs.swe.building.runner import RunError, SubprocessRunner
from agentgym.envs.swe.building.validation import Baseline, CandidateVerdict, validate
from agentgym.tasks.swe.instance import Instance, read_instances
from agentgym.tasks.swe.package import read_tree
from agentgym.tools.patches import apply_patch
from tests.envs.swe.building.package import FILES, package, write
from tests.rows import each_row

pytestmark = pytest.mark.nightly


class CachingRunner(SubprocessRunner):
    """Runs the same tests of the same files only once."""

    def __init__(self) -> None:
        super().__init__()
        self._outcomes: dict[str, build_runner.TestOutcome] = {}

    def __call__(self, tree: Mapping[str, bytes], tests: Sequence[str], **options: Any) -> build_runner.TestOutcome:
        key = repr((sorted(tree.items()), tests, sorted(options.items())))
        if key not in self._outcomes:
            self._outcomes[key] = super().__call__(tree, tests, **options)
        return self._outcomes[key]


@pytest.fixture(scope="module")
def runner() -> CachingRunner:
    """A runner for all tests of the module: every build begins with the same runs."""
    return CachingRunner()


PASSED = {f"t.py::test_{number}": "passed" for number in range(10)}
BASELINE = Baseline(tuple(PASSED), {}, {}, 1.0)


def failing(*numbers: int, error: RunError | None = None) -> build_runner.TestOutcome:
    return build_runner.TestOutcome({**PASSED, **{f"t.py::test_{number}": "failed" for number in numbers}}, error)


@each_row(
    "outcomes, verdict",
    [
        ([failing(1), failing(1)], CandidateVerdict.VALID),
        ([failing(1, 2, 3, 4)], CandidateVerdict.TOO_BROAD),
        ([failing()], CandidateVerdict.NO_TEST_FAILS),
        ([failing(1), failing(2)], CandidateVerdict.FLAKY),
        ([failing(1, error=RunError.TIMEOUT)], CandidateVerdict.TIMEOUT),
        ([failing(1, error=RunError.CRASH)], CandidateVerdict.CRASH),
    ],
)
def test_verdict_follows_from_the_outcomes(outcomes: list[build_runner.TestOutcome], verdict: CandidateVerdict) -> None:
    results = iter(outcomes)
    validated = validate(package(), FILES, [("sums.py", "total")], BASELINE, lambda *_, **__: next(results))
    assert validated.verdict is verdict
    assert len(validated.fail_to_pass) + len(validated.pass_to_pass) == (10 if verdict is CandidateVerdict.VALID else 0)


def test_build_makes_valid_instances(runner: CachingRunner) -> None:
    report = build(package(), runner, BuildOptions(count=4, seed=1))
    assert len(report.instances) == report.verdicts[CandidateVerdict.VALID] == 4
    for instance in report.instances:
        visible = apply_patch(FILES, instance.meta["bug_patch"])
        assert apply_patch(visible, instance.gold_patch)["sums.py"] == FILES["sums.py"]
        assert 1 <= len(instance.fail_to_pass) <= 3
        assert 1 <= instance.difficulty <= 5
    families = [frozenset(instance.meta["functions"] + instance.meta["operators"]) for instance in report.instances]
    assert len(set(families)) == len(families)


def test_build_rejects_instances_that_cannot_be_graded(runner: CachingRunner) -> None:
    def check(instance: Instance, files: Mapping[str, bytes]) -> str:
        assert apply_patch(files, instance.gold_patch)["sums.py"] == FILES["sums.py"]
        return "" if int(instance.id[-1], 16) % 2 else "odd"

    report = build(package(), runner, BuildOptions(count=4, seed=1, check=check))
    assert len(report.instances) == report.verdicts[CandidateVerdict.VALID] == 4
    assert len(report.rejected) == report.verdicts[CandidateVerdict.NOT_GRADABLE] > 0
    assert not {instance.id for instance in report.instances} & set(report.rejected)
    assert set(report.to_dict()["rejected"].values()) == {"odd"}


def test_check_grades_the_solution_and_the_null_patch(runner: CachingRunner) -> None:
    instance = build(package(), runner, BuildOptions(count=1, seed=1)).instances[0]
    visible = apply_patch(FILES, instance.meta["bug_patch"])
    check = GradingCheck(allow_weak=True)
    assert check(instance, visible) == ""
    assert "not pass" in check(replace(instance, fail_to_pass=("tests/test_sums.py::test_none",)), visible)
    assert check(replace(instance, gold_patch=""), apply_patch(visible, instance.gold_patch)) != ""


def test_instances_depend_on_the_seed_and_not_on_the_number_of_workers(runner: CachingRunner) -> None:
    report = build(package(), runner, BuildOptions(count=2, seed=3, workers=1))
    assert build(package(), SubprocessRunner(), BuildOptions(count=2, seed=3, workers=2)).instances == report.instances
    assert build(package(), runner, BuildOptions(count=1, seed=4)).instances[0] not in report.instances


def test_build_all_writes_instances_archives_and_report(tmp_path: Path) -> None:
    source = write(tmp_path / "sums-1.0", {name: data.decode() for name, data in FILES.items()})
    request = BuildRequest([tmp_path / "nothing", source], tmp_path / "out", count=3, trusted=True, hide_tests=False)
    reports = run_build(request, lambda _: None)
    instances = read_instances(tmp_path / "out" / "instances.jsonl")
    assert (len(instances), "neither a folder" in reports[0].error) == (3, True)
    for instance in instances:
        assert instance.archive == "repos/sums-1.0.tar.gz"
        original = read_tree(tmp_path / "out" / instance.archive)
        assert apply_patch(apply_patch(original, instance.meta["bug_patch"]), instance.gold_patch) == original
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["instances"] == report["verdicts"]["valid"] == 3
    assert [entry["package"] for entry in report["packages"]] == ["nothing", "sums"]


def test_module_without_hidden_tests_still_parses() -> None:
    tree = without_tests(FILES, ["tests/test_sums.py::TestClass::test_inside", "tests/test_sums.py::test_clamp[0-0]"])
    text = tree["tests/test_sums.py"].decode()
    assert "test_inside" not in text
    assert "parametrize" not in text
    assert "def test_clamp_bounds" in text
    compile(text, "test_sums.py", "exec")
