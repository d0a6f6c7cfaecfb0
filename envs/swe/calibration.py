"""Calibrates an instance by running its tests: which changed forms correct code fails, and where.

A changed form is kept only if the gold solution failed it every time, always in the same lines, and left the other
tests of the process undisturbed. Forms that withhold expected values are tried as well (`withheld_calibration`).
Calibrated once per instance and kept in the cache folder.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice

from agentgym.caches import cache_folder
from agentgym.envs.swe.disguise import functions_of
from agentgym.envs.swe.forms import ChangedForm, compatible
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.judge import FAILED, MISSING, PASSING, HiddenTests, Manner, Process, RunHiddenTests, TestRun
from agentgym.envs.swe.perturb import Change, proposals
from agentgym.envs.swe.remembered import Remembered
from agentgym.envs.swe.repository import Repository, files_of
from agentgym.envs.swe.withheld_calibration import forms_that_withhold
from agentgym.envs.swe.withholding import decided
from agentgym.errors import BrokenTask
from agentgym.tasks.swe.pytest_folder import versions

DECISIVE_FORMS = 12
"""Changed forms to try of each function with tests that decide."""
OTHER_FORMS = 3
"""Changed forms to try of each other function."""
OTHER_FUNCTIONS = 40
"""How many other functions to change; those in files with tests that decide come first."""
MAX_FORMS = 90
"""Most changed forms to try of one function, whatever the number of its cases."""
SMALL = 150
"""Up to this many tests, all run in every process of a calibration; beyond it, most processes run only the files that
decide."""
MAX_ROUNDS = 6
"""Rounds that remove forms which disturb other tests; the last one removes all forms of the disturbed files."""
PATIENCE, LEAST_WALL_S = 5.0, 20.0
"""Time limit of a process with changed tests, as a multiple of one without, and its lower bound in seconds: a changed
test may wait forever."""
_VERSION = 7


@dataclass(frozen=True)
class Calibration:
    """How an instance is graded."""

    manner: Manner
    forms: tuple[ChangedForm, ...]
    excused: tuple[str, ...] = ()
    """Tests that should pass before and after, and do not pass on the gold solution: they are not required."""
    withheld: tuple[ChangedForm, ...] = ()
    """Forms of functions that decide, at most one of each, that withhold the expected values."""

    def by_place(self) -> dict[Place, list[ChangedForm]]:
        """Return the forms of each function."""
        found: dict[Place, list[ChangedForm]] = defaultdict(list)
        for form in self.forms:
            found[form.change.place].append(form)
        return dict(found)

    def unchanged(self, tests: Iterable[str]) -> tuple[str, ...]:
        """Return which of the tests have no changed form, so that nothing but the test itself vouches for them."""
        forms = self.by_place()
        parts = {test: NodeId.of(test) for test in tests}
        return tuple(
            test for test, one in parts.items() if not any(form.concerns(one.case) for form in forms.get(one.place, ()))
        )


_CALIBRATIONS: Remembered[Calibration] = Remembered(4096)


def calibrated(repository: Repository, run: RunHiddenTests) -> Calibration:
    """Return the calibration of an instance, from memory, from the cache folder, or by a new measurement.

    Raises:
        BrokenTask: The tests do not pass on the gold solution, so nothing could be graded.
    """
    return _CALIBRATIONS.get(repository.key, lambda: _kept(repository, run))


def _kept(repository: Repository, run: RunHiddenTests) -> Calibration:
    path = cache_folder() / "swe" / "calibrations" / f"{repository.key[:32]}.json"
    stamp = f"{_VERSION} {versions()}"
    with suppress(OSError, ValueError, KeyError, AssertionError, TypeError):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["stamp"] == stamp:
            forms = tuple(map(ChangedForm.from_list, data["forms"]))
            withheld = tuple(map(ChangedForm.from_list, data["withheld"]))
            return Calibration(Manner(data["manner"]), forms, tuple(data["excused"]), withheld)
    made = _calibrate(repository, run)
    forms, withheld = ([form.to_list() for form in some] for some in (made.forms, made.withheld))
    data = {"stamp": stamp, "manner": made.manner.value, "forms": forms, "excused": list(made.excused)}
    data["withheld"] = withheld
    with suppress(OSError):  # a cache that cannot be written is no reason to stop
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(name, path)
    return made


def _calibrate(repository: Repository, run_on: RunHiddenTests) -> Calibration:
    hidden, instance = repository.hidden, repository.instance
    run = partial(run_on, repository.gold)
    best: tuple[Manner, TestRun, tuple[str, ...], float] | None = None
    why = ""
    for manner in Manner:
        began = time.monotonic()
        (found,) = run([(hidden, (), manner)])
        wall_s = max(LEAST_WALL_S, PATIENCE * (time.monotonic() - began))
        lost = [test for test in instance.fail_to_pass if found.statuses.get(test) != PASSING]
        if lost or found.error or found.tampered:
            why = found.error or next(iter(found.uncollected.values()), "") or " ".join([*lost[:1], *found.tampered])
            continue
        excused = tuple(test for test in instance.pass_to_pass if found.statuses.get(test) != PASSING)
        if best is None or len(excused) < len(best[2]):
            best = manner, found, excused, wall_s
        if not excused:
            break
    if best is None:
        raise BrokenTask(f"the tests of {instance.id!r} do not pass on its gold patch, so it cannot be graded: {why}")
    manner, found, excused, wall_s = best
    cases = _cases(hidden, excused, found.numbers)
    tried = _tried(hidden, instance.fail_to_pass, cases)
    forms = _undisturbing(hidden, instance.fail_to_pass, tried, found, manner, partial(run, wall_s=wall_s))
    withheld = forms_that_withhold(repository, cases, manner, partial(run_on, wall_s=wall_s))
    return Calibration(manner, forms, excused, withheld)


def _cases(hidden: HiddenTests, excused: Collection[str], numbers: Mapping[str, int]) -> dict[Place, dict[str, int]]:
    """Return the cases of each function whose text is known, with their numbers."""
    cases: dict[Place, dict[str, int]] = defaultdict(dict)
    for test in hidden.tests:
        if test not in excused and (parts := NodeId.of(test)).path in hidden.modules:
            cases[parts.place][parts.case] = numbers.get(test, 0)
    return cases


def _tried(
    hidden: HiddenTests, decisive: Sequence[str], cases: Mapping[Place, Mapping[str, int]]
) -> dict[Place, list[ChangedForm]]:
    """Return the forms to try: many of the functions that decide, a few of some others."""
    rng = random.Random(secrets.token_bytes(16))
    first, files = {NodeId.of(test).place for test in decisive}, set(files_of(decisive))
    others = [place for place in cases if place not in first]
    rng.shuffle(others)
    others.sort(key=lambda place: place[0] not in files)
    beside = [place for place in others if place[0] in files][: OTHER_FUNCTIONS * 3 // 4]
    apart = [place for place in others if place[0] not in files][: OTHER_FUNCTIONS - len(beside)]
    tried = {}
    for place in (*first, *beside, *apart):
        function = functions_of(hidden.modules[place[0]]).get(place[1:]) if place[0] in hidden.modules else None
        if function is not None and place in cases:
            each = DECISIVE_FORMS if place in first else OTHER_FORMS
            found = proposals(function, hidden.modules[place[0]], rng)
            some = islice(found, min(each + (len(cases[place]) - 1) * each // 2, MAX_FORMS))
            certain = decided(function)
            tried[place] = [
                _form(Change(*place, edits, row), cases[place], any(edit.number in certain for edit in edits))
                for edits, row in some
            ]
    return tried


def _form(change: Change, cases: Mapping[str, int], contradicts: bool) -> ChangedForm:
    """Return the untried form of a change: it concerns the case of its row, if that is known, or all cases."""
    if change.row is None:
        return ChangedForm(change, contradicts=contradicts)
    concerned = {case: "" for case, number in cases.items() if number == change.row}
    return ChangedForm(change, concerned, dict(cases), contradicts)


def _bundles(forms: Sequence[ChangedForm]) -> list[list[ChangedForm]]:
    """Return a function's forms in groups that can share a process: forms of different rows, or a single one."""
    made: list[list[ChangedForm]] = []
    for form in forms:
        own = next((group for group in made if all(compatible(form, one) for one in group)), None)
        if own is None:
            made.append([form])
        else:
            own.append(form)
    return made


