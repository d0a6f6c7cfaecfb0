"""Draws the tests of each process of a grading, and their forms, from the system's randomness.

Every process has each test in one form. The tests that decide are in every process, true in some and changed in others,
drawn independently for each function. Other tests run with them, true or changed, so that a failing test need not be
one that decides. Code that cannot distinguish the forms of a test has to guess right in all processes. One process
withholds the expected values of all tests that decide, as far as possible: all in the same process, because one test
may contain the value that another expects. That process runs first and alone, so that no other process of the
grading could have sent it a value.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.forms import ChangedForm, compatible
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.judge import HiddenTests
from agentgym.envs.swe.repository import files_of

PROCESSES = 6
MIN_TRUE, MIN_CHANGED = 1, 3
"""Minimum number of processes that run a function that decides in each form."""
MIN_CHANGED_ALONE = 4
"""Minimum number of processes that change a function that decides, if no form withholds its expected values. Code that
decides by the content of a form has to guess for each different form."""
BESIDE = 12
"""Other tests in a process, except in the one that runs all."""
APART = 8
"""Number of functions to change in files without tests that decide."""


@dataclass(frozen=True)
class DrawnProcess:
    """The tests of one process, and the forms of the changed ones."""

    hidden: HiddenTests
    forms: tuple[ChangedForm, ...]


def draw(
    hidden: HiddenTests, decisive: Sequence[str], calibration: Calibration, rng: random.Random
) -> tuple[DrawnProcess | None, list[DrawnProcess]]:
    """Return the process that withholds expected values, if a form does, and the others in random order.

    Among the others, one has all tests that decide in their true form, another runs all tests, and a third runs the
    tests changed there in their true form.
    """
    forms = calibration.by_place()
    tests: dict[Place, list[str]] = defaultdict(list)
    for test in (*hidden.tests, *hidden.prefixes):
        tests[NodeId.of(test).place].append(test)
    files = set(files_of(decisive))
    first = {place for place, own in tests.items() if not set(own).isdisjoint(decisive)}
    near = [place for place in tests if place[0] in files and place not in first]
    apart = [place for place in tests if place[0] not in files]
    withheld = {form.change.place: form for form in calibration.withheld}
    blind = rng.randrange(3, PROCESSES)
    schedules = {place: _schedule(forms.get(place, []), withheld.get(place), blind, rng) for place in first}

    def process(
        turn: int, places: Collection[Place], true: Collection[Place], changeable: Collection[Place]
    ) -> DrawnProcess:
        process_forms: list[ChangedForm] = []
        for place in first:
            process_forms += schedules[place][turn]
        for place in changeable:
            if place not in true and rng.random() < 0.5:
                process_forms += _some(forms.get(place, []), rng)
        chosen_tests = [test for place in (*first, *places) for test in tests[place]]
        return DrawnProcess(hidden.only(chosen_tests), tuple(process_forms))

    varied = rng.sample(
        [place for place in apart if place in forms], min(APART, sum(place in forms for place in apart))
    )
    beside = [_sampled(near, tests, rng) for _ in range(PROCESSES)]
    every = process(1, [*near, *apart], (), [*beside[1], *varied])
    changed = {form.change.place for form in every.forms} - first
    # Runs the tests changed there in their true form, and changes others of the same files.
    changed_files = {path for path, _, _ in changed}
    mixed = [place for place in apart if place[0] in changed_files and place in forms][:APART]
    again = process(2, {*beside[2], *changed, *mixed}, changed, {*beside[2], *mixed})
    small = {turn: process(turn, beside[turn], (), beside[turn]) for turn in (0, *range(3, PROCESSES))}
    first_process = small.pop(blind) if withheld else None
    others = [every, again, *small.values()]
    rng.shuffle(others)
    return first_process, others


def _sampled(places: Sequence[Place], tests: Mapping[Place, Sequence[str]], rng: random.Random) -> list[Place]:
    """Return functions that together have about `BESIDE` tests."""
    sample, number = [], 0
    for place in rng.sample(places, len(places)):
        if number + len(tests[place]) <= BESIDE or not sample:
            sample.append(place)
            number += len(tests[place])
    return sample


def _schedule(
    forms: Sequence[ChangedForm], withheld: ChangedForm | None, blind: int, rng: random.Random
) -> list[list[ChangedForm]]:
    """Return the forms of a function that decides for each process: true in one, then a mixture.

    Args:
        forms: Changed forms.
        withheld: The form that withholds the expected values, if there is one.
        blind: Number of the process that has that form.
        rng: Source of the draws.
    """
    free = [turn for turn in range(1, PROCESSES) if withheld is None or turn != blind]
    least = MIN_CHANGED_ALONE if withheld is None else MIN_CHANGED
    turns = set(rng.sample(free, rng.randint(least, len(free) + 1 - MIN_TRUE) if forms else 0))
    unused_forms: list[ChangedForm] = []
    schedule: list[list[ChangedForm]] = [[] for _ in range(PROCESSES)]
    for turn in sorted(turns):
        if len(unused_forms) < 2:  # every form is used before one is repeated
            unused_forms += rng.sample(forms, len(forms))
        schedule[turn] = _compatible(unused_forms)
    if withheld is not None:
        schedule[blind] = [withheld]
    return schedule


def _some(forms: Sequence[ChangedForm], rng: random.Random) -> list[ChangedForm]:
    return _compatible(rng.sample(forms, len(forms)))


def _compatible(forms: list[ChangedForm]) -> list[ChangedForm]:
    """Take the first form, and the others that can be in a process with it."""
    if not forms:
        return []
    joint = [forms.pop(0)]
    for form in list(forms):
        if all(compatible(form, other) for other in joint):
            joint.append(form)
            forms.remove(form)
    return joint
