"""Running hidden tests in one process, so that what comes back can be believed as far as that is possible.

The modules travel compiled, in memory, and disguised: each test in one form. Only empty files are in their place.
Results come as signed records (`records`). Nothing here decides what a result is worth.
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

from agentgym.envs.swe.disguise import Disguised, disguised
from agentgym.envs.swe.forms import Form
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.notes import Note, as_expected
from agentgym.envs.swe.records import Records, read_records
from agentgym.tools.sandbox import Ended, Limits, Result, Sandbox, Tier

PASSING, FAILED, MISSING = "passed", "failed", "missing"


class Manner(StrEnum):
    """How tests are brought into the sandbox, the safest first."""

    RENAMED = "renamed"
    """In memory, all under new names."""
    NAMED = "named"
    """In memory, under their own names, because some need them."""
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
        return self.only([test for test in (*self.tests, *self.prefixes) if NodeId.of(test).path in files])

    def only(self, some: Collection[str]) -> HiddenTests:
        """Return some of the tests; all modules stay."""
        chosen = frozenset(some)
        return replace(
            self,
            tests=tuple(test for test in self.tests if test in chosen),
            prefixes=tuple(test for test in self.prefixes if test in chosen),
        )


@dataclass(frozen=True)
class Seen:
    """What became of a test in a form that is not the true one."""

    form: Form
    case: str
    status: str
    lines: str
    """The lines of its file in which it failed; empty if it did not, or failed elsewhere."""
    notes: tuple[Note, ...] = ()
    """What was compared with values that were withheld."""

    @property
    def as_on_gold(self) -> bool:
        """Whether it did what it does on right code: failed in the same lines, or passed with the values withheld."""
        if self.form.withholds:
            return self.status == PASSING and self.is_right
        return self.status == FAILED and self.lines == self.form.lines(self.case)

    @property
    def is_right(self) -> bool:
        """Whether what was compared equals what was withheld."""
        return as_expected(self.notes, self.form.expected, self.form.notes.get(self.case, {}))


@dataclass(frozen=True)
class TestRun:
    """What became of hidden tests in one process."""

    __test__ = False

    statuses: Mapping[str, str]
    """Id to status, of the tests that were asked for in their true form; `MISSING` if nothing was reported."""
    changed: Mapping[str, Seen] = field(default_factory=dict)
    """Id to what was seen, of the tests that ran in another form."""
    tampered: tuple[str, ...] = ()
    """What an honest run could not have shown."""
    error: str = ""
    """Why the run is not complete, if it is not."""
    uncollected: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Id to the number of the test among the cases of its function."""

    def passed(self, tests: Collection[str]) -> list[str]:
        """Return which of the tests passed in their true form."""
        return [test for test in tests if self.statuses.get(test) == PASSING]


Process = tuple[HiddenTests, Sequence[Form], Manner]
"""What to run, in which forms those tests of it are that are not in their true one, and how they are brought in."""


class Runner(Protocol):
    """Runs hidden tests on a tree of sources, each time in a process and sandbox of its own."""

    def __call__(
        self, tree: Mapping[str, bytes], processes: Sequence[Process], wall_s: float = inf
    ) -> Sequence[TestRun]:
        """Return what became of the tests in each process, none of which runs longer than this, in seconds."""
        ...


def run_hidden(
    sandbox: Sandbox,
    hidden: HiddenTests,
    *,
    pytest: str,
    forms: Collection[Form] = (),
    manner: Manner = Manner.RENAMED,
    limits: Limits | None = None,
) -> TestRun:
    """Run hidden tests in a sandbox whose workspace holds the tree.

    Args:
        sandbox: Used for nothing else before, if its answer is to be worth something.
        hidden: What to run.
        pytest: Folder inside the sandbox that pytest is imported from.
        forms: The forms that some of the tests are in; the others are in their true form.
        manner: How the tests are brought in.
        limits: Bounds on the run.
    """
    # Nobody may foresee names and key: the operating system's own randomness, not the episode's.
    rng = random.Random(secrets.token_bytes(16))
    masks: dict[str, Disguised] = {}
    for path in set(hidden.files).intersection(hidden.modules):
        changes = [form.change for form in forms if form.change.path == path]
        if changes or manner is not Manner.FILES:
            rename = manner is Manner.RENAMED
            masks[path] = disguised(path, hidden.modules[path], changes, rng, rename=rename)
    if manner is Manner.FILES:
        sandbox.upload({path: mask.text.encode() for path, mask in masks.items()})
    key = secrets.token_bytes(32)
    selection = _Selection(hidden, masks, forms)
    select = selection.asked()
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


