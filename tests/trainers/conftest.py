"""Fixtures for tests of trainers: models that are small enough to train within a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

SENTENCES = ["I have chosen a whole number from 1 to 10. Find it.", '@guess {"number":5}', "It is higher. It is lower."]

LIBRARIES = r"(transformers|trl|torch|accelerate|peft|datasets)\b"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the deprecation warnings of libraries."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            for category in ("FutureWarning", "UserWarning", "DeprecationWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}:{LIBRARIES}"))


@pytest.fixture(autouse=True)
def _own_folder_and_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep tests that run side by side from competing for processors; tests without torch leave it unimported."""
    if (torch := sys.modules.get("torch")) is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """The tiny tokenizer, learned from a few sentences."""
    from agentgym.trainers.tiny import tiny_tokenizer

    return tiny_tokenizer(SENTENCES, 320)


@pytest.fixture
def model(tokenizer: Any) -> Any:
    """A fresh tiny model, the same every time, with weights large enough for it to prefer some tokens over others."""
    import torch

    from agentgym.trainers.tiny import TinyShape, tiny_model

    shape = TinyShape(vocabulary=320, hidden=32, layers=2, heads=2, feed_forward=64, context=512)
    fresh = tiny_model(tokenizer, shape, seed=0)
    with torch.no_grad():
        for weight in fresh.parameters():
            if weight.dim() > 1:
                weight.mul_(8)
    return fresh


@pytest.fixture
def checkpoint(model: Any, tokenizer: Any, tmp_path: Path) -> Path:
    """A folder that transformers can load."""
    folder = tmp_path / "checkpoint"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def brief_checkpoint(checkpoint: Path) -> Path:
    """`checkpoint` with many tokens that end a turn, so that a random model's turns often end within a few tokens."""
    from transformers import GenerationConfig

    GenerationConfig(eos_token_id=[*range(101, 320, 2)]).save_pretrained(checkpoint)
    return checkpoint


def _trajectory(row: int, sampled: list[list[int]], outcome: float, *, broken: bool = False) -> Any:
    """A trajectory whose turns sampled these tokens, each followed by two tokens of observation."""
    from agentgym.core.endings import Reason
    from agentgym.core.trajectory import Tokens, Trajectory, Turn

    tokens, turns = Tokens(prompt_ids=[7, 8, 9 + row]), []
    for number, ids in enumerate(sampled):
        is_last = number == len(sampled) - 1
        span = tokens.append_sampled(ids, [-1.0] * len(ids), 0)
        turns.append(Turn("said", [], {"outcome": outcome if is_last else 0.0}, 0.0, span))
        if not is_last:
            tokens.append_observed([40, 41])
    reason = Reason.INFRASTRUCTURE if broken else Reason.ANSWERED
    error = "the database is gone" if broken else None
    return Trajectory(
        f"t{row}", "env", "task", "hash", 0, "policy", [], turns=turns, reason=reason, tokens=tokens, error=error
    )


@pytest.fixture
def trajectory() -> Any:
    """Makes trajectories by hand."""
    return _trajectory


class Canned:
    """Canned rollouts: the last row of each batch solves its task, others fail in two turns."""

    def __init__(self, make: Any = None):
        self.make = make or (lambda row, rows: _trajectory(row, [[20 + row, 21], [22, 5]], float(row == rows - 1)))
        self.rows: list[list[Any]] = []

    def __call__(self, rows: Any, version: int, *, training: bool, first: int = 0) -> Any:
        from agentgym.core.task import Task
        from agentgym.rollout import Group, PlayedGroup
        from agentgym.trainers.batches import Batch

        self.rows.append(list(rows))
        played: list[PlayedGroup] = []
        for row, members in groupby(range(len(rows)), lambda number: rows[number]):
            trajectories = [self.make(number, len(rows)) for number in members]
            for trajectory in trajectories:
                trajectory.task_id, trajectory.seed = f"t/{row.index}", row.seed
            played.append(
                PlayedGroup(Group(Task(f"t/{row.index}", "train", "?"), row.seed, len(trajectories)), trajectories)
            )
        return Batch(played, played)


