"""Sampling through vLLM's engine interface, with a fake engine."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import nullcontext
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from rich.console import Console
from trl.generation.vllm_generation import VLLMGeneration

from agentgym.base.errors import InfrastructureError
from agentgym.core.policy import Generation, TokenPolicy
from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.adapters import without_adapters
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.train import train
from agentgym.trainers.transformers_policy import Sampling
from agentgym.trainers.vllm import on_cpu as vllm_on_cpu
from agentgym.trainers.vllm.policy import VLLMPolicy
from agentgym.trainers.vllm.weights import engine_weights
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


class Engine:
    """Says `start, start + 1, ...` after a prompt that ends with `start`, one token a step, as long as it may."""

    def __init__(self) -> None:
        self.running: dict[str, tuple[list[int], Any, list[Any]]] = {}
        self.aborted: list[str] = []
        self.seeds: list[int] = []

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        assert request_id not in self.running
        self.seeds.append(params.seed)
        self.running[request_id] = (prompt["prompt_token_ids"], params, [])

    def abort_request(self, request_ids: list[str]) -> None:
        self.aborted += request_ids
        for request_id in request_ids:
            self.running.pop(request_id, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self.running)

    def step(self) -> list[Any]:
        outputs = []
        for request_id, (prompt, params, turn) in list(self.running.items()):
            turn.append(prompt[-1] + len(turn))
            stopped = turn[-1] in params.stop_token_ids
            finished = stopped or len(turn) >= params.max_tokens
            reason = ("stop" if stopped else "length") if finished else None
            chances = [{token: SimpleNamespace(logprob=-token / 10)} for token in turn]
            output = SimpleNamespace(token_ids=tuple(turn), logprobs=chances, finish_reason=reason)
            outputs.append(SimpleNamespace(request_id=request_id, finished=finished, outputs=[output]))
            if finished:
                del self.running[request_id]
        return outputs


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def policy(engine: Engine, tokenizer: Any) -> VLLMPolicy:
    fresh = VLLMPolicy(
        ChatCodec(tokenizer),
        end_ids=[30],
        context=128,
        sampling=Sampling(0.7, seed=5),
        make_params=lambda **arguments: SimpleNamespace(**arguments),
    )
    fresh.use(engine)
    return fresh


async def ask(policy: VLLMPolicy, last: int, budget: int = 5, session: str = "s") -> Generation:
    return await policy.generate([7, last], budget, session)


def together(*work: Any) -> list[Any]:
    async def gathered() -> list[Any]:
        return await asyncio.gather(*work, return_exceptions=True)

    return asyncio.run(asyncio.wait_for(gathered(), 30))


def test_tokens_come_back_as_they_were_sampled_with_their_logprobs(policy: VLLMPolicy):
    policy.updated(4)
    assert isinstance(policy, TokenPolicy)
    [cut, ended] = together(ask(policy, 10), ask(policy, 28, session="t"))
    assert cut == Generation([10, 11, 12, 13, 14], [-1.0, -1.1, -1.2, -1.3, -1.4], "length", 4)
    assert (ended.ids, ended.finish) == ([28, 29, 30], "stop")


def test_a_draw_depends_on_the_conversation_alone(policy: VLLMPolicy, engine: Engine):
    together(ask(policy, 10), ask(policy, 11, session="t"))
    together(ask(policy, 11, session="t"))
    policy.updated(1)
    together(ask(policy, 10))
    first, other, again, later = engine.seeds
    assert other == again
    assert len({first, other, later}) == 3


def test_a_turn_that_is_given_up_is_aborted(policy: VLLMPolicy, engine: Engine):
    async def give_up() -> None:
        waiting = asyncio.create_task(ask(policy, 40, 10_000, "gone"))
        while not engine.running:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        never_begun = asyncio.create_task(ask(policy, 40, 10_000, "never"))
        await asyncio.sleep(0)
        never_begun.cancel()

    _, turn = together(give_up(), ask(policy, 10))
    assert turn.ids == [10, 11, 12, 13, 14]
    together(ask(policy, 12))
    assert [name.rpartition("/")[0] for name in engine.aborted][:1] == ["gone"]
    assert engine.running == {}


# A whole run, with a stand-in for the engine that TRL makes.


class ModelEngine(Engine):
    """Samples from a copy of the model, which is only as new as the last weights it was given."""

    def __init__(self, model: Any):
        super().__init__()
        loaded, model = model, without_adapters(model)
        # Not a deep copy: TRL has wrapped the forward pass, and a copy of that would still be the trainer's model.
        self.model = type(model)(model.config).eval()
        runner = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=SimpleNamespace(model=self)))
        self.model_executor = runner
        self.load_weights(list(engine_weights(loaded, lambda parameters: nullcontext())))

    def load_weights(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """Take some weights, as vLLM does."""
        assert self.model.load_state_dict(dict(weights), strict=False).unexpected_keys == []

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        assert request_id not in self.running
        self.running[request_id] = (prompt["prompt_token_ids"], params, [])

    def scored(self, request_id: str, prompt: list[int]) -> Any:
        del self.running[request_id]
        logprobs = torch.log_softmax(self.model(input_ids=torch.tensor([prompt])).logits[0, :-1], dim=-1)
        chances = [
            {token: SimpleNamespace(logprob=row[token].item())} for token, row in zip(prompt[1:], logprobs, strict=True)
        ]
        return SimpleNamespace(
            request_id=request_id, finished=True, prompt_token_ids=prompt, prompt_logprobs=[None, *chances]
        )

    @torch.inference_mode()
    def step(self) -> list[Any]:
        outputs = []
        for request_id, (prompt, params, turn) in list(self.running.items()):
            if hasattr(params, "prompt_logprobs"):
                outputs.append(self.scored(request_id, prompt))
                continue
            logits = self.model(input_ids=torch.tensor([prompt + [token for token, _ in turn]])).logits[0, -1]
            logprobs = torch.log_softmax(logits / params.temperature, dim=-1)
            draw = torch.Generator().manual_seed(params.seed + len(turn))
            token = int(torch.multinomial(logprobs.exp(), 1, generator=draw))
            turn.append((token, logprobs[token].item()))
            if (stopped := token in params.stop_token_ids) or len(turn) >= params.max_tokens:
                del self.running[request_id]
                chances = [{token: SimpleNamespace(logprob=logprob)} for token, logprob in turn]
                ids, reason = tuple(token for token, _ in turn), "stop" if stopped else "length"
                output = SimpleNamespace(token_ids=ids, logprobs=chances, finish_reason=reason)
                outputs.append(SimpleNamespace(request_id=request_id, finished=True, outputs=[output]))
        return outputs


class FakeGeneration(VLLMGeneration):
    """TRL's own, with another engine."""

    def _init_vllm(self) -> None:
        assert (self.mode, self.max_model_length) == ("colocate", 256)
        self.llm = SimpleNamespace(llm_engine=ModelEngine(self.model), reset_prefix_cache=lambda: None)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[FakeGeneration]:
    """Stands in the place of TRL's engine, on a machine that seems to have a GPU."""
    vllm: Any = ModuleType("vllm")
    vllm.__spec__ = ModuleSpec("vllm", None)
    vllm.SamplingParams = lambda **arguments: SimpleNamespace(**arguments)
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setattr(vllm_on_cpu, "is_needed", lambda: False)
    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", FakeGeneration)
    return FakeGeneration


