"""Turns a valid candidate into an `Instance`: visible tree, patches, issue text, difficulty."""

from __future__ import annotations

import ast
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym.base.syntax import parse
from agentgym.envs.swe.building.draw import BugCandidate, split_for
from agentgym.envs.swe.building.issue_text import issue_text
from agentgym.envs.swe.building.probe import SnippetResult
from agentgym.envs.swe.building.reading_tests import find_test
from agentgym.envs.swe.building.runner import Failure, TestRunner
from agentgym.envs.swe.building.symptoms import IssueSecrets, Symptom, Trees, find_symptom, reveals_secret
from agentgym.envs.swe.building.validation import Baseline, Validation
from agentgym.tasks.swe.instance import TEST_COMMAND, TEST_TARGETS, Instance, file_of
from agentgym.tasks.swe.mutation import operator_named
from agentgym.tasks.swe.package import Package
from agentgym.tools.patches import diff_trees
from agentgym.tools.text_codec import split_lines


@dataclass(frozen=True)
class ReportedBug:
    """One bug of a task."""

    path: str
    """The file with the bug."""
    tree: Mapping[str, bytes]
    """The package with this bug alone."""
    tests: Sequence[str]
    """The tests that fail because of it."""
    failures: Mapping[str, Failure]
    """Why tests fail, as far as known."""


@dataclass(frozen=True)
class Issue:
    """An issue about all bugs of a task."""

    text: str
    reproducible: bool
    """Whether executed code shows every bug."""


def write_issue(
    package: Package,
    faulty: Mapping[str, bytes],
    bugs: Sequence[ReportedBug],
    secrets: IssueSecrets,
    run_tests: TestRunner,
    seed: str,
) -> Issue:
    """Return an issue about bugs; a bug that no snippet of the tests shows is only described.

    Args:
        package: The package without the bugs.
        faulty: Its files with all of them.
        bugs: The bugs, in the order of the text.
        secrets: Facts that the text must not reveal.
        run_tests: Runs the code, confined as the package's tests are.
        seed: Seed of examples, form and words.
    """
    symptoms: list[Symptom] = []
    failures: list[Failure] = []
    for number, bug in enumerate(bugs):
        rng = random.Random(f"{seed}:example:{number}")
        trees = Trees(package, faulty, bug.tree)
        symptom = find_symptom(trees, bug.path, bug.tests, run_tests, secrets, rng)
        if symptom is None:
            known_failures = [bug.failures[test] for test in bug.tests if test in bug.failures]
            failures.append(_without_message(known_failures[0], secrets) if known_failures else Failure("", ""))
        else:
            symptoms.append(without_secrets(symptom, secrets))
    words = random.Random(f"{seed}:words")
    return Issue(issue_text(package.name, package.version, symptoms, failures, words), not failures)


def without_secrets(symptom: Symptom, secrets: IssueSecrets) -> Symptom:
    """Return a symptom without the error messages that reveal a secret."""

    def masked(result: SnippetResult) -> SnippetResult:
        reveals = result.raised and reveals_secret(result.message, secrets, symptom.snippet.code)
        return replace(result, message="") if reveals else result

    return replace(symptom, expected=masked(symptom.expected), got=masked(symptom.got))


def _without_message(failure: Failure, secrets: IssueSecrets) -> Failure:
    reveals = reveals_secret(f"{failure.message} {failure.compared}", secrets)
    return replace(failure, message="", compared=None) if reveals else failure


SOURCE = "agentgym-mutation"
HARDEST = 5


def make_instance(
    package: Package,
    candidate: BugCandidate,
    validation: Validation,
    baseline: Baseline,
    run_tests: TestRunner,
    *,
    alone: Sequence[Collection[str]],
    hide_tests: bool,
    archive: str | None,
    seed: str,
) -> Instance:
    """Return the instance of a valid candidate.

    Args:
        package: The original package.
        candidate: Its bugs.
        validation: The verdict on its bugs.
        baseline: The baseline of the original package.
        run_tests: Runs the code that the issue shows, as it runs the package's tests.
        alone: For each bug, the tests that it breaks alone.
        hide_tests: Remove the failing tests from the tree that the policy sees.
        archive: Path of the archive of the original package, relative to the file of instances.
        seed: Seed of the example and the wording of the issue.
    """
    broken = candidate.tree(package)
    visible = without_tests(broken, validation.fail_to_pass) if hide_tests else broken
    gold = diff_trees(_only(broken, candidate.paths), _only(package.files, candidate.paths))
    failures = validation.outcome.failures if validation.outcome else {}
    failing = [set(tests) & set(validation.fail_to_pass) for tests in alone]
    bugs = [
        ReportedBug(path, BugCandidate(((path, mutation),)).tree(package), sorted(tests), failures)
        for (path, mutation), tests in zip(candidate.located, failing, strict=True)
    ]
    functions = [mutation.function for mutation in candidate.mutations]
    secrets = IssueSecrets(gold_lines=changed_lines(gold), functions=functions, paths=candidate.paths)
    issue = write_issue(package, broken, bugs, secrets, run_tests, f"{seed}:{candidate.digest}")
    return Instance(
        id=f"{package.name}-{package.version}__{candidate.digest}",
        source=SOURCE,
        repo=package.name,
        base_ref=package.version,
        prompt=issue.text,
        gold_patch=gold,
        fail_to_pass=validation.fail_to_pass,
        pass_to_pass=validation.pass_to_pass,
        test_files=_test_files(package, validation.fail_to_pass),
        test_command=TEST_COMMAND,
        archive=archive,
        python_path=package.python_path,
        difficulty=_difficulty(package, candidate, validation, failures),
        tags=("mutation", "several bugs" if len(candidate.located) > 1 else "one bug"),
        meta={
            "bug_patch": diff_trees(_changed(package.files, visible), _changed(visible, package.files)),
            TEST_TARGETS: list(baseline.files),
            "split": split_for(package, next(iter(candidate.located))),
            "reproducible": issue.reproducible,
            "tests_hidden": hide_tests,
            **_about(candidate),
        },
    )