def _undisturbing(
    hidden: HiddenTests,
    decisive: Sequence[str],
    tried: dict[Place, list[ChangedForm]],
    plain: TestRun,
    manner: Manner,
    run: Callable[[Sequence[Process]], Sequence[TestRun]],
) -> tuple[ChangedForm, ...]:
    """Return the forms that fail, without those that hang or disturb other tests.

    A test that fails half-way may leave a module in a changed state, which would then fail honest work.
    """
    first = {NodeId.of(test).place for test in decisive}
    passing = frozenset(plain.passed(hidden.tests))
    for round_ in range(MAX_ROUNDS + 1):
        processes = _processes(hidden, decisive, tried, manner)
        found = run(processes)
        while stuck := _stuck(found):
            tried = {place: [form for form in forms if form not in stuck] for place, forms in tried.items()}
            processes = _processes(hidden, decisive, tried, manner)
            found = run(processes)
        disturbed = _disturbed(processes, found, passing)
        if not disturbed:
            return tuple(_working(found))
        blamed = {_most_suspect(test, processes, found, tried.keys() - first or tried.keys()) for test in disturbed}
        if round_ >= MAX_ROUNDS - 1 or blamed <= {None}:
            blamed = {place for place in tried if place[0] in files_of(disturbed)}
        tried = {place: forms for place, forms in tried.items() if place not in blamed}
    return ()


