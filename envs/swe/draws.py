"""What each process of a grading runs, and in which forms: drawn anew every time from the system's own randomness.

Every process has each test in one form. The tests that decide are in every process, true in some and changed in others,
each function by draws of its own; other tests are beside them, true or changed, so that a test that fails is no sign of
one that decides. Code that cannot tell the forms of a test apart has to guess right in all processes. In one process
the tests that decide do not hold what they expect, as far as it can be withheld: all in the same, because the value
that one expects may stand in another.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.forms import Form, compatible
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.judge import HiddenTests
from agentgym.envs.swe.repository import files_of

PROCESSES = 6
MIN_TRUE, MIN_CHANGED = 1, 3
"""How often a function that decides is in each form, at least."""
MIN_CHANGED_ALONE = 4
"""How often a function that decides is changed, at least, if it has no form that withholds what it expects. Code that
goes by what is in a form is fooled by each different one, however often it sees the true one."""
BESIDE = 12
"""Other tests in a process, but for the one that runs all."""
APART = 8
"""Functions in files without tests that decide that are changed in a grading."""


@dataclass(frozen=True)
class Drawn:
    """What one process runs."""

    hidden: HiddenTests
    forms: tuple[Form, ...]


def draw(
    hidden: HiddenTests, decisive: Sequence[str], calibration: Calibration, rng: random.Random
) -> tuple[Drawn, list[Drawn]]:
    """Return the process to begin with, which has all tests that decide in their true form, and the others.

    One of the others runs all tests. What it has changed runs in its true form in another.
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

    def process(turn: int, places: Collection[Place], true: Collection[Place], changeable: Collection[Place]) -> Drawn:
        chosen: list[Form] = []
        for place in first:
            chosen += schedules[place][turn]
        for place in changeable:
            if place not in true and rng.random() < 0.5:
                chosen += _some(forms.get(place, []), rng)
        wanted = [test for place in (*first, *places) for test in tests[place]]
        return Drawn(hidden.only(wanted), tuple(chosen))

    varied = rng.sample(
        [place for place in apart if place in forms], min(APART, sum(place in forms for place in apart))
    )
    beside = [_sampled(near, tests, rng) for _ in range(PROCESSES)]
    every = process(1, [*near, *apart], (), [*beside[1], *varied])
    changed = {form.change.place for form in every.forms} - first
    # What was changed there is true here, beside others of the same files that were not.
    mixed = [place for place in apart if place[0] in {one[0] for one in changed} and place in forms][:APART]
    again = process(2, {*beside[2], *changed, *mixed}, changed, {*beside[2], *mixed})
    others = [every, again, *(process(turn, beside[turn], (), beside[turn]) for turn in range(3, PROCESSES))]
    rng.shuffle(others)
    return process(0, beside[0], (), beside[0]), others


def _sampled(places: Sequence[Place], tests: Mapping[Place, Sequence[str]], rng: random.Random) -> list[Place]:
    """Return as many functions as have about `BESIDE` tests."""
    chosen, number = [], 0
    for place in rng.sample(places, len(places)):
        if number + len(tests[place]) <= BESIDE or not chosen:
            chosen.append(place)
            number += len(tests[place])
    return chosen


def _schedule(forms: Sequence[Form], withheld: Form | None, blind: int, rng: random.Random) -> list[list[Form]]:
    """Return the forms of a function that decides for each process: true in the first, then a mixture.

    Args:
        forms: Changed forms.
        withheld: The form that withholds what is expected, if there is one.
        blind: The process that has that form.
        rng: Draws.
    """
    free = [turn for turn in range(1, PROCESSES) if withheld is None or turn != blind]
    least = MIN_CHANGED_ALONE if withheld is None else MIN_CHANGED
    turns = set(rng.sample(free, rng.randint(least, len(free) + 1 - MIN_TRUE) if forms else 0))
    left: list[Form] = []
    schedule: list[list[Form]] = [[] for _ in range(PROCESSES)]
    for turn in sorted(turns):
        if len(left) < 2:  # each form has its turn before one comes again
            left += rng.sample(forms, len(forms))
        schedule[turn] = _compatible(left)
    if withheld is not None:
        schedule[blind] = [withheld]
    return schedule


def _some(forms: Sequence[Form], rng: random.Random) -> list[Form]:
    return _compatible(rng.sample(forms, len(forms)))


def _compatible(left: list[Form]) -> list[Form]:
    """Take the first form, and the others that can be in a process with it."""
    if not left:
        return []
    chosen = [left.pop(0)]
    for form in list(left):
        if all(compatible(form, one) for one in chosen):
            chosen.append(form)
            left.remove(form)
    return chosen
