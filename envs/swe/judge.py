"""Runs hidden tests in one process, with results that are as trustworthy as possible.

The modules are sent compiled, in memory, and disguised: each test in one form. Only empty files are in their place.
Results come back as signed records (`records`). Nothing here decides what a result means for the verdict.
"""

from __future__ import annotations

import base64
import json
import marshal
import random
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from math import inf
from pathlib import Path, PurePosixPath
from typing import Protocol

from agentgym.envs.swe.disguise import DisguisedModule, disguised
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.notes import ComparisonNote, as_expected
from agentgym.envs.swe.records import Records, read_records
from agentgym.tools.sandbox import Ended, Result, Sandbox, SandboxLimits, SandboxTier

PASSING, FAILED, MISSING = "passed", "failed", "missing"


class Manner(StrEnum):
    """How tests enter the sandbox, the safest way first."""

    RENAMED = "renamed"
    """In memory, all under new names."""
    NAMED = "named"
    """In memory, under their own names, because some tests need these."""
    FILES = "files"
    """As files, because some tests need their own or pytest's rewritten assertions."""


@dataclass(frozen=True)
class HiddenTests:
    """Tests to run, and the modules they come from."""

    modules: Mapping[str, str]
    """Text of the modules that are kept in memory, by path: the test modules and the neighbours that they import."""
    tests: tuple[str, ...]
    """Ids to run."""
    prefixes: tuple[str, ...] = ()
    """Prefixes of ids that are not known in full."""
    python_path: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Additional arguments for pytest."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files to collect from."""
        return tuple(sorted({NodeId.of(test).path for test in (*self.tests, *self.prefixes)}))

    def __contains__(self, test: str) -> bool:
        return test in self.tests or test in self.prefixes

    def within(self, files: Collection[str]) -> HiddenTests:
        """Return the tests of some files; all modules stay."""
        return self.only([test for test in (*self.tests, *self.prefixes) if NodeId.of(test).path in files])

    def only(self, tests: Collection[str]) -> HiddenTests:
        """Return some of the tests; all modules stay."""
        selected = frozenset(tests)
        return replace(
            self,
            tests=tuple(test for test in self.tests if test in selected),
            prefixes=tuple(test for test in self.prefixes if test in selected),
        )


@dataclass(frozen=True)
class ChangedTestResult:
    """The result of a test in a form other than the true one."""

    form: ChangedForm
    case: str
    status: str
    lines: str
    """Where in its file it failed; empty if it passed, or failed in another file."""
    notes: tuple[ComparisonNote, ...] = ()
    """The values that were compared with withheld ones."""

    @property
    def as_on_gold(self) -> bool:
        """Whether it behaved as on correct code: failed in the same lines, or passed with the right values."""
        if self.form.withholds:
            return self.status == PASSING and self.is_right
        return self.status == FAILED and self.lines == self.form.lines(self.case)

    @property
    def is_right(self) -> bool:
        """Whether the compared values equal the withheld ones."""
        return as_expected(self.notes, self.form.expected, self.form.notes.get(self.case, {}))


