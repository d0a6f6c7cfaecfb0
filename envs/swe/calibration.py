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
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice

from agentgym.base.cache import cache_folder
from agentgym.base.errors import BrokenTask
from agentgym.envs.swe.disguise import functions_of
from agentgym.envs.swe.forms import ChangedForm, compatible
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.judge import (
    FAILED,
    MISSING,
    PASSING,
    ChangedTestResult,
    HiddenTests,
    Manner,
    Process,
    RunHiddenTests,
    TestRun,
)
from agentgym.envs.swe.perturb import FunctionChange, NodeEdit, proposals
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository, files_of
from agentgym.envs.swe.withholding import decided, withheld
from agentgym.tasks.swe.pytest_folder import versions

_Run = Callable[[Sequence[ChangedForm]], Sequence[TestRun]]
"""Runs tests, some in these forms, in several processes, and returns the results of each."""

_ROUNDS = 6
"""Limit on the rounds of dropping places."""


def forms_that_withhold(
    repository: Repository, cases: Mapping[Place, Mapping[str, int]], manner: Manner, run_on: RunHiddenTests
) -> tuple[ChangedForm, ...]:
    """Return the useful forms that withhold the expected values of functions that decide.

    Args:
        repository: The instance.
        cases: For each function, the cases that correct code passes, with their numbers.
        manner: How tests enter the sandbox.
        run_on: Runs tests, within a time limit: the buggy code may hang.
    """
    hidden, decisive = repository.hidden, repository.instance.fail_to_pass
    places = {NodeId.of(test).place for test in decisive}
    # Other tests would be requested by ids, which reveal the content of the cases.
    places -= {NodeId.of(test).place for test in (*hidden.tests, *hidden.prefixes) if not _is_among(test, cases)}
    decisive_tests = hidden.only([test for test in hidden.tests if NodeId.of(test).place in places])

    def on_gold(forms: Sequence[ChangedForm]) -> Sequence[TestRun]:
        return run_on(repository.gold, [(decisive_tests, forms, manner)] * 2)

    def on_fault(forms: Sequence[ChangedForm]) -> Sequence[TestRun]:
        return run_on(repository.files, [(decisive_tests, forms, manner)])

    forms = [form for place in places if (form := _withholding_all(place, hidden.modules, cases[place])) is not None]
    return _useful(forms, decisive, on_gold, on_fault)


def _is_among(test: str, cases: Mapping[Place, Mapping[str, int]]) -> bool:
    return NodeId.of(test).case in cases.get(NodeId.of(test).place, {})


def _withholding_all(place: Place, modules: Mapping[str, str], cases: Mapping[str, int]) -> ChangedForm | None:
    """Return the form of a function that withholds everything that can be withheld."""
    function = functions_of(modules[place[0]]).get(place[1:])
    edits, row = withheld(function) if function is not None else ((), None)
    return ChangedForm(FunctionChange(*place, edits, row), numbers=cases if row is not None else {}) if edits else None


def _useful(
    forms: Iterable[ChangedForm], decisive: Collection[str], on_gold: _Run, on_fault: _Run
) -> tuple[ChangedForm, ...]:
    """Return the useful forms, with the values that correct code compares in them.

    Args:
        forms: One form per function, which withholds everything that can be withheld.
        decisive: The tests that decide.
        on_gold: Runs them on the gold solution.
        on_fault: Runs them on the buggy code.
    """
    settled: list[ChangedForm] = []
    trying = list(forms)
    for _ in range(_ROUNDS):
        if not trying:
            break
        results = _by_form(on_gold(trying))
        again: list[ChangedForm] = []
        for form in trying:
            bad = _to_drop(form, results[form])
            if not bad:
                settled.append(replace(form, notes=_counts(results[form])))
            else:
                edits = tuple(edit for edit in form.change.edits if edit not in bad)
                again.append(replace(form, change=replace(form.change, edits=edits)))
        trying = [form for form in again if form.expected]
    if not settled:
        return ()
    on_buggy = [result for run in on_fault(settled) for test, result in run.changed.items() if test in decisive]
    useful = {result.form.change for result in on_buggy if not result.is_right}
    return tuple(form for form in settled if form.change in useful)


