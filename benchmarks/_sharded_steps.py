"""Steps of the trainer in one of several processes, with whole copies (DDP) and sharded (FSDP 2); prints the results.

torchrun --nproc_per_node 2 -m benchmarks._sharded_steps --steps 5
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch

from agentgym.core.endings import Reason
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.trajectory import Tokens, Trajectory, Turn
from agentgym.rollout import Group, PlayedGroup
from agentgym.trainers import ranks
from agentgym.trainers.batches import Batch, TaskRow, task_rows
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import Credit
from agentgym.trainers.grpo import AgentGRPOTrainer
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.trl_config import grpo_config, peft_config
from benchmarks._report import argument_parser
from benchmarks._shard_on_cpu import choose, shard_on_cpus

VOCABULARY = 320
WEIGHTS = {"all weights": 0, "LoRA": 8}
"""Ranks of the adapters; 0 trains all weights."""
KINDS = ("DDP", "FSDP2")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shard_on_cpus()
    state = ranks.join(patience_s=600)
    rows = [row for weights in WEIGHTS for kind in KINDS for row in _learned(options.steps, weights, kind)]
    if state.is_main_process:
        print(json.dumps(rows))
    ranks.leave()
    torch.distributed.destroy_process_group()


def _learned(steps: int, weights: str, kind: str) -> list[dict[str, Any]]:
    """Train a tiny model; return the loss and the norm of the gradient of each step.

    Three groups of four: one of them is spread over both processes.
    """
    choose(kind)
    config = TrainConfig(
        env="guess", steps=steps, groups=3, group_size=4, updates_per_step=2, micro_batch=1, warmup_steps=0,
        learning_rate=1e-2, lora_rank=WEIGHTS[weights], output_dir="unused", report_to=[],
    )  # fmt: skip
    arguments = grpo_config(config, world_size=ranks.world_size(), use_cpu=True)
    arguments.save_strategy = "no"  # type: ignore[assignment] # a text, as on creation
    tokenizer = tiny_tokenizer(["I have chosen a whole number from 1 to 10. Find it."], VOCABULARY)
    shape = TinyShape(vocabulary=VOCABULARY, hidden=32, layers=2, heads=2, feed_forward=64, context=512)
    tasks = GeneratedTasks("none", _no_task, {"train": None})
    torch.manual_seed(0)  # adapters are random
    trainer = AgentGRPOTrainer(
        model=tiny_model(tokenizer, shape, seed=0),
        args=arguments,
        processing_class=tokenizer,
        train_dataset=task_rows(tasks, config.steps * config.groups, config.seed),
        peft_config=peft_config(config),
        rollouts=play,
        credit=Credit(),
    )
    trainer.train()
    labels = {"kind": kind, "weights": weights, "parameter": type(next(trainer.model.parameters())).__name__}
    return [
        labels | {name: line[name] for name in ("step", "loss", "grad_norm")}
        for line in trainer.state.log_history
        if "grad_norm" in line
    ]


def _no_task(split: str, index: int) -> Task:
    return Task(f"{split}/{index}", split, "?")


def play(rows: Sequence[TaskRow], step: int, *, training: bool, first: int = 0) -> Batch:
    """Return trajectories that depend on the task and the position in the whole batch alone (`Rollouts`)."""
    groups: list[PlayedGroup] = []
    for row, members in groupby(rows):
        size = len(list(members))
        trajectories = [_trajectory(row, first + number) for number in range(size)]
        groups.append(PlayedGroup(Group(_no_task("train", row.index), row.seed, size, first), trajectories))
        first += size
    return Batch(groups, groups)


def _trajectory(row: TaskRow, position: int) -> Trajectory:
    """Return one to three turns of 3 to 60 tokens each, with observations between them."""
    draw = random.Random(f"{row.index}/{row.seed}/{position}")
    tokens, turns = Tokens(prompt_ids=_ids(draw, 5, 30)), []
    for _ in range(count := draw.randint(1, 3)):
        is_last = len(turns) == count - 1
        ids = _ids(draw, 3, 60)
        span = tokens.append_sampled(ids, [-5.0] * len(ids), 0)
        rewards = {"outcome": float(draw.random() < 0.5) if is_last else 0.0}
        turns.append(Turn("said", [], rewards, 0.0, span))
        if not is_last:
            tokens.append_observed(_ids(draw, 2, 20))
    return Trajectory(
        f"t/{position}", "env", f"t/{row.index}", "hash", row.seed, "policy", [], turns=turns, reason=Reason.ANSWERED,
        tokens=tokens,
    )  # fmt: skip


def _ids(draw: random.Random, least: int, most: int) -> list[int]:
    return [draw.randrange(10, 250) for _ in range(draw.randint(least, most))]


if __name__ == "__main__":
    main()