_OWN_INTERPRETER = (Tier.NAMESPACES, Tier.LANDLOCK, Tier.RLIMITS, Tier.BUBBLEWRAP)
"""Where runs have this process's own interpreter, which can load what this one has compiled."""


class _Selection:
    """Which tests of a process are asked for, and what is known of each under the name that it has there."""

    def __init__(self, hidden: HiddenTests, masks: Mapping[str, Disguised], forms: Collection[Form]):
        self._prefixes = frozenset(hidden.prefixes)
        self._true: dict[str, str] = {}
        self._numbered: dict[tuple[str, int], str] = {}
        self._forms: dict[str, Form] = {}
        by_place: dict[Place, list[Form]] = {}
        for form in forms:
            by_place.setdefault(form.change.place, []).append(form)
        for test in (*hidden.tests, *hidden.prefixes):
            parts = NodeId.of(test)
            mask = masks.get(parts.path)
            name = test if mask is None else mask.hidden(test)
            own = by_place.get(parts.place, [])
            form = next((one for one in own if one.concerns(parts.case)), None)
            if form is not None:
                self._forms[test] = form
            number = next((one.numbers[parts.case] for one in own if parts.case in one.numbers), None)
            if number is not None:
                # The id of a case says what is in it, so that of a changed one is not known before.
                self._numbered[name.partition("[")[0], number] = test
            else:
                self._true[name] = test

    def asked(self) -> list[list[object]]:
        """Return what the process is told."""
        asked: list[list[object]] = [[name, number] for name, number in self._numbered]
        for name, test in self._true.items():
            asked.append([name, "beginning" if test in self._prefixes else "id"])
        return asked

    def sort(self, records: Records) -> tuple[dict[str, str], dict[str, Seen], dict[str, int]]:
        """Return what became of the tests in their true forms and in others, and their numbers."""
        statuses: dict[str, str] = {}
        seen: dict[str, Seen] = {}
        numbers: dict[str, int] = {}
        for name, status in records.statuses.items():
            test = self._true.get(name) or self._numbered.get((name.partition("[")[0], records.numbers[name]))
            test = test or next((full for cut, full in self._true.items() if name.startswith(cut)), None)
            if test is None:
                continue
            if test in self._forms:
                case, form = NodeId.of(test).case, self._forms[test]
                seen[test] = Seen(form, case, status, records.lines[name], records.notes[name])
            else:
                statuses[test] = status
            numbers[test] = records.numbers[name]
        for test in (*self._true.values(), *self._numbered.values()):
            if test in self._forms:
                seen.setdefault(test, Seen(self._forms[test], NodeId.of(test).case, MISSING, ""))
            else:
                statuses.setdefault(test, MISSING)
        return statuses, seen, numbers


def _judged(result: Result, records: Records, selection: _Selection) -> TestRun:
    tampered = list(records.tampered)
    error = "" if records.exit_code is not None else _unfinished(result)
    if not error:
        if result.exit_code != records.exit_code:
            tampered.append(f"the process ended with {result.exit_code}, the run said {records.exit_code}")
        elif records.exit_code not in _expected_codes(records):
            tampered.append(f"pytest ended with {records.exit_code}, which is not what the tests say")
    statuses, seen, numbers = selection.sort(records)
    return TestRun(statuses, seen, tuple(tampered), error, records.uncollected, numbers)


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


def _compiled_all(texts: Mapping[str, str], folder: str) -> dict[str, str] | None:
    """Return modules compiled, or nothing if one cannot be: then the process has to say so itself."""
    try:
        return {path: _compiled(text, str(PurePosixPath(folder, path))) for path, text in texts.items()}
    except (SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(256)
def _compiled(text: str, path: str) -> str:
    return base64.b64encode(marshal.dumps(compile(text, path, "exec", dont_inherit=True))).decode()


@cache
def _text_of(name: str) -> str:
    """Return the text of a module that travels."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def stubbed(tree: Mapping[str, bytes], hidden: HiddenTests, manner: Manner) -> dict[str, bytes]:
    """Return the tree with nothing in the files of tests that travel in memory."""
    empty = set() if manner is Manner.FILES else set(hidden.files).intersection(hidden.modules)
    return {path: b"" if path in empty else data for path, data in tree.items()}