@pytest.fixture
def canned() -> type[Canned]:
    """Rollouts made by hand."""
    return Canned


@pytest.fixture
def trainer_of(model: Any, tokenizer: Any, tmp_path: Path) -> Any:
    """Makes a trainer of the tiny model that records the batches that it learns from."""
    from agentgym.core.task import GeneratedTasks
    from agentgym.trainers.batches import task_rows
    from agentgym.trainers.config import TrainConfig
    from agentgym.trainers.credit import Credit
    from agentgym.trainers.grpo import AgentGRPOTrainer
    from agentgym.trainers.trl_config import grpo_config

    class RecordingTrainer(AgentGRPOTrainer):
        def complete_batch(self, batch: Any, rows: Any) -> None:
            super().complete_batch(batch, rows)
            self.batches = [*getattr(self, "batches", []), {**batch, "rows": list(rows)}]

    def make(rollouts: Any, credit: Any = None, on_scores: Any = None, **settings: Any) -> Any:
        settings = {"steps": 1, "groups": 2, "group_size": 4, "updates_per_step": 1, "report_to": []} | settings
        config = TrainConfig(env="guess", output_dir=str(tmp_path / "run"), **settings)
        tasks = GeneratedTasks("none", lambda split, index: None, {"train": None})  # type: ignore[arg-type, return-value]
        return RecordingTrainer(
            model=model,
            args=grpo_config(config, world_size=1, use_cpu=True),
            processing_class=tokenizer,
            train_dataset=task_rows(tasks, config.steps * config.groups, config.seed),
            rollouts=rollouts,
            credit=credit or Credit(),
            max_staleness=config.max_staleness,
            on_scores=on_scores,
        )

    return make


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The environment of `letters_env.py`, importable as `letters_env:LettersEnv`, here and in child processes."""
    folder = str(Path(__file__).parent)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))
    from letters_env import LettersEnv  # type: ignore[import-not-found]

    LettersEnv.started.clear()
    return LettersEnv


SMALL: dict[str, Any] = {
    "env": "letters_env:LettersEnv", "steps": 4, "groups": 2, "group_size": 4, "updates_per_step": 2, "context": 256,
    "max_new_tokens": 4, "learning_rate": 1e-2, "warmup_steps": 0, "eval_tasks": 3, "eval_attempts": 2, "save_every": 1,
    "keep_checkpoints": 10, "report_to": [], "ahead": 0,
    # All weights in full precision: with few steps, adapters would hardly move.
    "lora_rank": 0, "bf16": False, "gradient_checkpointing": False,
}  # fmt: skip


@pytest.fixture
def small(letters: Any, brief_checkpoint: Path) -> Any:
    """Makes the configuration of a run that takes a second."""
    from agentgym.trainers.config import load_config

    return lambda **settings: load_config(None, {**SMALL, "model": str(brief_checkpoint), **settings})


def _sampled_from(model_folder: Path, trajectories: Path) -> float:
    """Return the largest difference between recorded log-probabilities and those of a saved model."""
    import torch
    from transformers import AutoModelForCausalLM

    from agentgym.core.trajectory import read_jsonl

    model, gaps = AutoModelForCausalLM.from_pretrained(model_folder), []
    for recorded in read_jsonl(trajectories):
        tokens = recorded.tokens
        assert tokens is not None
        ids = torch.tensor([tokens.prompt_ids + tokens.completion_ids])
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(input_ids=ids).logits[0, len(tokens.prompt_ids) - 1 : -1], dim=-1)
        expected = logprobs.gather(1, torch.tensor(tokens.completion_ids)[:, None])[:, 0]
        gap = (expected - torch.tensor(tokens.logprobs)).abs()
        gaps.append(gap[torch.tensor(tokens.loss_mask, dtype=torch.bool)].max().item())
    return max(gaps)


@pytest.fixture
def sampled_from() -> Any:
    """Measures how far recorded log-probabilities are from those of a saved model."""
    return _sampled_from
