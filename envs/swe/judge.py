"""Running hidden tests in a sandbox, so that what comes back can be believed as far as that is possible.

The modules travel in memory, disguised, with canaries in them; only empty files stand in their place. Results come as
signed records (`records`). Nothing here decides what a result is worth.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path

from agentgym.envs.swe.canaries import Candidate, Disguised, disguised
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.records import Records, read_records
from agentgym.tools.sandbox import Ended, Limits, Result, Sandbox

PASSING = "passed"


class Manner(StrEnum):
    """How tests are brought into the sandbox, the safest first."""

    RENAMED = "renamed"
    """In memory, all under new names."""
    NAMED = "named"
    """In memory, the real tests under their own names, because some need them."""
    FILES = "files"
    """As files, because some tests need their own or pytest's rewritten assertions."""


@dataclass(frozen=True)
class HiddenTests:
    """Tests to run, and the modules they come from."""

    modules: Mapping[str, str]
    """Text of the modules that are kept in memory, by path: those of the tests, and what they import from beside."""
    tests: tuple[str, ...]
    """Ids to run."""
    prefixes: tuple[str, ...] = ()
    """Ids of which only the beginning is known."""
    python_path: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Further arguments for pytest."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files to collect from."""
        return tuple(sorted({NodeId.of(test).path for test in (*self.tests, *self.prefixes)}))

    def __contains__(self, test: str) -> bool:
        return test in self.tests or test in self.prefixes

    def within(self, files: Collection[str]) -> HiddenTests:
        """Return the tests of some files; all modules stay."""
        return replace(
            self,
            tests=tuple(test for test in self.tests if NodeId.of(test).path in files),
            prefixes=tuple(test for test in self.prefixes if NodeId.of(test).path in files),
        )


@dataclass(frozen=True)
class TestRun:
    """What became of hidden tests."""

    __test__ = False

    statuses: Mapping[str, str]
    """True id to status; tests that were not reported are missing."""
    canaries: Mapping[Candidate, Mapping[str, str]] = field(default_factory=dict)
    """Each canary to the statuses of its cases, by the true id of the test it is a copy of."""
    tampered: tuple[str, ...] = ()
    """What an honest run could not have shown."""
    error: str = ""
    """Why the run is not complete, if it is not."""
    uncollected: Mapping[str, str] = field(default_factory=dict)

    def passed(self, tests: Collection[str]) -> list[str]:
        """Return which of the tests passed."""
        return [test for test in tests if self.statuses.get(test) == PASSING]


def run_hidden(
    sandbox: Sandbox,
    hidden: HiddenTests,
    *,
    pytest: str,
    canaries: Collection[Candidate] = (),
    manner: Manner = Manner.RENAMED,
    both_sides: bool = False,
    limits: Limits | None = None,
) -> TestRun:
    """Run hidden tests in a sandbox whose workspace holds the tree.

    Args:
        sandbox: Used for nothing else before, if its answer is to be worth something.
        hidden: What to run.
        pytest: Folder inside the sandbox that pytest is imported from.
        canaries: What to plant.
        manner: How the tests are brought in.
        both_sides: Plant every canary before and behind the test that it copies, to see what it does to others.
        limits: Bounds on the run.
    """
    # Nobody may foresee names, values and key: the operating system's own randomness, not the episode's.
    rng = random.Random(secrets.token_bytes(16))
    masks: dict[str, Disguised] = {}
    if manner is not Manner.FILES or canaries:
        for path in set(hidden.files).intersection(hidden.modules):
            rename = manner is Manner.RENAMED
            masks[path] = disguised(path, hidden.modules[path], canaries, rng, rename=rename, both_sides=both_sides)
    if manner is Manner.FILES:
        sandbox.upload({path: mask.text.encode() for path, mask in masks.items()})
    key = secrets.token_bytes(32)
    names = {_hidden(masks, test): test for test in (*hidden.tests, *hidden.prefixes)}
    planted = {test: what for mask in masks.values() for test, what in mask.planted.items()}
    select = [[name, test in hidden.prefixes] for name, test in names.items()] + [[test, False] for test in planted]
    rng.shuffle(select)
    in_memory = {} if manner is Manner.FILES else hidden.modules
    request = {
        "key": key.hex(),
        "files": {path: masks[path].text if path in masks else text for path, text in in_memory.items()},
        "tests": list(hidden.files),
        "select": select,
        "python_path": list(hidden.python_path),
        "options": [*hidden.options, f"--assert={'rewrite' if manner is Manner.FILES else 'plain'}"],
        "pytest": pytest,
    }
    result = sandbox.exec(code=_runner(), stdin=json.dumps(request).encode(), limits=limits)
    return _judged(result, read_records(result.reply, key), names, planted)


def _judged(
    result: Result, records: Records, names: Mapping[str, str], planted: Mapping[str, tuple[Candidate, str]]
) -> TestRun:
    tampered = list(records.tampered)
    error = "" if records.exit_code is not None else _unfinished(result)
    if not error:
        if result.exit_code != records.exit_code:
            tampered.append(f"the process ended with {result.exit_code}, the run said {records.exit_code}")
        elif records.exit_code not in _expected_codes(records):
            tampered.append(f"pytest ended with {records.exit_code}, which is not what the tests say")
    statuses = {}
    for test, status in records.statuses.items():
        true = names.get(test) or next((full for cut, full in names.items() if test.startswith(cut)), None)
        if true is not None:
            statuses[true] = status
    canaries: dict[Candidate, dict[str, str]] = {}
    for test, (candidate, twin) in planted.items():
        cases = canaries.setdefault(candidate, {})
        if cases.get(twin) != PASSING:
            cases[twin] = records.statuses.get(test, "missing")
    return TestRun(statuses, canaries, tuple(tampered), error, records.uncollected)


def _expected_codes(records: Records) -> tuple[int, ...]:
    """Return what pytest may end with, given what became of the tests; 5 is its word for none."""
    if records.failed:
        return (1, 2)
    return (0,) if records.statuses else (0, 5)


def _unfinished(result: Result) -> str:
    """Say why a run did not come to its end."""
    if result.ended is Ended.EXITED:
        return f"the test process left early with exit code {result.exit_code}"
    if result.ended is Ended.SIGNALED:
        return f"the test process was ended by signal {result.signal}"
    return f"the tests ran into a limit: {result.ended.value}"


def _hidden(masks: Mapping[str, Disguised], test: str) -> str:
    mask = masks.get(NodeId.of(test).path)
    return test if mask is None else mask.hidden(test)


@cache
def _runner() -> str:
    return Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


def stubbed(tree: Mapping[str, bytes], hidden: HiddenTests, manner: Manner) -> dict[str, bytes]:
    """Return the tree with nothing in the files of tests that travel in memory."""
    empty = set() if manner is Manner.FILES else set(hidden.files).intersection(hidden.modules)
    return {path: b"" if path in empty else data for path, data in tree.items()}
