"""The weights that an engine receives, and those that stay with the trainer."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from trl.generation.vllm_generation import VLLMGeneration

from agentgym.base.errors import UsageError
from agentgym.trainers.adapters import MergedWeights, lora, with_adapters
from agentgym.trainers.trl_seam import push_copies, sync_engine
from agentgym.trainers.vllm.weights import engine_weights
from tests.rows import each_row
from tests.waiting import HANG_S

pytestmark = [pytest.mark.real, pytest.mark.train]


class Engine(VLLMGeneration):
    """TRL's engine with a dictionary instead of vLLM: the weights that it was given."""

    def _init_vllm(self) -> None:
        self.weights: dict[str, torch.Tensor] = {}
        model = SimpleNamespace(load_weights=self._load)
        runner = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=SimpleNamespace(model=model)))
        engine = SimpleNamespace(model_executor=runner)
        self.llm = SimpleNamespace(llm_engine=engine, reset_prefix_cache=lambda: None)

    def _load(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        for name, weight in weights:
            self.weights[name] = weight.clone()


def trainer_of(model: Any, *, copies: bool = True) -> Any:
    processing: Any = None
    trainer = SimpleNamespace(vllm_generation=Engine(model, Accelerator(cpu=True), processing))
    if copies:
        push_copies(trainer, engine_weights)
    return trainer


def move(model: Any, seed: int) -> None:
    """Change the adapters."""
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data += 0.02 * torch.randn_like(weight)


def bits(model: Any) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters() if ".lora_" not in name}


def changed(model: Any, before: dict[str, torch.Tensor]) -> int:
    """Return the number of frozen weights that are not as before."""
    return sum(int((weight != before[name]).sum()) for name, weight in bits(model).items())


@each_row("dtype", [torch.bfloat16, torch.float32])
def test_pushes_change_no_bit_of_the_frozen_weights(dtype: torch.dtype, model: Any):
    model = with_adapters(model.to(dtype), 4, 8, 0)
    before = bits(model)
    ours = trainer_of(model)
    for step in range(10):
        move(model, step)
        sync_engine(ours)
    assert changed(model, before) == 0
    with MergedWeights(model).swapped():  # what the sampler in this process computes with
        expected = {name.replace(".base_layer", ""): w for name, w in bits(model).items()}
    assert {f"base_model.model.{name}" for name in ours.vllm_generation.weights} == expected.keys()
    for name, weight in ours.vllm_generation.weights.items():
        assert weight.dtype == dtype
        assert torch.equal(weight, expected[f"base_model.model.{name}"]), name
    theirs = trainer_of(model, copies=False)
    for step in range(10):
        move(model, step)
        sync_engine(theirs)
    assert changed(model, before) > 0  # once TRL mends this, `push_copies` is unnecessary


def saving(model: Any) -> Any:
    """Return a model with LoRA, a head that is trained as a whole, and a layer that is recomputed."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    config = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["norm"], task_type="CAUSAL_LM")
    adapted: Any = get_peft_model(model, config)
    layers = adapted.get_base_model().model.layers
    layers[0] = checkpoint_wrapper(layers[0])
    return adapted


def test_names_are_those_of_the_plain_model(model: Any, tokenizer: Any):
    names = [name for name, _ in model.named_parameters()]
    adapted = saving(model)
    for name, weight in adapted.named_parameters():
        if "modules_to_save" in name:
            weight.data.fill_(7.0)
    pushed = dict(engine_weights(adapted, lambda parameters: nullcontext()))
    assert sorted(pushed) == sorted(names)
    assert pushed["model.norm.weight"].unique().tolist() == [7.0]  # the trained copy, not the module it replaced


def test_without_adapters_the_weights_are_passed_on_as_they_are(model: Any):
    trainer = trainer_of(model)
    sync_engine(trainer)
    expected = dict(model.named_parameters())  # a tied head is missing
    assert trainer.vllm_generation.weights.keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in trainer.vllm_generation.weights.items())


@each_row("change", [{"use_dora": True}, {"lora_bias": True}])
def test_adapters_that_cannot_be_merged_into_a_copy_are_refused(change: dict[str, Any], model: Any):
    adapted = get_peft_model(model, LoraConfig(**{**lora(2, 4).to_dict(), **change}))
    with pytest.raises(UsageError, match=r"the adapters of .*q_proj cannot be merged"):
        list(engine_weights(adapted, lambda parameters: nullcontext()))


def test_parameters_are_gathered_with_all_that_their_merged_copy_needs(model: Any):
    """ZeRO-3 leaves the parameters empty outside of `gathered`."""
    gathered: list[int] = []

    def record(parameters: Any) -> Any:
        gathered.append(len(parameters))
        return nullcontext()

    adapted = with_adapters(model, 2, 4, 0)
    pushed = list(engine_weights(adapted, record))
    assert len(gathered) == len(pushed)
    assert gathered.count(3) == 14  # two layers with seven matrices: the weight and two factors


SHARDED = """
import copy, sys
from contextlib import nullcontext
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM
from agentgym.trainers.adapters import with_adapters
from agentgym.trainers.logprobs import conversation_logprobs
from agentgym.trainers.vllm.weights import engine_weights

dist.init_process_group("gloo")
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
conversations = [[*range(20, 20 + length)] for length in (40, 9, 25)]
for adapters in (False, True):
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
    if adapters:
        model = with_adapters(model, 4, 8, 0)
        torch.manual_seed(1)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.3)
    plain = copy.deepcopy(model)
    inner = model.get_base_model() if adapters else model
    for layer in inner.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    expected = dict(engine_weights(plain, lambda parameters: nullcontext()))
    pushed = dict(engine_weights(model, lambda parameters: nullcontext()))
    assert pushed.keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in pushed.items())
    scores = conversation_logprobs(model, conversations)
    ids = torch.tensor([conversations[2]])
    with torch.no_grad():
        logits = plain(input_ids=ids).logits[0, :-1]
    whole = torch.log_softmax(logits, dim=-1).gather(1, ids[0, 1:, None])[:, 0]
    assert [len(s) for s in scores] == [39, 8, 24]
    assert torch.allclose(scores[2], whole, atol=1e-5), (scores[2] - whole).abs().max()
    if adapters:
        with model.disable_adapter():
            start = conversation_logprobs(model, conversations)
        assert (start[2] - scores[2]).abs().max() > 1e-2
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()  # a sharded model can still learn after it was scored
    print("sharded", adapters, "as whole")
dist.destroy_process_group()
"""


def test_two_processes_push_and_score_sharded_weights_as_whole_ones(checkpoint: Path):
    Path("sharded.py").write_text(SHARDED, encoding="utf-8")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launcher, "sharded.py", str(checkpoint)], capture_output=True, text=True, check=False, timeout=HANG_S
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert done.stdout.count("as whole") == 4
