"""LoRA with vLLM: how far 200 pushes of weights to the engine move the frozen weights.

A model of four layers with the shapes of SmolLM2-135M and random weights has LoRA adapters of rank 32, which take a
step before each push. Ours pushes merged copies; TRL merges in place, pushes, and subtracts. Both get the same steps,
and the code that pushes is TRL's own with a stand-in for vLLM's model, which copies what it receives.

    python -m benchmarks.lora_base_unchanged
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM
from trl.generation.vllm_generation import VLLMGeneration

from agentgym.trainers.adapters import mergeable_layers, with_adapters
from agentgym.trainers.trl_seam import push_copies, sync_engine
from agentgym.trainers.vllm.weights import engine_weights
from benchmarks._report import Claim, argument_parser, write

NAME = "lora_base_unchanged"
RATE = 1e-4
"""Size of a step of the adapters, as of Adam at this learning rate."""


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--syncs", type=int, default=200)
    options = parser.parse_args()
    rows = [
        {"name": name, "dtype": str(dtype).removeprefix("torch."), **pushed(dtype, name == "ours", options.syncs)}
        for dtype in (torch.bfloat16, torch.float32)
        for name in ("ours", "TRL")
    ]
    for row in rows:
        print(row)
    if options.syncs < 200:
        return
    [unchanged] = [row["changed_bits"] for row in rows if (row["name"], row["dtype"]) == ("ours", "bfloat16")]
    write(NAME, rows, [Claim(NAME, unchanged, "<=", 0)], packages=("torch", "trl", "peft", "transformers"))


class Engine(VLLMGeneration):
    """TRL's engine, with a stand-in for vLLM's model."""

    def _init_vllm(self) -> None:
        runner = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=SimpleNamespace(model=self)))
        engine = SimpleNamespace(model_executor=runner)
        self.llm = SimpleNamespace(llm_engine=engine, reset_prefix_cache=lambda: None)
        self.weights: dict[str, torch.Tensor] = {}

    def load_weights(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        self.weights.update({name: weight.clone() for name, weight in weights})


def pushed(dtype: torch.dtype, ours: bool, syncs: int) -> dict[str, Any]:
    """Return what has become of the frozen weights after some pushes."""
    model = small_model(dtype)
    processing: Any = None
    trainer = SimpleNamespace(vllm_generation=Engine(model, Accelerator(cpu=True), processing))
    if ours:
        push_copies(trainer, engine_weights)
    layers = mergeable_layers(model)
    before = [layer.base_layer.weight.detach().clone() for layer in layers]
    for number in range(syncs):
        step(model, number)
        sync_engine(trainer)
    after = [layer.base_layer.weight.detach() for layer in layers]
    distances = [(now.float() - then.float()).norm() for now, then in zip(after, before, strict=True)]
    with torch.no_grad():
        deltas = [layer.get_delta_weight("default").norm() for layer in layers]
    shares = sorted(float(move / delta) for move, delta in zip(distances, deltas, strict=True))
    return {
        "syncs": syncs,
        "weights": sum(weight.numel() for weight in before),
        "changed_bits": sum(changed_bits(now, then) for now, then in zip(after, before, strict=True)),
        "moved_least": float(f"{shares[0]:.2g}"),
        "moved_median": float(f"{shares[len(shares) // 2]:.2g}"),
        "moved_most": float(f"{shares[-1]:.2g}"),
    }


def changed_bits(now: torch.Tensor, then: torch.Tensor) -> int:
    """Return the number of bits in which two tensors differ."""
    whole = torch.int16 if now.dtype == torch.bfloat16 else torch.int32
    differing = (now.view(whole) ^ then.view(whole)).contiguous().view(torch.uint8)
    return sum(int((differing >> place & 1).sum()) for place in range(8))


def small_model(dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=4,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=1024,
        max_position_embeddings=512,
    )
    model: Any = LlamaForCausalLM(config)
    return with_adapters(model.to(dtype), 32, 64, 0)


def step(model: Any, number: int) -> None:
    """Change the adapters by `RATE`, with signs that are mostly those of the last step, as in training."""
    draw = torch.Generator().manual_seed(number)
    lasting = torch.Generator().manual_seed(10**6)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            direction = torch.randn(weight.shape, generator=lasting) + torch.randn(weight.shape, generator=draw)
            weight.data += RATE * direction.sign()


if __name__ == "__main__":
    main()
