"""An update learns from exactly the groups of its step; its gradient is that of the loss of each episode alone."""

from __future__ import annotations

from pathlib import Path
from queue import Queue
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

import torch
from transformers import AutoModelForCausalLM, TrainerCallback

from agentgym.core.task import Task
from agentgym.rollout import Group, PlayedGroup
from agentgym.trainers.asynchronous.playing import Played
from agentgym.trainers.asynchronous.settings import async_config
from agentgym.trainers.asynchronous.trainer import AgentAsyncTrainer, StepSettings
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.credit import Credit, CreditMode, group_numbers
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train, pytest.mark.filterwarnings("ignore")]


class NoTransfer:
    """Leaves the weights where they are."""

    def init_weight_transfer(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def destroy(self) -> None: ...
    def send_weights(self, iterator: Any) -> None:
        for _ in iterator:
            pass


class HandMade:
    """A worker whose groups are made by hand."""

    def __init__(self, groups: list[Played]):
        self.groups, self.versions = groups, []

    rollout_buffer, metrics_queue = None, Queue()

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def check_health(self, stale_after_s: float) -> None: ...
    def update_model_version(self, version: int) -> None:
        self.versions.append(version)

    def take(self, count: int) -> list[Played]:
        taken, self.groups = self.groups[:count], self.groups[count:]
        return taken


class Gradients(TrainerCallback):
    """Keeps the gradient of the first update."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.kept = torch.cat([weight.grad.flatten() for weight in kwargs["model"].parameters()])


def groups_of(make: Any, credit: Credit) -> list[Played]:
    """Three groups: of one, two and three turns; with a failed episode; and without differences."""
    made = [
        [make(0, [[20, 21]], 1.0), make(1, [[22], [23, 24, 25]], 0.0), make(2, [[26], [27], [28, 29]], 0.5)],
        [make(3, [[30, 31], [32]], 1.0), make(4, [[33]], 0.0, broken=True), make(5, [[34], [35]], 0.0)],
        [make(6, [[36]], 1.0), make(7, [[37], [38, 39]], 1.0)],
    ]
    played = []
    for number, trajectories in enumerate(made):
        for attempt, trajectory in enumerate(trajectories):
            trajectory.task_id, trajectory.seed = f"t/{number}", number
            for turn in trajectory.turns:  # so that turns differ
                turn.rewards["step"] = attempt / 4
        numbers = group_numbers(trajectories)
        group = PlayedGroup(Group(Task(f"t/{number}", "train", "?"), number, len(trajectories)), trajectories)
        credited = credit.advantages(trajectories, numbers), credit.trained_turns(trajectories, numbers)
        played.append(Played(number, group, *credited))
    return played


def reference(folder: Path, groups: list[Played], loss: str, longest: int) -> torch.Tensor:
    """The gradient of the loss, from a forward pass over each episode alone."""
    model, total, sampled, episodes = AutoModelForCausalLM.from_pretrained(folder), torch.zeros(()), 0, 0
    for played in groups:
        for trajectory, advantages in zip(played.group.trajectories, played.advantages, strict=True):
            if trajectory.failed:
                continue
            tokens: Any = trajectory.tokens
            ids = torch.tensor([tokens.prompt_ids + tokens.completion_ids])
            logprobs = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
            own = logprobs[len(tokens.prompt_ids) - 1 :]
            terms = []
            spans: list[Any] = [turn.span for turn in trajectory.model_turns]
            for span, advantage in zip(spans, advantages, strict=True):
                ratio = (own[slice(*span)] + 1.0).exp()  # all were sampled with a log-probability of -1
                terms.append(-torch.min(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage))
            count = sum(map(len, terms))
            total = total + torch.cat(terms).sum() / (count if loss == "grpo" else 1)
            sampled, episodes = sampled + count, episodes + 1
    (total / {"dapo": sampled, "grpo": episodes, "dr_grpo": episodes * longest}[loss]).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


@each_row(
    ("loss", "mode", "budget"),
    [("dapo", "turn", 1000), ("dapo", "turn", 16), ("grpo", "outcome", 16), ("dr_grpo", "gated", 1000)],
)
def test_the_gradient_is_that_of_each_episode_alone(
    trajectory: Any, checkpoint: Path, tokenizer: Any, tmp_path: Path, loss: str, mode: str, budget: int
):
    from agentgym.core.rewards import Scheme

    config = TrainConfig(steps=1, groups=3, group_size=3, updates_per_step=1, loss=loss, max_grad_norm=1e9, context=64,
                         max_staleness=1, output_dir=str(tmp_path), report_to=[], async_training=True)  # fmt: skip
    scheme = Scheme({"outcome": 1.0, "step": 0.5}, allow_unsound=True)
    groups = groups_of(trajectory, Credit(mode=CreditMode(mode), scheme=scheme))
    worker: Any = HandMade(groups)
    expected, kept, logged = reference(checkpoint, groups, loss, 64), Gradients(), []
    trainer = AgentAsyncTrainer(
        model=str(checkpoint), args=async_config(config, urls=["http://127.0.0.1:1"], use_cpu=True),
        processing_class=tokenizer, urls=[], adapters=None, weight_transfer=NoTransfer(),
        rollout_worker=worker, callbacks=[kept],
        settings=StepSettings(3, 0, 1, loss, 64, budget), on_step=lambda groups, metrics: logged.append(metrics),
    )  # fmt: skip
    trainer.begin_at(0)
    trainer.train()
    assert (kept.kept - expected).norm() < 1e-5 * expected.norm()
    assert worker.versions == [0, 1]
    assert logged[0]["positions_per_real_token"] < 1.15
