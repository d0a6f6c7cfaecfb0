"""The warm start: supervised learning on solutions, once per set of settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("trl", reason="needs the [train] extra")


import torch

from agentgym.base.cache import cache_folder
from agentgym.core.env import Env
from agentgym.core.task import GeneratedTasks
from agentgym.rollout import EnvFactory
from agentgym.trainers import warm_start
from agentgym.trainers.config import load_config
from agentgym.trainers.estimate import episodes_of
from agentgym.trainers.policies import make_policy, warm_start_of
from agentgym.trainers.run_folder import PlannedRun
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.warm_start import Goal, WarmStart

pytestmark = [pytest.mark.real, pytest.mark.train]

SHAPE = TinyShape(vocabulary=320, hidden=32, layers=1, heads=2, feed_forward=64, context=256)
SETTINGS = WarmStart("guess", {"dialect": "compact"}, SHAPE, steps=2, tasks=4, batch=2, learning_rate=1e-2, seed=0)


class Steps:
    """Notes what was reported."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.last: dict[str, tuple[int, int]] = {}
        self.notes: dict[str, str] = {}

    def __call__(self, what: str, done: int, of: int, note: str = "") -> None:
        self.seen.append(what)
        self.last[what], self.notes[what] = (done, of), note


def warm_started(settings: WarmStart, progress: Steps) -> tuple[Any, Any]:
    return warm_start.warm_started(
        settings, progress, lambda model, tokenizer: make_policy(model, tokenizer, name="tiny")
    )


class Interrupted(Steps):
    """Stops the work when it reports something for the first time."""

    def __init__(self, at: str):
        super().__init__()
        self._at = at

    def __call__(self, what: str, done: int, of: int, note: str = "") -> None:
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
    assert steps.last["warm start"][0] in range(10, 200, 10)
    assert int(steps.notes["test of the warm start"].removesuffix(" solved")) >= 32
    assert {done == of for done, of in steps.last.values()} == {True}


@pytest.mark.parametrize("at", ["solving tasks", "learning a tokenizer", "warm start"])
def test_interrupted_making_leaves_nothing_behind(at: str):
    with pytest.raises(KeyboardInterrupt):
        warm_started(SETTINGS, Interrupted(at))
    assert not (cache_folder() / "tiny" / SETTINGS.key).exists()
    steps = Steps()
    warm_started(SETTINGS, steps)
    assert "warm start" in steps.seen


def test_each_task_of_a_finite_split_is_played_once(letters: type[Env], monkeypatch: pytest.MonkeyPatch):
    from letters_env import _task  # type: ignore[import-not-found]

    few = GeneratedTasks("few", _task, {"train": 3, "test": 5})
    monkeypatch.setattr(letters, "default_tasks", classmethod(lambda cls: few))
    steps = Steps()
    played = warm_start.solutions("letters_env:LettersEnv", {"dialect": "compact"}, 40, 0, steps)
    assert sorted(trajectory.task_id for trajectory in played) == [f"letters/train/{index}" for index in range(3)]
    assert steps.last["solving tasks"] == (3, 3)
    run = PlannedRun(load_config(None, {"env": "letters_env:LettersEnv", "warm_start_tasks": 40}), None, {}, None)  # type: ignore[arg-type]
    assert episodes_of(run, EnvFactory("letters_env:LettersEnv", {"dialect": "compact"})).solutions == 3


# The tiny model and its tokenizer.


@given(st.text())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_survives_the_tokenizer(tokenizer: Any, text: str):
    text = text.encode("utf-8", "ignore").decode()
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == text


def test_digits_stay_apart_so_that_numbers_can_be_copied():
    tokenizer = tiny_tokenizer(["1995 1995 1995 films of 1995"] * 50, 400)
    assert tokenizer.tokenize("1995") == ["1", "9", "9", "5"]


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), min_size=1, max_size=3))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_only_what_the_assistant_says_and_its_end_is_learned(tokenizer: Any, pairs: list[tuple[str, str]]):
    messages = [{"role": "system", "content": "Be brief."}]
    for question, answer in pairs:
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    rendered = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    learned = [i for i, m in zip(rendered["input_ids"], rendered["assistant_masks"], strict=True) if m]
    expected = [[*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id] for _, answer in pairs]
    assert learned == [i for turn in expected for i in turn]


def test_the_same_seed_gives_the_same_weights_and_leaves_global_randomness_alone(tokenizer: Any):
    before = torch.random.get_rng_state()
    first, again, other = (tiny_model(tokenizer, SHAPE, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