def _about(candidate: BugCandidate) -> dict[str, list[str]]:
    return {
        "operators": [mutation.operator for mutation in candidate.mutations],
        "functions": [f"{path}:{mutation.function}" for path, mutation in candidate.located],
        "notes": [mutation.note for mutation in candidate.mutations],
    }


def without_tests(tree: Mapping[str, bytes], tests: Collection[str]) -> dict[str, bytes]:
    """Return the tree without the functions of the given tests."""
    changed = dict(tree)
    for path in {file_of(test) for test in tests}:
        source = changed[path].decode("utf-8")
        changed[path] = _without(source, [test for test in tests if file_of(test) == path]).encode()
    return changed


def _without(source: str, tests: Sequence[str]) -> str:
    tree = parse(source)
    lines = split_lines(source)
    functions = {function for test in tests if (function := find_test(tree, test)) is not None}
    for function in functions:
        first = min([function.lineno, *(item.lineno for item in function.decorator_list)])
        last = function.end_lineno or function.lineno
        while last < len(lines) and not lines[last].strip():  # the blank lines before it stay
            last += 1
        lines[first - 1 : last] = [""] * (last - first + 1)
        owner = next(
            (item for item in ast.walk(tree) if isinstance(item, ast.ClassDef) and function in item.body), None
        )
        if owner is not None and functions.issuperset(owner.body):
            lines[owner.body[0].lineno - 1] = " " * owner.body[0].col_offset + "pass\n"
    text = "".join(lines)
    parse(text)
    return text.rstrip("\n") + "\n"


def changed_lines(patch: str) -> list[str]:
    """Return the lines that a patch adds or removes."""
    return [line[1:] for line in patch.split("\n") if line[:1] in ("+", "-") and not line.startswith(("+++ ", "--- "))]


def _only(tree: Mapping[str, bytes], paths: Collection[str]) -> dict[str, bytes]:
    return {path: tree[path] for path in paths}


def _changed(tree: Mapping[str, bytes], other: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: content for path, content in tree.items() if other.get(path) != content}


def _test_files(package: Package, tests: Collection[str]) -> dict[str, str]:
    return {path: package.source(path) for path in sorted({file_of(test) for test in tests})}


def _difficulty(
    package: Package, candidate: BugCandidate, validation: Validation, failures: Mapping[str, Failure]
) -> int:
    """From 1 to 5: kind of bug, number of bugs and files, how few tests fail, and how far from the bug they fail."""
    score = max(operator_named(mutation.operator).weight for mutation in candidate.mutations)
    score += 0.75 * (len(candidate.located) - 1) + 0.5 * (len(candidate.paths) - 1)
    count = len(validation.fail_to_pass)
    score += 0.5 if count <= 1 else 0.0 if count <= 5 else -0.5
    score += max(_distance(place, package, validation.fail_to_pass, failures) for place in candidate.places)
    return min(HARDEST, max(1, round(score)))


def _distance(place: tuple[str, str], package: Package, tests: Sequence[str], failures: Mapping[str, Failure]) -> float:
    """From -0.5, the traceback ends in the changed function, to 0.5, neither it nor the tests name it."""
    path, function = place
    for test in tests:
        frames = [frame for frame in (failures[test].frames if test in failures else ()) if frame[0] != file_of(test)]
        if frames and (frames[-1][0], frames[-1][1]) == (path, function):
            return -0.5
        if any((frame[0], frame[1]) == (path, function) for frame in frames):
            return 0.0
    name = function.rpartition(".")[2]
    named = any(name and name in package.source(file_of(test)) for test in tests)
    return -0.25 if named else 0.5
