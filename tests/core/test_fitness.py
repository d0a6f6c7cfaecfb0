"""Policies that cannot play an environment at all are distinguished from weak ones."""

from __future__ import annotations

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.registry import make
from agentgym.rollout import EnvFactory
from agentgym.rollout.fitness import check_prompt_fits, why_barren
from tests.refusals import differing
from tests.rollout_cases import Letters


def test_a_prompt_that_fills_the_context_is_refused_with_its_length_and_advice():
    factory, codec = EnvFactory("guess", {}), Letters()
    env = make("guess")
    task = env.tasks.get("train", 0)
    env.close()
    with pytest.raises(
        UsageError, match=r"has (\d+) tokens and does not fit into the context of 9: .* Raise it\."
    ) as e:
        check_prompt_fits(codec, 9, factory, task, "Raise it.")
    length = int(str(e.value).split(" has ")[1].split()[0])
    check_prompt_fits(codec, length + 1, factory, task, "Raise it.")
    with pytest.raises(UsageError, match=f"the context of {length}"):
        check_prompt_fits(codec, length, factory, task, "Raise it.")


def test_uninformative_episodes_are_distinguished_from_failures():
    rows = [
        ((0.0, None), "nothing was sampled"),
        ((5.0, 1.0), "every turn was a format error"),
        ((None, 1.0), "every turn was a format error"),
        ((5.0, 0.99), ""),
        ((None, None), ""),
    ]
    assert differing(lambda row: (why_barren(*row) or "").partition(":")[0].partition(",")[0], rows) == []
