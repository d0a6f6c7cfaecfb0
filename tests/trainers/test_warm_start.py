"""The warm start: supervised learning on solutions, once per set of settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")


from agentgym.base.cache import cache_folder
from agentgym.core.env import Env
from agentgym.trainers import warm_start
from agentgym.trainers.config import load_config
from agentgym.trainers.policies import make_policy, warm_start_of
from agentgym.trainers.tiny import TinyShape
from agentgym.trainers.warm_start import Goal, WarmStart

pytestmark = [pytest.mark.real, pytest.mark.train]

SETTINGS = WarmStart(
    env="guess",
    env_kwargs={"dialect": "compact"},
    shape=TinyShape(vocabulary=320, hidden=32, layers=1, heads=2, feed_forward=64, context=256),
    steps=2,
    tasks=4,
    batch=2,
    learning_rate=1e-2,
    seed=0,
)


class Steps:
    """Notes what was reported."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.last: dict[str, int] = {}

    def __call__(self, what: str, done: int, of: int) -> None:
        self.seen.append(what)
        self.last[what] = done


def warm_started(settings: WarmStart, progress: Steps) -> tuple[Any, Any]:
    return warm_start.warm_started(
        settings, progress, lambda model, tokenizer: make_policy(model, tokenizer, name="tiny")
    )


class Interrupted(Steps):
    """Stops the work when it reports something for the first time."""

    def __init__(self, at: str):
        super().__init__()
        self._at = at

    def __call__(self, what: str, done: int, of: int) -> None:
        if what == self._at:
            raise KeyboardInterrupt


def test_runs_that_differ_in_their_scheme_start_from_one_model():
    keys = {
        warm_start_of(load_config("errand", {"env_kwargs": {"difficulty": 1, **more}})).key
        for more in ({}, {"scheme": "d_ra"}, {"scheme": "outcome"})
    }
    assert len(keys) == 1
    other = load_config("errand", {"env_kwargs": {"difficulty": 2}})
    assert warm_start_of(other).key not in keys


def test_a_warm_start_ends_at_its_goal(letters: type[Env]):
    """A random model begins some of its messages with a letter, and after ten steps most."""
    settings = replace(SETTINGS, env="letters_env:LettersEnv", steps=300, tasks=16, batch=4)
    steps = Steps()
    warm_started(replace(settings, goal=Goal(0.5, max_new_tokens=4, temperature=1.0)), steps)
    assert steps.last["solved after the warm start"] >= 32
    assert steps.last["warm start"] in range(10, 200, 10)


@pytest.mark.parametrize("at", ["solving tasks", "learning a tokenizer", "warm start"])
def test_interrupted_making_leaves_nothing_behind(at: str):
    with pytest.raises(KeyboardInterrupt):
        warm_started(SETTINGS, Interrupted(at))
    assert not (cache_folder() / "tiny" / SETTINGS.key).exists()
    steps = Steps()
    warm_started(SETTINGS, steps)
    assert "warm start" in steps.seen
