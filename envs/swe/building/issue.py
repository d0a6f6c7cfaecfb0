"""Writes issues as the users of a library would, based on its failing tests.

A text never contains a line of the fix, the bug's file or the kind of bug. It names the buggy function only if users
call it. Every result in it was observed on the right and on the faulty tree.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym.envs.swe.building.issue_text import issue_text
from agentgym.envs.swe.building.probe import SnippetResult
from agentgym.envs.swe.building.runner import Failure, TestRunner
from agentgym.envs.swe.building.secrets import IssueSecrets, reveals_secret
from agentgym.envs.swe.building.symptoms import Symptom, Trees, find_symptom
from agentgym.tasks.swe.package import Package

__all__ = ["Issue", "IssueSecrets", "ReportedBug", "write_issue"]


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
