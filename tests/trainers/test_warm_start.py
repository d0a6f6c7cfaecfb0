"""The warm start: supervised learning on solutions, once per set of settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.base.cache import cache_folder
from agentgym.base.errors import UsageError
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.registry import register
from agentgym.core.task import Task
from agentgym.envs.guess import GuessEnv
from agentgym.trainers import warm_start
from agentgym.trainers.config import load_config
from agentgym.trainers.policies import make_policy, warm_start_of
from agentgym.trainers.tiny import TinyShape
from agentgym.trainers.warm_start import Goal, WarmStart, solutions

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


def test_only_what_the_assistant_says_is_learned():
    """Afterwards the model expects the solution's words, and the prompt's no more than one that knows nothing."""
    settings = replace(SETTINGS, steps=30, tasks=16, batch=4)
    model, tokenizer = warm_started(settings, Steps())
    [solved] = solutions("guess", settings.env_kwargs, 1, 1, Steps())
    messages = [{"role": m.get("role"), "content": text_of(m)} for m in solved.messages]
    rendered = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    ids = torch.tensor([rendered["input_ids"]])
    with torch.inference_mode():
        logprobs = torch.log_softmax(model(input_ids=ids).logits[0, :-1], dim=-1).gather(1, ids[0, 1:, None])[:, 0]
    of_assistant = torch.tensor(rendered["assistant_masks"][1:], dtype=torch.bool)
    assert -logprobs[of_assistant].mean() < 2
    assert -logprobs[~of_assistant].mean() > 4


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


class HopelessEnv(GuessEnv):
    """An environment whose solution does not solve its tasks."""

    max_turns = 1

    def solution(self, task: Task) -> Solution:
        yield ToolCall("guess", {"number": task.gold["number"] % 10 + 1})


def test_a_solution_that_does_not_solve_its_task_is_reported():
    register("tests/hopeless-v0", HopelessEnv)
    with pytest.raises(UsageError, match=r"solution\(\) does not solve"):
        solutions("tests/hopeless-v0", {"dialect": "compact"}, 3, 0, Steps())
