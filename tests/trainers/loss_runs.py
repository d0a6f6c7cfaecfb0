"""Steps of the trainer on the episodes of `reference_loss`: the gradient of each update, and the weights that it had.

python -m torch.distributed.run --standalone --nproc_per_node 2 -m tests.trainers.loss_runs CASES OUT
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers import AutoModelForCausalLM, TrainerCallback

from agentgym.core.endings import Reason
from agentgym.core.rewards import Gate, Scheme
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.trajectory import Tokens, Trajectory, Turn
from agentgym.rollout import Group, PlayedGroup
from agentgym.trainers import ranks
from agentgym.trainers.batches import Batch, task_rows
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.grpo import AgentGRPOTrainer
from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer
from agentgym.trainers.trl_config import credit_of, grpo_config
from tests.trainers.reference_loss import (
    GROUPS,
    OBSERVED,
    OPENS_AT,
    SIZE,
    STEP_WEIGHT,
    Episode,
    Settings,
    episodes,
    scores,
)
from tests.waiting import HANG_S

SCHEME = Scheme(
    {"outcome": 1.0, "step": STEP_WEIGHT}, gates=(Gate("outcome", OPENS_AT, ("step",)),), allow_unsound=True
)
SHUFFLED = 7
"""Multiplying a position by it, modulo the rows, gives the order of the rows in a step with several updates."""


@dataclass(frozen=True)
class Case:
    """A step to run: the loss, and everything that must not change its gradient."""

    settings: Settings = field(default_factory=Settings)
    micro_batch: int | None = None
    epochs_per_step: int = 1
    common: int = 3
    """Tokens that all prompts begin with."""
    flat: tuple[int, ...] = (1,)
    """Groups without a difference."""

    @property
    def batch(self) -> list[Episode]:
        """Its episodes."""
        return episodes(self.common, self.flat)

    def update(self, number: int, processes: int) -> list[int]:
        """Return the positions of the episodes that an update learns from, all processes together."""
        updates = self.settings.updates_per_step
        count = GROUPS * SIZE // processes
        order = list(range(count)) if updates == 1 else [SHUFFLED * place % count for place in range(count)]
        share = count // updates
        own = order[number % updates * share :][:share]
        return [process * count + place for process in range(processes) for place in own]


@dataclass(frozen=True)
class Update:
    """An update as it happened."""

    gradient: torch.Tensor
    weights: dict[str, torch.Tensor]
    """The weights that it changed."""


def fresh_model() -> Any:
    """Return a model with a few thousand weights, large enough for it to prefer some tokens over others."""
    tokenizer = tiny_tokenizer(["a b c"], 300)
    model = tiny_model(tokenizer, TinyShape(hidden=16, layers=2, heads=2, feed_forward=32, context=256), seed=0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(20)
    return model


def trajectory(number: int, episode: Episode, model: Any, temperature: float) -> Trajectory:
    """Return an episode as the engine would return it, sampled by a model."""
    with torch.no_grad():
        logprobs = scores(model, episode, temperature)[0].tolist()
    tokens, turns = Tokens(prompt_ids=list(episode.prompt)), []
    last = len(episode.sampled) - 1
    for turn, ids in enumerate(episode.sampled):
        at = len(tokens.completion_ids)
        span = tokens.append_sampled(list(ids), logprobs[at : at + len(ids)], 0)
        rewards = {"step": episode.steps[turn], "outcome": episode.outcome if turn == last else 0.0}
        turns.append(
            Turn("said", [], rewards, 0.0, span, finish="length" if episode.truncated and turn == last else None)
        )
        if turn < last:
            tokens.append_observed(list(OBSERVED))
    reason = Reason.INFRASTRUCTURE if episode.failed else Reason.TOKEN_BUDGET if episode.truncated else Reason.ANSWERED
    error = "the database is gone" if episode.failed else None
    task = f"t/{episode.group}"
    return Trajectory(
        f"e{number}", "env", task, "hash", 0, "p", [], turns=turns, reason=reason, tokens=tokens, error=error
    )


def run(case: Case, folder: Path) -> list[Update]:
    """Return the updates of a step on this process's share of a case's episodes.

    `folder` holds a model in `start`, where TRL finds the reference of the KL penalty.
    """
    settings, batch = case.settings, case.batch
    model: Any = AutoModelForCausalLM.from_pretrained(folder / "start")
    config = TrainConfig(
        env="guess", output_dir=str(folder / "run"), steps=1, groups=GROUPS, group_size=SIZE, warmup_steps=0,
        learning_rate=0.02, max_grad_norm=1e9, report_to=[], micro_batch=case.micro_batch,
        epochs_per_step=case.epochs_per_step, **asdict(settings),
    )  # fmt: skip
    start = copy.deepcopy(model)

    def rollouts(rows: Sequence[Any], step: int, *, training: bool, first: int = 0) -> Batch:
        own = [trajectory(n, batch[n], start, settings.temperature) for n in range(first, first + len(rows))]
        played = [PlayedGroup(Group(Task(t.task_id, "train", "?"), 0, 1), [t]) for t in own]
        return Batch(played, played)

    tasks = GeneratedTasks("none", lambda split, index: None, {"train": None})  # type: ignore[arg-type, return-value]
    trainer = AgentGRPOTrainer(
        model=model,
        args=grpo_config(config, world_size=ranks.world_size(), use_cpu=True),
        processing_class=tiny_tokenizer(["a b c"], 300),
        train_dataset=task_rows(tasks, config.groups, 0),
        rollouts=rollouts,
        credit=credit_of(config, SCHEME),
    )
    updates: list[Update] = []
    trainer.add_callback(_Recorder(model, updates))
    order = torch.arange(len(batch) // ranks.world_size())
    with mock.patch("torch.randperm", lambda count: order * SHUFFLED % count):
        trainer.train()
    return updates


class _Recorder(TrainerCallback):
    def __init__(self, model: Any, updates: list[Update]):
        self._model, self._updates = model, updates

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        gradient = torch.cat([weight.grad.flatten() for weight in self._model.parameters()])
        weights = {name: value.clone() for name, value in self._model.state_dict().items()}
        self._updates.append(Update(gradient, weights))


def main() -> None:
    plain, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    cases = [Case(**{**values, "settings": Settings(**values["settings"])}) for values in plain]
    state = ranks.join(HANG_S)
    results = [[vars(update) for update in run(case, out)] for case in cases]
    if state.is_main_process:
        torch.save(results, out / "updates.pt")


if __name__ == "__main__":
    main()
