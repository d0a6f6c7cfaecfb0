"""The bundled tasks are complete, valid, separate across splits, and do not reveal the fix."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from doctest import DocTestParser
from pathlib import Path

import pytest

from agentgym.envs.swe.building.command import pack
from agentgym.envs.swe.building.instance import changed_lines
from agentgym.envs.swe.building.report import BuildOptions, build, check_patches
from agentgym.envs.swe.building.runner import SubprocessRunner, write_tree
from agentgym.envs.swe.building.symptoms import MIN_REVEALING
from agentgym.envs.swe.building.validation import measure_baseline
from agentgym.tasks.swe.bundled import (
    REPOSITORIES,
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
NIGHTLY = pytest.mark.nightly
SOME_OR_ALL = pytest.mark.parametrize(
    "instances", [random.Random(0).sample(INSTANCES, 5), pytest.param(INSTANCES, marks=NIGHTLY)], ids=["some", "all"]
)


def test_bundle_covers_all_repositories_operators_and_difficulties() -> None:
    operators = {name for instance in INSTANCES for name in instance.meta["operators"]}
    assert len(INSTANCES) >= 40
    assert len(operators) >= 6
    assert {instance.difficulty for instance in INSTANCES} == {1, 2, 3, 4, 5}
    assert {instance.repo for instance in INSTANCES} == set(repository_names())
    assert len(repository_names()) >= 8
    report = bundled_report()
    assert report["instances"] == len(INSTANCES)
    assert sum(report["verdicts"].values()) == report["tried"] > len(INSTANCES)


@pytest.mark.real
@pytest.mark.parametrize(
    "names", [repository_names()[:2], pytest.param(repository_names(), marks=NIGHTLY)], ids=["some", "all"]
)
def test_repositories_pass_their_tests(names: Sequence[str]) -> None:
    for name in names:
        baseline = measure_baseline(repository_package(name), SubprocessRunner())
        assert baseline.dropped == {}, name
        assert len(baseline.passing) >= 20, name


@pytest.mark.real
@SOME_OR_ALL
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


BLOCK = re.compile(r"^(`{3,})(python|pycon)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
PROGRAM = """
import json, sys
scope = {"__name__": "__main__"}
try:
    for source, mode in json.load(sys.stdin):
        exec(compile(source, "<issue>", mode, dont_inherit=True), scope)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


def run_block(language: str, code: str, folders: list[str]) -> tuple[str, str]:
    """Return the output of a code block of an issue, and its error, if any."""
    sources = [(code, "exec")]
    if language == "pycon":
        sources = [(example.source, "single") for example in DocTestParser().get_examples(code)]
    run = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        input=json.dumps(sources),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout, run.stderr.strip()


@pytest.mark.real
@SOME_OR_ALL
def test_code_in_issues_runs_and_shows_the_bug(instances: Sequence[Instance], tmp_path: Path) -> None:
    for instance in instances:
        faulty = apply_patch(repository_files(instance.repo), instance.meta["bug_patch"])
        roots = tmp_path / instance.id / "faulty", tmp_path / instance.id / "fixed"
        write_tree(roots[0], faulty)
        write_tree(roots[1], apply_patch(faulty, instance.gold_patch))
        blocks = BLOCK.findall(instance.prompt)
        assert instance.meta["reproducible"]
        assert blocks
        for _, language, code in blocks:
            faulty_result, fixed_result = (
                run_block(language, code, [str(root / path) for path in instance.python_path]) for root in roots
            )
            assert faulty_result != fixed_result
            for printed, error in (faulty_result, fixed_result):
                assert all(line.strip() in instance.prompt for line in printed.splitlines())
                kind = error.partition(":")[0]
                assert kind in instance.prompt or (kind == "AssertionError" and "assert " in code)


def test_issues_vary_in_their_wording() -> None:
    titles = Counter(re.sub(r"`[^`]*`", "", instance.prompt.split("\n")[0]) for instance in INSTANCES)
    assert len(titles) > 20
    assert titles.most_common(1)[0][1] <= len(INSTANCES) // 8


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


def test_packing_the_unpacked_repositories_makes_the_same_archive(tmp_path: Path) -> None:
    for name in reversed(repository_names()):
        for path, content in repository_files(name).items():
            file = tmp_path / "repositories" / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    pack(tmp_path / "repositories", tmp_path / "packed.tar.gz")
    # Versions of zlib compress differently.
    packed, stored = (gzip.decompress(path.read_bytes()) for path in (tmp_path / "packed.tar.gz", REPOSITORIES))
    assert packed == stored


def test_every_repository_is_listed_with_its_version() -> None:
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \|", REPOSITORIES.with_name("repositories.md").read_text(), re.MULTILINE)
    assert rows == [(name, repository_package(name).version) for name in repository_names()]
