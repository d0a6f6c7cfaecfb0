"""Selects the useful forms among those that withhold expected values, by running them on the gold and the buggy code.

On the gold solution such a form must pass, and the compared values must equal the withheld ones; places where they
differ are dropped. On the buggy code the test must compare other values, or none: otherwise the buggy code would
satisfy the form too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from agentgym.envs.swe.disguise import functions_of
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.judge import PASSING, ChangedTestResult, Manner, RunHiddenTests, TestRun
from agentgym.envs.swe.perturb import FunctionChange, NodeEdit
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.withholding import withheld

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