@dataclass(frozen=True)
class TestRun:
    """The results of hidden tests in one process."""

    __test__ = False

    statuses: Mapping[str, str]
    """Id to status, of the tests requested in their true form; `MISSING` if nothing was reported."""
    changed: Mapping[str, ChangedTestResult] = field(default_factory=dict)
    """Id to result, of the tests that ran in another form."""
    tampered: tuple[str, ...] = ()
    """Findings that an honest run cannot produce."""
    error: str = ""
    """Why the run is incomplete, if it is."""
    uncollected: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Id to the number of the test among the cases of its function."""

    def passed(self, tests: Collection[str]) -> list[str]:
        """Return the tests that passed in their true form."""
        return [test for test in tests if self.statuses.get(test) == PASSING]


Process = tuple[HiddenTests, Sequence[ChangedForm], Manner]
"""The tests to run, the forms of those that are not in their true one, and how they enter the sandbox."""


class RunHiddenTests(Protocol):
    """Runs hidden tests on a tree of sources, each time in a process and sandbox of its own."""

    def __call__(
        self, tree: Mapping[str, bytes], processes: Sequence[Process], wall_s: float = inf
    ) -> Sequence[TestRun]:
        """Return the results of each process; every process is stopped after `wall_s` seconds."""
        ...


def run_hidden(
    sandbox: Sandbox,
    hidden: HiddenTests,
    *,
    pytest: str,
    forms: Collection[ChangedForm] = (),
    manner: Manner = Manner.RENAMED,
    limits: SandboxLimits | None = None,
) -> TestRun:
    """Run hidden tests in a sandbox whose workspace holds the tree.

    Args:
        sandbox: A fresh one; otherwise its results cannot be trusted.
        hidden: The tests to run.
        pytest: Folder inside the sandbox that pytest is imported from.
        forms: The forms of some of the tests; the others run in their true form.
        manner: How the tests enter the sandbox.
        limits: Bounds on the run.
    """
    # Names and key must be unpredictable, so they come from the operating system, not from the episode's seed.
    rng = random.Random(secrets.token_bytes(16))
    masks: dict[str, DisguisedModule] = {}
    for path in set(hidden.files).intersection(hidden.modules):
        changes = [form.change for form in forms if form.change.path == path]
        if changes or manner is not Manner.FILES:
            rename = manner is Manner.RENAMED
            masks[path] = disguised(path, hidden.modules[path], changes, rng, rename=rename)
    if manner is Manner.FILES:
        sandbox.upload({path: mask.text.encode() for path, mask in masks.items()})
    key = secrets.token_bytes(32)
    selection = _Selection(hidden, masks, forms)
    select = selection.requested()
    rng.shuffle(select)
    in_memory = {} if manner is Manner.FILES else hidden.modules
    texts = {path: masks[path].text if path in masks else text for path, text in in_memory.items()}
    compiled = _compiled_all(texts, sandbox.workdir) if sandbox.tier in _OWN_INTERPRETER else None
    request = {
        "key": key.hex(),
        "files": texts if compiled is None else compiled,
        "compiled": compiled is not None,
        "tests": list(hidden.files),
        "select": select,
        "python_path": list(hidden.python_path),
        "options": [*hidden.options, f"--assert={'rewrite' if manner is Manner.FILES else 'plain'}"],
        "pytest": pytest,
        "stand_in": _text_of("stand_in.py"),
    }
    result = sandbox.exec(code=_text_of("inside.py"), stdin=json.dumps(request).encode(), limits=limits)
    return _judged(result, read_records(result.reply, key), selection)


_OWN_INTERPRETER = (SandboxTier.NAMESPACES, SandboxTier.LANDLOCK, SandboxTier.RLIMITS)
"""Tiers whose runs use this process's interpreter, which can load the modules that it compiled."""