def _processes(
    hidden: HiddenTests, decisive: Sequence[str], tried: Mapping[Place, Sequence[ChangedForm]], manner: Manner
) -> list[Process]:
    """Return processes in which each form is tried once or more, mixed as in grading."""
    first, files = {NodeId.of(test).place for test in decisive}, set(files_of(decisive))
    near = hidden.only(
        [test for test in hidden.tests if NodeId.of(test).place in tried or NodeId.of(test).place in first]
    ).within(files)
    bundles = {place: _bundles(forms) for place, forms in tried.items() if forms}
    others = {place: cycle(own) for place, own in bundles.items() if place not in first}
    bits = max(1, len(others).bit_length())
    number = max((len(own) for place, own in bundles.items() if place in first), default=0)
    made: list[Process] = []
    for turn in range(max(number, 2 * bits) + 2):
        forms = [
            form for place in first & bundles.keys() for group in bundles[place][turn : turn + 1] for form in group
        ]
        # For any two other functions, some process has the first changed and the second true, and some the reverse.
        for code, own in enumerate(others.values()):
            if (code >> turn // 2 % bits & 1) == turn % 2:
                forms += next(own)
        whole = turn % 3 == 0 or len(hidden.tests) <= SMALL
        files_here = set(hidden.files) if whole else files
        some = hidden if whole else near
        made.append((some, [form for form in forms if form.change.path in files_here], manner))
    return made


def _stuck(found: Sequence[TestRun]) -> set[ChangedForm]:
    """Return the forms that did not finish in a process that did not finish: one of them may hang."""
    return {what.form for one in found if one.error for what in one.changed.values() if what.status == MISSING}


def _disturbed(processes: Sequence[Process], found: Sequence[TestRun], passing: Collection[str]) -> list[str]:
    """Return the tests that pass alone but failed in their true form beside changed tests."""
    lost: dict[str, None] = {}
    for (hidden, _, _), one in zip(processes, found, strict=True):
        for test in hidden.tests:
            whole = not (one.error or one.tampered)
            if test in passing and test not in one.changed and not (whole and one.statuses.get(test) == PASSING):
                lost[test] = None
    return list(lost)


def _most_suspect(
    test: str,
    processes: Sequence[Process],
    found: Sequence[TestRun],
    suspects: Collection[Place],
) -> Place | None:
    """Return the function whose changed forms correlate most with the failures of a test."""
    changed: dict[Place, list[bool]] = defaultdict(list)
    true: dict[Place, list[bool]] = defaultdict(list)
    for (hidden, forms, _), one in zip(processes, found, strict=True):
        if test not in one.changed and test in hidden.tests:
            there = {form.change.place for form in forms}
            for place in suspects:
                (changed if place in there else true)[place].append(one.statuses.get(test) != PASSING)

    def score(place: Place) -> float:
        lost, kept = changed[place], true[place] or [False]
        near = 0.5 if place[0] == NodeId.of(test).place[0] else 0.0
        return near + sum(lost) / len(lost) - sum(kept) / len(kept)

    return max((place for place in suspects if any(changed[place])), key=score, default=None)


def _working(found: Iterable[TestRun]) -> list[ChangedForm]:
    """Return the forms that failed on the gold solution every time, in the same lines, with the cases that did."""
    seen: dict[ChangedForm, dict[str, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))
    for one in found:
        for what in one.changed.values():
            seen[what.form][what.case].add((what.status, what.lines))
    kept = []
    for form, cases in seen.items():
        fails = {case: next(iter(outcomes))[1] for case, outcomes in cases.items() if _is_clear(outcomes, FAILED)}
        rest = [outcomes for case, outcomes in cases.items() if case not in fails]
        if fails and all(len(outcomes) == 1 and next(iter(outcomes))[0] == PASSING for outcomes in rest):
            kept.append(replace(form, fails=fails))
    return sorted(kept, key=lambda form: form.change)


def _is_clear(outcomes: set[tuple[str, str]], status: str) -> bool:
    return len(outcomes) == 1 and next(iter(outcomes))[0] == status and next(iter(outcomes))[1] != ""
