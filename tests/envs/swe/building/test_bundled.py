"""The bundled tasks are complete, valid, separate across splits, and do not reveal the fix."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentgym.envs.swe.building.instance import changed_lines
from agentgym.envs.swe.building.report import BuildOptions, build, check_patches
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.envs.swe.building.symptoms import MIN_REVEALING
from agentgym.tasks.swe.bundled import (
    BundledSWETasks,
    bundled_instances,
    bundled_report,
    repository_files,
    repository_names,
    repository_package,
)
from agentgym.tasks.swe.instance import Instance
from agentgym.tools.patches import apply_patch, touched

INSTANCES = bundled_instances()


def test_bundle_covers_all_repositories_operators_and_difficulties() -> None:
    assert len(INSTANCES) >= 40
    assert len({name for instance in INSTANCES for name in instance.meta["operators"]}) >= 6
    assert {instance.difficulty for instance in INSTANCES} == {1, 2, 3, 4, 5}
    assert {instance.repo for instance in INSTANCES} == set(repository_names())
    assert len(repository_names()) >= 8
    report = bundled_report()
    assert report["instances"] == len(INSTANCES)
    assert sum(report["verdicts"].values()) == report["tried"] > len(INSTANCES)


@pytest.mark.real
@pytest.mark.parametrize(
    "instances",
    [random.Random(0).sample(INSTANCES, 5), pytest.param(INSTANCES, marks=pytest.mark.nightly)],
    ids=["some", "all"],
)
def test_tests_fail_before_and_pass_after_the_gold_patch(instances: Sequence[Instance]) -> None:
    source = BundledSWETasks()
    for instance in instances:
        visible = source.tree(source.find(instance.id))
        hidden = {path: text.encode() for path, text in instance.test_files.items()}
        files = instance.meta["test_targets"]
        broken = SubprocessRunner()({**visible, **hidden}, files, python_path=instance.python_path)
        assert broken.failing == set(instance.fail_to_pass), instance.id
        assert broken.passing == set(instance.pass_to_pass), instance.id
        mended = SubprocessRunner()(
            {**apply_patch(visible, instance.gold_patch), **hidden}, files, python_path=instance.python_path
        )
        assert mended.passing == {*instance.fail_to_pass, *instance.pass_to_pass}, instance.id


def test_gold_patch_restores_the_repository() -> None:
    for instance in INSTANCES:
        check_patches(repository_files(instance.repo), instance)
        assert not any("test" in path for path in touched(instance.gold_patch))


def test_failing_tests_are_not_visible() -> None:
    source = BundledSWETasks()
    for instance in INSTANCES:
        tree = source.tree(source.find(instance.id))
        for test in instance.fail_to_pass:
            path, name = test.partition("[")[0].split("::")
            assert f"def {name}(" not in tree[path].decode()


def test_issues_do_not_reveal_the_fix() -> None:
    for instance in INSTANCES:
        lines = {line.strip() for line in changed_lines(instance.gold_patch)}
        assert [line for line in lines if len(line) >= MIN_REVEALING and line in instance.prompt] == [], instance.id
        files = {path.rpartition("/")[2] for path in touched(instance.gold_patch)}
        assert not any(file in instance.prompt for file in files)
        assert not any(operator in instance.prompt for operator in instance.meta["operators"])
        assert not re.search(r"\bline \d+, in\b|\.py\b", instance.prompt)
        names = {name for place in instance.meta["functions"] for name in re.split(r"\W+", place.partition(":")[2])}
        private = [name for name in names if name.startswith("_") and not name.endswith("__")]
        assert not any(re.search(rf"\b{name}\b", instance.prompt) for name in private)


@pytest.mark.real
def test_builder_reproduces_the_stored_tasks() -> None:
    options = BuildOptions(count=1, seed=0, combined_share=0.3)
    built = build(repository_package("spanset"), SubprocessRunner(), options).instances[0]
    stored = next(instance for instance in INSTANCES if instance.repo == "spanset")
    assert built == replace(stored, archive=built.archive)


def test_no_function_has_bugs_in_two_splits() -> None:
    splits = defaultdict(set)
    for instance in INSTANCES:
        for function in instance.meta["functions"]:
            splits[instance.repo, function].add(instance.meta["split"])
    assert [place for place, own_splits in splits.items() if len(own_splits) > 1] == []