@each_row("lora_rank", [0, 4])
def test_an_engine_whose_updates_are_lost_stops_the_run(
    lora_rank: int, small: Any, stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    sync, syncs = stand_in.sync_weights, count(1)
    monkeypatch.setattr(stand_in, "sync_weights", lambda self: sync(self) if next(syncs) <= 1 else None)
    with pytest.raises(InfrastructureError, match="still samples from old weights"):
        train(small(output_dir="run", use_vllm=True, groups=6, lora_rank=lora_rank), Console(file=io.StringIO()))
    assert [line["step"] for line in read_metrics(Path("run/metrics.jsonl"))] == [1]  # no step had wrong weights


@each_row("lora_rank", [0, 4])
def test_a_run_with_vllm_samples_from_the_weights_of_each_step(
    lora_rank: int,
    small: Any,
    checkpoint: Path,
    sampled_from: Any,
    stand_in: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    train(small(output_dir="run", use_vllm=True, groups=6, lora_rank=lora_rank), Console(file=io.StringIO()))
    state = json.loads((Path("run") / "checkpoint-4" / "trainer_state.json").read_text())
    logged = [line for line in state["log_history"] if "loss" in line]
    assert len(logged) == 4
    for line in logged:
        for what in ("min", "mean", "max"):
            assert line[f"sampling/importance_sampling_ratio/{what}"] == pytest.approx(1, abs=1e-3)
    assert sampled_from(checkpoint, Path("run") / "eval-before.jsonl") < 1e-4
    assert sampled_from(Path("run") / "model", Path("run") / "eval-after.jsonl") < 1e-4
    last = list(read_metrics(Path("run") / "metrics.jsonl"))[-1]
    assert last["kl_to_start"] > 1e-3
    assert 0 < last["sampler_gap"] <= last["sampler_gap_max"] < 1e-3
    assert last["seconds/sync"] > 0
    assert last["grad_norm"] > 1e-3  # else the last weights would be those that were sampled from


def test_a_run_ahead_loads_new_weights_while_no_turn_is_sampled(
    small: Any, stand_in: Any, monkeypatch: pytest.MonkeyPatch
):
    sync = stand_in.sync_weights

    def checked(generation: Any) -> None:
        assert not generation.llm.llm_engine.running
        sync(generation)

    monkeypatch.setattr(stand_in, "sync_weights", checked)
    config = small(output_dir="run", env="letters_env:WaitingEnv", use_vllm=True, ahead=1, record_groups=None)
    train(config, Console(file=io.StringIO()))
    metrics = list(read_metrics(Path("run/metrics.jsonl")))
    assert all(line.get("sampler_gap_max", 0.0) < 1e-3 for line in metrics)
    assert max(line.get("staleness_max", 0.0) for line in metrics) >= 1
    attempts = sorted(trajectory.attempt for trajectory in read_jsonl(Path("run/trajectories.jsonl")))
    assert attempts == [*range(config.steps * config.batch)]


def test_a_turn_over_its_time_is_cut_off_and_keeps_its_tokens_while_others_go_on(policy: VLLMPolicy, engine: Engine):
    late = policy.generate([7, 40], 10**9, "late", timeout_s=0.5)
    [cut, other] = together(late, ask(policy, 10, session="t"))
    assert (cut.finish, other.finish) == ("time", "length")
    assert cut.ids == list(range(40, 40 + len(cut.ids)))
    assert len(cut.logprobs) == len(cut.ids) > 0
    together(ask(policy, 10))
    assert engine.running == {}
    assert set(engine.aborted) == {"late/0"}  # once more if the loop closes meanwhile, which changes nothing
