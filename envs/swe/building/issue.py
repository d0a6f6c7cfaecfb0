"""Writes issues as the users of a library would, from what its failing tests show.

A text never holds a line of the fix, the bug's file or the kind of bug, nor the name of the function that has it unless
a user calls it. What it shows was run on the right and on the faulty tree.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym.envs.swe.building.issue_text import issue_text
from agentgym.envs.swe.building.probe import Shown
from agentgym.envs.swe.building.runner import Failure, TestRunner
from agentgym.envs.swe.building.secrets import Secrets, tells_secret
from agentgym.envs.swe.building.symptoms import Symptom, Trees, find_symptom
from agentgym.tasks.swe.package import Package

__all__ = ["Bug", "Issue", "Secrets", "write_issue"]


@dataclass(frozen=True)
class Bug:
    """One bug of a task."""

    path: str
    """The file that has it."""
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
    """Whether it shows each bug by code that was run."""


def write_issue(
    package: Package,
    faulty: Mapping[str, bytes],
    bugs: Sequence[Bug],
    secrets: Secrets,
    run_tests: TestRunner,
    seed: str,
) -> Issue:
    """Return an issue about bugs; one that no code of the tests shows is only told about.

    Args:
        package: The package without the bugs.
        faulty: Its files with all of them.
        bugs: The bugs, in the order of the text.
        secrets: What the text must not reveal.
        run_tests: Runs the code, confined as the package's tests are.
        seed: Decides examples, form and words.
    """
    shown: list[Symptom] = []
    told: list[Failure] = []
    for number, bug in enumerate(bugs):
        rng = random.Random(f"{seed}:example:{number}")
        trees = Trees(package, faulty, bug.tree)
        symptom = find_symptom(trees, bug.path, bug.tests, run_tests, secrets, rng)
        if symptom is None:
            known = [bug.failures[test] for test in bug.tests if test in bug.failures]
            told.append(_without_message(known[0], secrets) if known else Failure("", ""))
        else:
            shown.append(without_secrets(symptom, secrets))
    words = random.Random(f"{seed}:words")
    return Issue(issue_text(package.name, package.version, shown, told, words), not told)


def without_secrets(symptom: Symptom, secrets: Secrets) -> Symptom:
    """Return a symptom whose errors are told without their messages where those reveal a secret."""

    def masked(shown: Shown) -> Shown:
        told = shown.raised and tells_secret(shown.message, secrets, symptom.snippet.code)
        return replace(shown, message="") if told else shown

    return replace(symptom, expected=masked(symptom.expected), got=masked(symptom.got))


def _without_message(failure: Failure, secrets: Secrets) -> Failure:
    told = tells_secret(f"{failure.message} {failure.compared}", secrets)
    return replace(failure, message="", compared=None) if told else failure
