"""External agents: the trainer learns from the tokens that the gateway recorded, as from its own rollouts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx
import torch

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.envs.guess import GuessEnv
from agentgym.interop.served.gateway import Gateway, GatewaySettings, serving
from agentgym.rollout import Limits
from agentgym.trainers.outside import Assignment, OutsideRollouts
from agentgym.trainers.policies import make_policy
from tests.waiting import HANG_S

pytestmark = [pytest.mark.real, pytest.mark.train]
TURNS = 3


def gateway_of(model: Any, tokenizer: Any) -> Gateway:
    policy = make_policy(model, tokenizer, name="small", context=400)
    return Gateway(policy, GatewaySettings("compact", Limits(max_new_tokens=6)))


def agent(assignment: Assignment) -> None:
    """Talk to the model about the task for a few turns."""
    headers = {"Authorization": f"Bearer {assignment.session.api_key}"}
    messages: list[Any] = [{"role": "user", "content": assignment.task.prompt}]
    with httpx.Client(base_url=assignment.session.base_url, headers=headers, timeout=HANG_S, trust_env=False) as client:
        for _ in range(TURNS):
            answer = client.post("/chat/completions", json={"messages": messages})
            messages += [answer.json()["choices"][0]["message"], {"role": "user", "content": "It is higher."}]


def recorded(assignment: Assignment, outcome: float) -> Trajectory:
    """The environment's record of an agent that only talks."""
    task, turns = assignment.task, [Turn(None, [], {"outcome": outcome}, outcome)]
    reason, split = Reason.GAVE_UP, task.split
    return Trajectory(
        "x", "guess", task.id, task.hash, assignment.seed, "agent", [], turns=turns, reason=reason, split=split
    )


def play(assignments: Sequence[Assignment]) -> list[Trajectory | None]:
    """All agents at the same time; the last one of each four solves its task."""
    with ThreadPoolExecutor(len(assignments)) as pool:
        list(pool.map(agent, assignments))
    return [recorded(assignment, float(number % 4 == 3)) for number, assignment in enumerate(assignments)]


def test_the_trainer_learns_from_what_agents_did(model: Any, tokenizer: Any, trainer_of: Any):
    """Recorded log-probabilities are those of a forward pass of the weights before training."""
    before = copy.deepcopy(model).eval()
    gateway = gateway_of(model, tokenizer)
    with serving(gateway):
        rollouts = OutsideRollouts(gateway, GuessEnv.default_tasks(), play, env_id="guess")
        trainer = trainer_of(rollouts, learning_rate=1e-3, warmup_steps=0)
        trainer.train()
    [batch] = trainer.batches
    rows = [row["trajectory"] for row in batch["rows"]]
    assert [row.outcome for row in rows] == [0.0, 0.0, 0.0, 1.0] * 2
    assert [len({(row.task_id, row.seed) for row in rows[at : at + 4]}) for at in (0, 4)] == [1, 1]
    for number, row in enumerate(rows):
        tokens, sampled = row.tokens, torch.tensor(row.tokens.loss_mask).bool()
        advantages = batch["advantages"][number, : len(sampled)]
        assert (advantages[sampled] > 0).all() == (number % 4 == 3)
        assert not advantages[~sampled].any()
        with torch.inference_mode():
            logits = before(input_ids=torch.tensor([tokens.prompt_ids + tokens.completion_ids])).logits[0]
        plain = torch.log_softmax(logits.float(), dim=-1)[len(tokens.prompt_ids) - 1 : -1]
        expected = plain.gather(1, torch.tensor(tokens.completion_ids)[:, None])[:, 0]
        assert torch.tensor(tokens.logprobs)[sampled].tolist() == pytest.approx(expected[sampled].tolist(), abs=1e-4)
        assert len(row.model_turns) == TURNS
        assert set(tokens.versions) == {0, -1}
    assert any(not torch.equal(old, new) for old, new in zip(before.parameters(), model.parameters(), strict=True))


def test_an_agent_without_record_or_call_has_failed_and_teaches_nothing(model: Any, tokenizer: Any, trainer_of: Any):
    def some(assignments: Sequence[Assignment]) -> list[Trajectory | None]:
        records = play(assignments[:-1])
        return [None, *records[1:], recorded(assignments[-1], 1.0)]

    gateway = gateway_of(model, tokenizer)
    with serving(gateway):
        trainer = trainer_of(OutsideRollouts(gateway, GuessEnv.default_tasks(), some, env_id="guess"))
        trainer.train()
        nobody = OutsideRollouts(gateway, GuessEnv.default_tasks(), lambda all: [None] * len(all), env_id="guess")
        with pytest.raises(InfrastructureError, match="all 8 episodes"):
            trainer_of(nobody).train()
    [batch] = trainer.batches
    rows = [row["trajectory"] for row in batch["rows"]]
    assert [row.failed for row in rows] == [True, *[False] * 6, True]
    assert [row.error for row in rows if row.failed] == ["the agent has no record", "the agent has called no model"]
    mask = batch["completion_mask"] * batch["tool_mask"]
    assert not mask[0].any()
    assert not mask[7].any()
