"""External agents: the trainer learns from the tokens that the gateway recorded, as from its own rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx
import torch

from agentgym import make
from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.policy import Generation
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.envs.guess import GuessEnv
from agentgym.interop.served.gateway import Gateway, GatewaySettings, serving
from agentgym.rollout import EnvFactory, Limits, RolloutEngine
from agentgym.rollout.jobs import Job
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.outside import Assignment, OutsideRollouts
from agentgym.trainers.policies import make_policy
from tests.chat_templates import tokenizer_of
from tests.interop.speaking import Speaker, halving
from tests.interop.test_gateway import SEED, Client, played

pytestmark = [pytest.mark.real, pytest.mark.train]
TURNS = 3
FLY = {"type": "function", "function": {"name": "fly", "description": "Fly away."}}


def gateway_of(model: Any, tokenizer: Any) -> Gateway:
    policy = make_policy(model, tokenizer, name="small", context=400)
    return Gateway(policy, GatewaySettings("compact", Limits(max_new_tokens=6)))


def agent(assignment: Assignment) -> None:
    """Talk to the model about the task for a few turns."""
    headers = {"Authorization": f"Bearer {assignment.session.api_key}"}
    messages: list[Any] = [{"role": "user", "content": assignment.task.prompt}]
    with httpx.Client(base_url=assignment.session.base_url, headers=headers, timeout=60, trust_env=False) as client:
        for _ in range(TURNS):
            answer = client.post("/chat/completions", json={"messages": messages})
            messages += [answer.json()["choices"][0]["message"], {"role": "user", "content": "It is higher."}]


def recorded(assignment: Assignment, outcome: float) -> Trajectory:
    """The environment's record of an agent that only talks."""
    end = Turn(None, [], {"outcome": outcome}, outcome)
    task = assignment.task
    return Trajectory(
        "x",
        "guess",
        task.id,
        task.hash,
        assignment.seed,
        "agent",
        [],
        turns=[end],
        reason=Reason.GAVE_UP,
        split=task.split,
    )


def play(assignments: Sequence[Assignment]) -> list[Trajectory | None]:
    """All agents at the same time; the last one of each four solves its task."""
    with ThreadPoolExecutor(len(assignments)) as pool:
        list(pool.map(agent, assignments))
    return [recorded(assignment, float(number % 4 == 3)) for number, assignment in enumerate(assignments)]


def test_recorded_logprobs_are_those_of_a_forward_pass_over_the_recorded_tokens(
    model: Any, tokenizer: Any, trainer_of: Any
):
    gateway = gateway_of(model, tokenizer)
    with serving(gateway):
        rollouts = OutsideRollouts(gateway, GuessEnv.default_tasks(), play, env_id="guess")
        trainer = trainer_of(rollouts, groups=1, learning_rate=0.0)
        trainer.train()
    [batch] = trainer.batches
    model.eval()
    for trajectory in (row["trajectory"] for row in batch["rows"]):
        tokens = trajectory.tokens
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([tokens.prompt_ids + tokens.completion_ids])).logits[0]
        plain = torch.log_softmax(logits.float(), dim=-1)[len(tokens.prompt_ids) - 1 : -1]
        expected = plain.gather(1, torch.tensor(tokens.completion_ids)[:, None])[:, 0]
        sampled = torch.tensor(tokens.loss_mask).bool()
        assert torch.tensor(tokens.logprobs)[sampled].tolist() == pytest.approx(expected[sampled].tolist(), abs=1e-4)
        assert len(trajectory.model_turns) == TURNS
        assert set(tokens.versions) == {0, -1}


def test_the_trainer_learns_from_what_agents_did(model: Any, tokenizer: Any, trainer_of: Any):
    before = [weight.detach().clone() for weight in model.parameters()]
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
        sampled = torch.tensor(row.tokens.loss_mask).bool()
        advantages = batch["advantages"][number, : len(sampled)]
        assert (advantages[sampled] > 0).all() == (number % 4 == 3)
        assert not advantages[~sampled].any()
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


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


class Templated(Speaker):
    """Plays `guess` with the tokens and the chat template of a family of models."""

    def __init__(self, tokenizer: Any):
        super().__init__(halving)
        self.codec: Any = ChatCodec(tokenizer, with_tools=True)

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        said = self.codec.say(halving(self.codec.decode(ids)))
        return Generation(said, [-0.5] * len(said), "stop", self.version)


def test_a_models_own_template_writes_tools_and_results_as_in_the_rollout_engine(tmp_path: Path):
    tokenizer_of("qwen3").save_pretrained(tmp_path)
    dialect, tokenizer = f"template:{tmp_path}", tokenizer_of("qwen3")
    gateway = Gateway(Templated(tokenizer), GatewaySettings(dialect))
    other = gateway.session("other")
    session = gateway.session("episode")
    # Another agent, whose tools must not be shown to this one.
    Client(gateway, other.api_key, "/s/other").said([{"role": "user", "content": "?"}], tools=[FLY])
    record = played(Client(gateway, session.api_key, "/s/episode"))
    assert record is not None
    [row] = session.end(record)
    with RolloutEngine(EnvFactory("guess", {"dialect": dialect}), Templated(tokenizer)) as engine:
        task = make("guess").tasks.find(record.task_id)
        [expected] = engine.trajectories([Job(task, SEED)])
    assert row.tokens == expected.tokens
    assert [turn.action for turn in row.turns] == [turn.action for turn in expected.turns]
    assert row.success
