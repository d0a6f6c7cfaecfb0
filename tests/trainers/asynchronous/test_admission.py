"""Which groups of an asynchronous run start: at random times of completion, none is lost and none comes twice."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from agentgym.trainers.asynchronous.admission import Admission


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2**20), st.integers(1, 30))
def test_every_group_is_trained_once_and_at_most_so_many_are_open(groups: int, eta: int, seed: int, steps: int):
    draw, admission, trained = random.Random(seed), Admission(groups, eta), []
    admission.admit()
    for _ in range(steps):
        if draw.random() < 0.2:  # killed, and resumed from a checkpoint
            admission = Admission(groups, eta, admission.next, list(admission.open))
        finished = draw.sample(admission.open, k=draw.randint(groups, len(admission.open)))
        taken = sorted(finished)[:groups]
        admission.trained(taken)
        trained += taken
        admission.admit()
        assert len(admission.open) == (eta + 1) * groups
    assert len(trained) == len(set(trained)) == groups * steps
    assert sorted([*trained, *admission.open]) == list(range(admission.next))


@given(st.integers(1, 4), st.integers(1, 3))
def test_groups_that_are_trained_in_turn_are_at_most_so_many_updates_old(groups: int, eta: int):
    admission = Admission(groups, eta)
    started_at = dict.fromkeys(admission.admit(), 0)
    for step in range(12):
        taken = admission.open[:groups]
        assert all(step - started_at[number] <= eta for number in taken)
        admission.trained(taken)
        started_at |= dict.fromkeys(admission.admit(), step + 1)