def _by_form(runs: Sequence[TestRun]) -> dict[ChangedForm, dict[str, list[ChangedTestResult]]]:
    """Return the results of each form, by case, one for each process."""
    by_form: dict[ChangedForm, dict[str, list[ChangedTestResult]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for result in run.changed.values():
            by_form[result.form][result.case].append(result)
    return by_form


def _to_drop(form: ChangedForm, by_case: Mapping[str, Sequence[ChangedTestResult]]) -> set[NodeEdit]:
    """Return the edits to drop: correct code fails there, or compares a different value."""
    results = [result for cases in by_case.values() for result in cases]
    notes = [note for result in results for note in result.notes]
    wrong = {note.number for note in notes if not note.equals(form.expected.get(note.number))}
    unsteady = {
        number
        for cases in by_case.values()
        for number, counts in _numbers(cases).items()
        if len(set(counts)) > 1
    }  # fmt: skip
    if bad := {edit for edit in form.change.edits if edit.number in wrong | unsteady}:
        return bad
    if results and all(result.status == PASSING for result in results):
        return set() if notes else set(form.change.edits)
    noted = {note.number for note in notes}
    missing = [edit for edit in form.change.edits if edit.number in form.expected and edit.number not in noted]
    return set(missing[:1] or form.change.edits)


def _numbers(cases: Sequence[ChangedTestResult]) -> dict[int, list[int]]:
    """Return how often each place was noted in each process."""
    counts = [Counter(note.number for note in result.notes) for result in cases]
    return {number: [own[number] for own in counts] for number in set().union(*counts)}


def _counts(by_case: Mapping[str, Sequence[ChangedTestResult]]) -> dict[str, dict[int, int]]:
    return {
        case: {number: min(counts) for number, counts in _numbers(cases).items()} for case, cases in by_case.items()
    }


DECISIVE_FORMS = 12
"""Number of changed forms to try for each function with tests that decide."""
OTHER_FORMS = 3
"""Number of changed forms to try for each other function."""
OTHER_FUNCTIONS = 40
"""Number of other functions to change; those in files with tests that decide come first."""
MAX_FORMS = 90
"""Limit on the changed forms of one function, however many cases it has."""
SMALL = 150
"""Up to this many tests, all run in every process of a calibration; beyond it, most processes run only the files that
decide."""
MAX_ROUNDS = 6
"""Rounds that remove forms which disturb other tests; the last one removes all forms of the disturbed files."""
PATIENCE, LEAST_WALL_S = 5.0, 20.0
"""Time limit of a process with changed tests, as a multiple of one without, and its lower bound in seconds: a changed
test may wait forever."""
_VERSION = 8


@dataclass(frozen=True)
class Calibration:
    """How an instance is graded."""

    manner: Manner
    forms: tuple[ChangedForm, ...]
    excused: tuple[str, ...] = ()
    """Tests that should pass before and after, and do not pass on the gold solution: they are not required."""
    withheld: tuple[ChangedForm, ...] = ()
    """Forms of functions that decide, at most one of each, that withhold the expected values."""
    seconds: float = 0.0
    """Duration of a process that runs all tests on the gold solution, on this machine."""

    def by_place(self) -> dict[Place, list[ChangedForm]]:
        """Return the forms of each function."""
        by_place: dict[Place, list[ChangedForm]] = defaultdict(list)
        for form in self.forms:
            by_place[form.change.place].append(form)
        return dict(by_place)

    def withholds_all(self, tests: Iterable[str]) -> bool:
        """Whether every one of the tests has a form that withholds its expected values."""
        places = {form.change.place for form in self.withheld}
        return all(NodeId.of(test).place in places for test in tests)

    def unchanged(self, tests: Iterable[str]) -> tuple[str, ...]:
        """Return the tests without a changed form: only their true form can be run."""
        forms = self.by_place()
        nodes = {test: NodeId.of(test) for test in tests}
        return tuple(
            test
            for test, node in nodes.items()
            if not any(form.concerns(node.case) for form in forms.get(node.place, ()))
        )


_CALIBRATIONS: BoundedCache[Calibration] = BoundedCache(4096)


def calibrated(repository: Repository, run: RunHiddenTests) -> Calibration:
    """Return the calibration of an instance: from memory, from the cache folder, or newly measured.

    Raises:
        BrokenTask: The tests do not pass on the gold solution, so nothing could be graded.
    """
    return _CALIBRATIONS.get(repository.key, lambda: _cached(repository, run))


def _cached(repository: Repository, run: RunHiddenTests) -> Calibration:
    path = cache_folder() / "swe" / "calibrations" / f"{repository.key[:32]}.json"
    stamp = f"{_VERSION} {versions()}"
    with suppress(OSError, ValueError, KeyError, AssertionError, TypeError):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["stamp"] == stamp:
            forms = tuple(map(ChangedForm.from_list, data["forms"]))
            withheld = tuple(map(ChangedForm.from_list, data["withheld"]))
            return Calibration(Manner(data["manner"]), forms, tuple(data["excused"]), withheld, data["seconds"])
    calibration = _calibrate(repository, run)
    forms, withheld = ([form.to_list() for form in group] for group in (calibration.forms, calibration.withheld))
    data = {"stamp": stamp, "manner": calibration.manner.value, "forms": forms, "excused": list(calibration.excused)}
    data |= {"withheld": withheld, "seconds": calibration.seconds}
    with suppress(OSError):  # a cache that cannot be written is no reason to stop
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(name, path)
    return calibration


def _calibrate(repository: Repository, run_on: RunHiddenTests) -> Calibration:
    hidden, instance = repository.hidden, repository.instance
    run = partial(run_on, repository.gold)
    best: tuple[Manner, TestRun, tuple[str, ...], float] | None = None
    why = ""
    for manner in Manner:
        began = time.monotonic()
        (plain,) = run([(hidden, (), manner)])
        seconds = time.monotonic() - began
        lost = [test for test in instance.fail_to_pass if plain.statuses.get(test) != PASSING]
        if lost or plain.error or plain.tampered:
            why = plain.error or next(iter(plain.uncollected.values()), "") or " ".join([*lost[:1], *plain.tampered])
            continue
        excused = tuple(test for test in instance.pass_to_pass if plain.statuses.get(test) != PASSING)
        if best is None or len(excused) < len(best[2]):
            best = manner, plain, excused, seconds
        if not excused:
            break
    if best is None:
        raise BrokenTask(f"the tests of {instance.id!r} do not pass on its gold patch, so it cannot be graded: {why}")
    manner, plain, excused, seconds = best
    wall_s = max(LEAST_WALL_S, PATIENCE * seconds)
    cases = _cases(hidden, excused, plain.numbers)
    candidates = _candidate_forms(hidden, instance.fail_to_pass, cases)
    forms = _undisturbing(hidden, instance.fail_to_pass, candidates, plain, manner, partial(run, wall_s=wall_s))
    withheld = forms_that_withhold(repository, cases, manner, partial(run_on, wall_s=wall_s))
    return Calibration(manner, forms, excused, withheld, seconds)


def _cases(hidden: HiddenTests, excused: Collection[str], numbers: Mapping[str, int]) -> dict[Place, dict[str, int]]:
    """Return the cases of each function whose text is known, with their numbers."""
    cases: dict[Place, dict[str, int]] = defaultdict(dict)
    for test in hidden.tests:
        if test not in excused and (parts := NodeId.of(test)).path in hidden.modules:
            cases[parts.place][parts.case] = numbers.get(test, 0)
    return cases


def _candidate_forms(
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
    candidates = {}
    for place in (*first, *beside, *apart):
        function = functions_of(hidden.modules[place[0]]).get(place[1:]) if place[0] in hidden.modules else None
        if function is not None and place in cases:
            per_case = DECISIVE_FORMS if place in first else OTHER_FORMS
            changes = proposals(function, hidden.modules[place[0]], rng)
            first_changes = islice(changes, min(per_case + (len(cases[place]) - 1) * per_case // 2, MAX_FORMS))
            certain = decided(function)
            candidates[place] = [
                _form(FunctionChange(*place, edits, row), cases[place], any(edit.number in certain for edit in edits))
                for edits, row in first_changes
            ]
    return candidates


def _form(change: FunctionChange, cases: Mapping[str, int], contradicts: bool) -> ChangedForm:
    """Return the untried form of a change: it concerns the case of its row, if that is known, or all cases."""
    if change.row is None:
        return ChangedForm(change, contradicts=contradicts)
    concerned = {case: "" for case, number in cases.items() if number == change.row}
    return ChangedForm(change, concerned, dict(cases), contradicts)


def _bundles(forms: Sequence[ChangedForm]) -> list[list[ChangedForm]]:
    """Return a function's forms in groups that can share a process: forms of different rows, or a single one."""
    bundles: list[list[ChangedForm]] = []
    for form in forms:
        own = next((group for group in bundles if all(compatible(form, other) for other in group)), None)
        if own is None:
            bundles.append([form])
        else:
            own.append(form)
    return bundles


def _undisturbing(
    hidden: HiddenTests,
    decisive: Sequence[str],
    candidates: dict[Place, list[ChangedForm]],
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
        processes = _processes(hidden, decisive, candidates, manner)
        runs = run(processes)
        while stuck := _stuck(runs):
            candidates = {place: [form for form in forms if form not in stuck] for place, forms in candidates.items()}
            processes = _processes(hidden, decisive, candidates, manner)
            runs = run(processes)
        disturbed = _disturbed(processes, runs, passing)
        if not disturbed:
            return tuple(_working(runs))
        blamed = {
            _most_suspect(test, processes, runs, candidates.keys() - first or candidates.keys()) for test in disturbed
        }
        if round_ >= MAX_ROUNDS - 1 or blamed <= {None}:
            blamed = {place for place in candidates if place[0] in files_of(disturbed)}
        candidates = {place: forms for place, forms in candidates.items() if place not in blamed}
    return ()


def _processes(
    hidden: HiddenTests, decisive: Sequence[str], candidates: Mapping[Place, Sequence[ChangedForm]], manner: Manner
) -> list[Process]:
    """Return processes that together try each form at least once, mixed as in grading."""
    first, files = {NodeId.of(test).place for test in decisive}, set(files_of(decisive))
    near = hidden.only(
        [test for test in hidden.tests if NodeId.of(test).place in candidates or NodeId.of(test).place in first]
    ).within(files)
    bundles = {place: _bundles(forms) for place, forms in candidates.items() if forms}
    others = {place: cycle(own) for place, own in bundles.items() if place not in first}
    bits = max(1, len(others).bit_length())
    number = max((len(own) for place, own in bundles.items() if place in first), default=0)
    processes: list[Process] = []
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
        tests = hidden if whole else near
        processes.append((tests, [form for form in forms if form.change.path in files_here], manner))
    return processes


def _stuck(runs: Sequence[TestRun]) -> set[ChangedForm]:
    """Return the forms that did not finish in a process that did not finish: one of them may hang."""
    return {result.form for run in runs if run.error for result in run.changed.values() if result.status == MISSING}


def _disturbed(processes: Sequence[Process], runs: Sequence[TestRun], passing: Collection[str]) -> list[str]:
    """Return the tests that pass alone, but failed in their true form when others were changed."""
    lost: dict[str, None] = {}
    for (hidden, _, _), run in zip(processes, runs, strict=True):
        for test in hidden.tests:
            whole = not (run.error or run.tampered)
            if test in passing and test not in run.changed and not (whole and run.statuses.get(test) == PASSING):
                lost[test] = None
    return list(lost)


def _most_suspect(
    test: str,
    processes: Sequence[Process],
    runs: Sequence[TestRun],
    suspects: Collection[Place],
) -> Place | None:
    """Return the function whose changed forms correlate most with the failures of a test."""
    changed: dict[Place, list[bool]] = defaultdict(list)
    true: dict[Place, list[bool]] = defaultdict(list)
    for (hidden, forms, _), run in zip(processes, runs, strict=True):
        if test not in run.changed and test in hidden.tests:
            there = {form.change.place for form in forms}
            for place in suspects:
                (changed if place in there else true)[place].append(run.statuses.get(test) != PASSING)

    def score(place: Place) -> float:
        while_changed, while_true = changed[place], true[place] or [False]
        near = 0.5 if place[0] == NodeId.of(test).place[0] else 0.0
        return near + sum(while_changed) / len(while_changed) - sum(while_true) / len(while_true)

    return max((place for place in suspects if any(changed[place])), key=score, default=None)


def _working(runs: Iterable[TestRun]) -> list[ChangedForm]:
    """Return the forms that failed on the gold solution every time, in the same lines, with the cases that did."""
    outcomes_of: dict[ChangedForm, dict[str, set[tuple[str, str]]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for result in run.changed.values():
            outcomes_of[result.form][result.case].add((result.status, result.lines))
    working = []
    for form, cases in outcomes_of.items():
        fails = {case: next(iter(outcomes))[1] for case, outcomes in cases.items() if _is_clear(outcomes, FAILED)}
        rest = [outcomes for case, outcomes in cases.items() if case not in fails]
        if fails and all(len(outcomes) == 1 and next(iter(outcomes))[0] == PASSING for outcomes in rest):
            working.append(replace(form, fails=fails))
    return sorted(working, key=lambda form: form.change)


def _is_clear(outcomes: set[tuple[str, str]], status: str) -> bool:
    return len(outcomes) == 1 and next(iter(outcomes))[0] == status and next(iter(outcomes))[1] != ""
