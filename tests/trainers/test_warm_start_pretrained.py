"""The warm start of pretrained models: from solutions, recordings, or their own successes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.base.errors import UsageError
from agentgym.core.env import Env
from agentgym.core.trajectory import Trajectory, write_jsonl
from agentgym.envs.guess import GuessEnv
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.config import TrainConfig, load_config
from agentgym.trainers.policies import load_checkpoint, load_model, make_policy, warm_start_of
from agentgym.trainers.warm_start.examples import NO_LOSS, examples, rendered
from agentgym.trainers.warm_start.making import recorded, solutions, successes
from agentgym.trainers.warm_start.settings import no_progress
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

GUESS = {"dialect": "compact"}


class Reports:
    """Notes what was reported; can interrupt like Ctrl-C."""

    def __init__(self, stop_at: int | None = None):
        self.steps: list[int] = []
        self.seen: dict[str, int] = {}
        self._stop_at = stop_at

    def __call__(self, what: str, done: int, of: int, note: str = "") -> None:
        self.seen[what] = done
        if what == "warm start":
            self.steps.append(done)
            if done == self._stop_at:
                raise KeyboardInterrupt


@pytest.fixture
def run(checkpoint: Path) -> Any:
    """Makes the configuration of a run that starts from the small checkpoint."""
    small = {
        "env": "guess", "model": str(checkpoint), "dialect": "compact", "context": 256, "bf16": False, "lora_rank": 4,
        "lora_alpha": 8, "gradient_checkpointing": False, "max_new_tokens": 4, "warm_start_steps": 2,
        "warm_start_tasks": 4, "warm_start_batch": 2,
    }  # fmt: skip
    return lambda **settings: load_config(None, small | settings)


def solved(count: int = 3) -> list[Trajectory]:
    return solutions("guess", GUESS, count, 1, no_progress)


def same(first: Any, other: Any) -> bool:
    mine, theirs = first.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_exactly_what_the_assistant_says_carries_loss_in_the_conversation(tokenizer: Any):
    for trajectory in solved():
        [example] = examples([rendered(trajectory, ChatCodec(tokenizer))], 1000)
        learned = [i for i in example.labels if i != NO_LOSS]
        last = trajectory.model_turns[-1].observation
        messages = trajectory.messages[: len(trajectory.messages) - len(last)]
        assert example.input_ids == tokenizer.apply_chat_template(messages, return_dict=False)
        texts = [str(turn.action) for turn in trajectory.model_turns]
        assert tokenizer.decode(learned) == "".join(text + tokenizer.eos_token for text in texts)
        assert all(label in (NO_LOSS, i) for i, label in zip(example.input_ids, example.labels, strict=True))


@each_row("rank", [0, 4])
def test_a_model_learns_with_adapters_or_all_weights_and_is_saved_whole(run: Any, checkpoint: Path, rank: int):
    start, _ = load_checkpoint(str(checkpoint), torch.float32)
    model, _ = load_model(run(lora_rank=rank), Reports())
    assert model.state_dict().keys() == start.state_dict().keys()
    assert not same(model, start)


def test_the_same_settings_share_one_model(run: Any):
    first, second = Reports(), Reports()
    learned, _ = load_model(run(), first)
    other, _ = load_model(run(learning_rate=1e-5), second)  # that of reinforcement learning
    assert first.steps == [1, 2]
    assert second.steps == []
    assert same(learned, other)


def test_another_wording_of_the_environment_makes_another_model(run: Any, monkeypatch: pytest.MonkeyPatch):
    before = warm_start_of(run())
    assert warm_start_of(run()).key == before.key
    monkeypatch.setattr(GuessEnv, "system_prompt", "Find the number.")
    assert warm_start_of(run()).key != before.key


def test_an_interrupted_warm_start_goes_on_at_its_checkpoint(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = run(warm_start_steps=16)
    with pytest.raises(KeyboardInterrupt):
        load_model(config, Reports(stop_at=7))
    resumed = Reports()
    model, _ = load_model(config, resumed)
    assert resumed.steps == list(range(7, 17))
    assert not warm_start_of(config).folder.with_name(f"{warm_start_of(config).key}.checkpoints").exists()
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "elsewhere"))
    assert same(model, load_model(config, Reports())[0])


def recordings(tmp_path: Path, trajectories: list[Trajectory]) -> str:
    path = tmp_path / "recorded.jsonl"
    write_jsonl(path, trajectories)
    return str(path)


def failed_attempts(trajectories: list[Trajectory]) -> list[Trajectory]:
    return [replace(t, turns=[replace(turn, rewards={}) for turn in t.turns]) for t in trajectories]


def test_of_recordings_successes_on_training_tasks_are_imitated(run: Any, tmp_path: Path):
    first, two, three = solved(3)
    mixed = [first, *failed_attempts([two]), replace(three, split="test")]
    config = run(warm_start_from=recordings(tmp_path, mixed))
    assert [t.task_id for t in recorded(warm_start_of(config))] == [first.task_id]
    unsolved = run(warm_start_from=config.warm_start_from, warm_start_unsolved=True)
    assert [t.task_id for t in recorded(warm_start_of(unsolved))] == [first.task_id, two.task_id]


def test_recordings_that_cannot_be_imitated_are_refused(run: Any, tmp_path: Path):
    def refused(trajectories: list[Trajectory], **settings: Any) -> str:
        config: TrainConfig = run(warm_start_from=recordings(tmp_path, trajectories), **settings)
        with pytest.raises(UsageError) as error:
            load_model(config, Reports())
        return str(error.value)

    assert "trajectory 1 was recorded in 'guess', but the run trains in" in refused(solved(), env="errand")
    assert "writes its calls in the dialect 'compact'" in refused(solved(), dialect="hermes")
    assert "none of the 3 trajectories is a success on a task of the split 'train'" in refused(
        failed_attempts(solved())
    )
    assert "record some with `agentgym eval --tasks train --out FILE`" in refused([])


@pytest.fixture
def talkative(letters: type[Env], brief_checkpoint: Path, run: Any) -> Any:
    """A run in an environment that the random model solves sometimes, from its own successes alone."""
    return run(
        env="letters_env:LettersEnv",
        warm_start_steps=0,
        warm_start_own=1,
        warm_start_own_tasks=16,
        warm_start_own_samples=4,
        warm_start_learning_rate=1e-2,
    )


def test_only_own_successes_that_differ_are_learned_from(talkative: Any, checkpoint: Path):
    settings = warm_start_of(talkative)
    model, tokenizer = load_checkpoint(str(checkpoint), torch.float32)
    own = settings.own
    assert own is not None
    conversations = successes(
        model, tokenizer, settings, own, 0, no_progress, lambda m, t: make_policy(m, t, name="toy", context=256)
    )
    assert 0 < len(conversations) < own.tasks * own.samples
    for tokens in conversations:
        last = len(tokens.loss_mask) - tokens.loss_mask[::-1].index(0) if 0 in tokens.loss_mask else 0
        assert re.match("[a-z]", tokenizer.decode(tokens.completion_ids[last:]))
    assert len({str(tokens.prompt_ids + tokens.completion_ids) for tokens in conversations}) == len(conversations)
