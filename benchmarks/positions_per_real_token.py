"""Positions that a decoder computes to learn from a step of `sql`, per token of the rows that it computes.

"before" divides a batch as TRL does, in rows as they come and as wide as the longest of all; "after" is the trainer.
Both learn from the same episodes: those of a step of the recipe `sql`, played by the tiny model after a shortened warm
start, and episodes drawn with lengths as in the recipe `sql-smollm2` (up to 768 tokens). Outcomes are drawn too, such
that a third of the groups has no difference. Without `prefix`, rows do not share their common beginning, as with
several processes or gradient checkpointing.

    python -m benchmarks.positions_per_real_token --folder runs/positions
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from trl import GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

from agentgym.core.endings import Reason
from agentgym.core.task import Task
from agentgym.core.trajectory import Tokens, Trajectory, Turn, read_jsonl
from agentgym.rollout import Group, PlayedGroup
from agentgym.trainers.batches import Batch, task_rows
from agentgym.trainers.config import TrainConfig, load_config
from agentgym.trainers.credit import group_numbers
from agentgym.trainers.grpo import AgentGRPOTrainer
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.trl_config import credit_of, env_factory, grpo_config, probe
from benchmarks._report import Claim, argument_parser, write

NAME = "positions_per_real_token"
GOAL = 1.7
WARM_START = {"warm_start_steps": 20, "warm_start_tasks": 200}
ONE_STEP = {"steps": 1, "eval_tasks": 1, "eval_attempts": 1, "record_groups": "null"}


class Trimmed(AgentGRPOTrainer):
    """Notes which rows it computes."""

    needed: Sequence[bool] = ()

    def complete_batch(self, batch: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        super().complete_batch(batch, rows)
        self.needed = batch["needed"].tolist()


class AsTRL(AgentGRPOTrainer):
    """Divides a batch, and scores it before learning, as TRL does."""

    _prepare_inputs = GRPOTrainer._prepare_inputs
    _get_per_token_logps_and_entropies = GRPOTrainer._get_per_token_logps_and_entropies


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the rollouts are kept")
    options = parser.parse_args()
    episodes = {"sql": played(options.folder), "sql-smollm2": drawn(load_config("sql-smollm2"))}
    rows = [row for recipe, trajectories in episodes.items() for row in measured(recipe, trajectories)]
    after = [row for row in rows if row["name"] == "after"]
    claims = [
        Claim(f"{row['recipe']}{'_prefix' * row['prefix']}_{kind}_per_token", row[f"{kind}_per_token"], "<=", GOAL)
        for row in after
        for kind in ("loss", "old")
        if row[f"{kind}_positions"]
    ]
    write(NAME, rows, claims, packages=("torch", "trl", "transformers"))


def played(folder: Path) -> list[Trajectory]:
    """Return the episodes of the first step of `sql`."""
    if not (folder / "trajectories.jsonl").is_file():
        settings = {"recipe": "sql", "output_dir": folder, **ONE_STEP, **WARM_START}
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        subprocess.run([sys.executable, "-m", "agentgym", "train", *flags], check=True)
    trajectories = [trajectory for trajectory in read_jsonl(folder / "trajectories.jsonl") if trajectory.model_turns]
    draw, groups = random.Random(0), group_numbers(trajectories)
    for trajectory, group in zip(trajectories, groups, strict=True):
        for turn in trajectory.turns:
            turn.rewards.clear()
        trajectory.turns[-1].rewards["outcome"] = float(group % 3 == 0 or draw.random() < 0.5)
    return trajectories


def drawn(config: TrainConfig) -> list[Trajectory]:
    """Return a step of episodes with drawn lengths."""
    draw = random.Random(0)
    common = [draw.randrange(256) for _ in range(130)]
    trajectories = []
    for group in range(config.groups):
        prompt = common + [draw.randrange(256) for _ in range(draw.randrange(40, 120))]
        for member in range(config.group_size):
            tokens, turns = Tokens(prompt_ids=prompt), []
            for number in range(draw.choice([1, 1, 2, 2, 3, 4, 6])):
                ids = [draw.randrange(256) for _ in range(draw.randrange(15, config.max_new_tokens))]
                observed = [draw.randrange(256) for _ in range(draw.randrange(10, 90))] if number else []
                if len(tokens) + len(observed) + len(ids) > config.context:
                    break
                tokens.append_observed(observed)
                turns.append(Turn("", [], {}, 0.0, tokens.append_sampled(ids, [0.0] * len(ids), 0)))
            turns[-1].rewards["outcome"] = float(group % 3 == 0 or draw.random() < 0.5)
            trajectories.append(
                Trajectory(
                    f"{group}-{member}", "sql", f"t/{group}", "", 0, "drawn", [], turns=turns, reason=Reason.ANSWERED,
                    tokens=tokens,
                )
            )  # fmt: skip
    return trajectories


def measured(recipe: str, trajectories: Sequence[Trajectory]) -> Iterator[dict[str, Any]]:
    """Yield the counts of both ways to divide the batch, with and without shared prefixes."""
    config = load_config(recipe, {"report_to": [], "bf16": False, "lora_rank": 0, "track_kl": False})
    for prefix, (name, kind) in product((False, True), (("before", AsTRL), ("after", Trimmed))):
        row = {"recipe": recipe, "prefix": prefix, "name": name, **counted(kind, config, trajectories, prefix)}
        print(row, file=sys.stderr)
        yield row


def counted(kind: Any, config: TrainConfig, trajectories: Sequence[Trajectory], prefix: bool) -> dict[str, Any]:
    """Learn from the trajectories with a small model of random weights; return the positions that it computed."""
    ids = 1 + max(max(t.tokens.prompt_ids + t.tokens.completion_ids) for t in trajectories if t.tokens)
    tokenizer = tiny_tokenizer(["a b c"], 300)
    tokenizer.add_tokens([f"token {number}" for number in range(ids - len(tokenizer))])
    model = tiny_model(tokenizer, TinyShape(hidden=32, layers=2, heads=2, feed_forward=64, context=4096), seed=0)
    positions: Counter[str] = Counter()

    def count(module: Any, args: Any) -> None:
        positions["loss" if torch.is_grad_enabled() else "old"] += args[0].shape[0] * args[0].shape[1]

    model.base_model.layers[0].register_forward_pre_hook(count)
    trainer, seconds = learned(kind, config, trajectories, model, tokenizer, prefix)
    needed = trainer.needed if kind is Trimmed else [True] * len(trajectories)
    real = sum(len(t.tokens) for t, is_needed in zip(trajectories, needed, strict=True) if t.tokens and is_needed)
    return {
        "rows": len(trajectories),
        "rows_computed": sum(needed),
        "tokens": sum(len(t.tokens) for t in trajectories if t.tokens),
        "tokens_of_rows_computed": real,
        **{f"{name}_positions": positions[name] for name in ("loss", "old")},
        **{f"{name}_per_token": round(positions[name] / real, 3) for name in ("loss", "old")},
        "seconds": round(seconds, 2),
    }


def learned(
    kind: Any, config: TrainConfig, trajectories: Sequence[Trajectory], model: Any, tokenizer: Any, prefix: bool
) -> tuple[Any, float]:
    """Return the trainer after a step on the trajectories, and the step's seconds."""
    groups = [PlayedGroup(Group(Task(t.task_id, "train", "?"), t.seed or 0, 1), [t]) for t in trajectories]
    source, scheme = probe(env_factory(config))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if not prefix:
            stack.enter_context(mock.patch("agentgym.trainers.grpo.share_prefixes"))
        trainer = kind(
            model=model,
            args=grpo_config(replace(config, steps=1, output_dir=folder), world_size=1, use_cpu=True),
            processing_class=tokenizer,
            train_dataset=task_rows(source, config.groups, config.seed),
            rollouts=lambda rows, step, *, training, first=0: Batch(groups, groups),
            credit=credit_of(config, scheme),
        )
        began = time.perf_counter()
        trainer.train()
        return trainer, time.perf_counter() - began


if __name__ == "__main__":
    main()