class _Selection:
    """The tests requested from a process, and their properties by the name that they have there."""

    def __init__(self, hidden: HiddenTests, masks: Mapping[str, DisguisedModule], forms: Collection[ChangedForm]):
        self._prefixes = frozenset(hidden.prefixes)
        self._true: dict[str, str] = {}
        self._numbered: dict[tuple[str, int], str] = {}
        self._forms: dict[str, ChangedForm] = {}
        by_place: dict[Place, list[ChangedForm]] = {}
        for form in forms:
            by_place.setdefault(form.change.place, []).append(form)
        for test in (*hidden.tests, *hidden.prefixes):
            parts = NodeId.of(test)
            mask = masks.get(parts.path)
            name = test if mask is None else mask.hidden(test)
            own = by_place.get(parts.place, [])
            form = next((candidate for candidate in own if candidate.concerns(parts.case)), None)
            if form is not None:
                self._forms[test] = form
            number = next((changed.numbers[parts.case] for changed in own if parts.case in changed.numbers), None)
            if number is not None:
                # The id of a case contains its values, so the id of a changed case is not known in advance.
                self._numbered[name.partition("[")[0], number] = test
            else:
                self._true[name] = test

    def requested(self) -> list[list[object]]:
        """Return the selection to send to the process."""
        requested: list[list[object]] = [[name, number] for name, number in self._numbered]
        for name, test in self._true.items():
            requested.append([name, "beginning" if test in self._prefixes else "id"])
        return requested

    def sort(self, records: Records) -> tuple[dict[str, str], dict[str, ChangedTestResult], dict[str, int]]:
        """Return the results of the tests in their true forms and in others, and their numbers."""
        statuses: dict[str, str] = {}
        changed: dict[str, ChangedTestResult] = {}
        numbers: dict[str, int] = {}
        for name, status in records.statuses.items():
            test = self._true.get(name) or self._numbered.get((name.partition("[")[0], records.numbers[name]))
            test = test or next((full for cut, full in self._true.items() if name.startswith(cut)), None)
            if test is None:
                continue
            if test in self._forms:
                case, form = NodeId.of(test).case, self._forms[test]
                changed[test] = ChangedTestResult(form, case, status, records.lines[name], records.notes[name])
            else:
                statuses[test] = status
            numbers[test] = records.numbers[name]
        for test in (*self._true.values(), *self._numbered.values()):
            if test in self._forms:
                changed.setdefault(test, ChangedTestResult(self._forms[test], NodeId.of(test).case, MISSING, ""))
            else:
                statuses.setdefault(test, MISSING)
        return statuses, changed, numbers


def _judged(result: Result, records: Records, selection: _Selection) -> TestRun:
    tampered = list(records.tampered)
    error = "" if records.exit_code is not None else _unfinished(result)
    if not error:
        if result.exit_code != records.exit_code:
            tampered.append(f"the process ended with {result.exit_code}, the run said {records.exit_code}")
        elif records.exit_code not in _expected_codes(records):
            tampered.append(f"pytest exited with {records.exit_code}, which contradicts the test results")
    statuses, changed, numbers = selection.sort(records)
    return TestRun(statuses, changed, tuple(tampered), error, records.uncollected, numbers)


def _expected_codes(records: Records) -> tuple[int, ...]:
    """Return the exit codes that are consistent with the test results; 5 means that no test ran."""
    if records.failed:
        return (1, 2)
    return (0,) if records.statuses else (0, 5)


def _unfinished(result: Result) -> str:
    """Return why a run did not finish."""
    if result.ended is Ended.EXITED:
        return f"the test process left early with exit code {result.exit_code}"
    if result.ended is Ended.SIGNALED:
        return f"the test process was ended by signal {result.signal}"
    return f"the tests ran into a limit: {result.ended.value}"


def _compiled_all(texts: Mapping[str, str], folder: str) -> dict[str, str] | None:
    """Return the compiled modules, or `None` if one does not compile: then the process reports that itself."""
    try:
        return {path: _compiled(text, str(PurePosixPath(folder, path))) for path, text in texts.items()}
    except (SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(256)
def _compiled(text: str, path: str) -> str:
    return base64.b64encode(marshal.dumps(compile(text, path, "exec", dont_inherit=True))).decode()


def load_texts() -> None:
    """Read the texts that are sent to sandboxes, so that the files of this package are no longer needed."""
    for name in ("inside.py", "stand_in.py"):
        _text_of(name)


@cache
def _text_of(name: str) -> str:
    """Return the text of a module that is sent to the sandbox."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def stubbed(tree: Mapping[str, bytes], hidden: HiddenTests, manner: Manner) -> dict[str, bytes]:
    """Return the tree with empty files for the tests that are sent in memory."""
    empty = set() if manner is Manner.FILES else set(hidden.files).intersection(hidden.modules)
    return {path: b"" if path in empty else data for path, data in tree.items()}
