"""Models with random weights and trajectories without an environment, for measurements of the trainer alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from agentgym.core.endings import Reason
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.trajectory import Tokens, Trajectory, Turn
from agentgym.rollout import Group, PlayedGroup
from agentgym.trainers.batches import Batch, TaskRow, task_rows
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.cost.shapes import ModelShape, shape_named
from agentgym.trainers.credit import Credit
from agentgym.trainers.dry_run import shape_config
from agentgym.trainers.grpo import AgentGRPOTrainer
from agentgym.trainers.tiny import tiny_tokenizer
from agentgym.trainers.trl_config import grpo_config, peft_config

TINY = ModelShape("qwen3", 512, 64, 2, 2, 1, 32, 128, tied=True, positions=4096)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def shape(tiny: bool, layers: int | None = None) -> ModelShape:
    """Return the shape of Qwen3-1.7B, or a tiny one; with `layers`, the large one has so many."""
    whole = TINY if tiny else shape_named("Qwen3-1.7B")
    return whole if layers is None or tiny else replace(whole, layers=layers)


def random_model(of: ModelShape, dtype: torch.dtype = torch.bfloat16) -> Any:
    """Return a model with random weights on the device, made there."""
    torch.manual_seed(0)
    with torch.device(DEVICE):
        return AutoModelForCausalLM.from_config(shape_config(of), dtype=dtype)


def tokenizer() -> Any:
    """Return a small tokenizer."""
    return tiny_tokenizer(["What is the total? It is 1, 2 or 3."], 320)


class DrawnRollouts:
    """Trajectories of random tokens: two turns in each, and every second one solves its task.

    Args:
        lengths: Tokens of the trajectories, the prompt included, used in turns.
        vocabulary: Number of tokens to draw from.
    """

    def __init__(self, lengths: Sequence[int], vocabulary: int):
        self._lengths, self._vocabulary = lengths, vocabulary

    def __call__(self, rows: Sequence[TaskRow], step: int, *, training: bool, first: int = 0) -> Batch:
        played: list[PlayedGroup] = []
        for row, members in groupby(range(len(rows)), lambda number: rows[number]):
            numbers = list(members)
            task = Task(f"t/{row.index}", "train", "?")
            trajectories = [self._trajectory(task, row, number) for number in numbers]
            played.append(PlayedGroup(Group(task, row.seed, len(numbers)), trajectories))
        return Batch(played, played)

    def _trajectory(self, task: Task, row: TaskRow, number: int) -> Trajectory:
        draw = random.Random(f"{row.index}/{number}")
        length = self._lengths[number % len(self._lengths)]
        prompt, observed = length // 4, length // 4
        sampled = (length - prompt - observed) // 2
        tokens = Tokens(prompt_ids=self._ids(draw, prompt))
        first = tokens.append_sampled(self._ids(draw, sampled), [-6.0] * sampled, 0)
        tokens.append_observed(self._ids(draw, observed))
        second = tokens.append_sampled(self._ids(draw, sampled), [-6.0] * sampled, 0)
        outcome = float(number % 2)
        turns = [Turn("sampled", [], {"outcome": 0.0}, 0.0, first), Turn("said", [], {"outcome": outcome}, 0.0, second)]
        details: dict[str, Any] = {"turns": turns, "reason": Reason.ANSWERED, "tokens": tokens}
        return Trajectory(f"t{number}", "env", task.id, "hash", row.seed, "policy", [], **details)

    def _ids(self, draw: random.Random, count: int) -> list[int]:
        return [draw.randrange(1, min(300, self._vocabulary)) for _ in range(count)]


def trainer(model: Any, lengths: Sequence[int], folder: Path, **settings: Any) -> AgentGRPOTrainer:
    """Return a trainer that learns from drawn trajectories, one group of them in each step."""
    values: dict[str, Any] = {
        **{"env": "guess", "model": "none", "output_dir": str(folder), "steps": 3, "groups": 1, "report_to": []},
        **{"group_size": len(lengths), "updates_per_step": 1, "context": max(lengths), "save_every": 1000},
        **{"lora_rank": 32, "lora_alpha": 64, "bf16": True, "gradient_checkpointing": True, **settings},
    }
    config = TrainConfig(**values)
    tasks = GeneratedTasks("none", lambda split, index: None, {"train": None})  # type: ignore[arg-type, return-value]
    return AgentGRPOTrainer(
        model=model,
        args=grpo_config(config, world_size=1, use_cpu=DEVICE == "cpu"),
        processing_class=tokenizer(),
        train_dataset=task_rows(tasks, config.steps * config.groups, config.seed),
        peft_config=peft_config(config),
        rollouts=DrawnRollouts(lengths, model.config.vocab_size),
        credit=Credit(),
    )
