"""Counts are written as English writes them."""

from __future__ import annotations

import pytest

from agentgym.counts import count_of


@pytest.mark.parametrize(("number", "said"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks"), (1204, "1,204 tasks")])
def test_one_thing_is_in_the_singular(number: int, said: str):
    assert count_of(number, "task") == said


def test_an_irregular_plural_is_given():
    assert [count_of(number, "trajectory", "trajectories") for number in (1, 2)] == ["1 trajectory", "2 trajectories"]
