"""Measures the trainer on one GPU, part by part, within twelve minutes; `--tiny` tries the script on a CPU.

    python -m benchmarks.gpu_check
    python -m benchmarks.gpu_check --tiny --parts fused_head,merge_drift --results PATH

Each part is a process of its own with a limit of time, so that a part that fails or hangs does not stop the rest. The
last part trains SmolLM2 for as long as is left, and needs the package of its weights.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS, Claim, argument_parser, write

TOTAL_S = 700
PACKAGES = ("torch", "trl", "transformers", "peft")
Rows = list[dict[str, Any]]


@contextmanager
def measured(row: dict[str, Any]) -> Iterator[None]:
    """Add the seconds and the peak memory of this context to a row."""
    import torch

    is_gpu = torch.cuda.is_available()
    if is_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    yield
    if is_gpu:
        torch.cuda.synchronize()
        row["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    row["seconds"] = round(time.perf_counter() - began, 4)


def fused_head(tiny: bool) -> Rows:
    """Log-probabilities through the fused head and through whole logits: difference, memory, time."""
    import torch
    from trl.trainer import add_fused_lm_head  # pyright: ignore[reportPrivateImportUsage]

    from benchmarks._gpu_shapes import DEVICE, random_model, shape

    model = random_model(shape(tiny, layers=2))
    add_fused_lm_head(model)
    ids = torch.randint(1, 300, (1, 64 if tiny else 2048), device=DEVICE)
    rows: Rows = [{"head": "fused"}, {"head": "logits"}]
    scores = []
    with torch.no_grad():
        for row in rows:
            for _ in range(2):  # the first pass compiles kernels
                with measured(row):
                    scores.append(_scores(model, ids, fused=row["head"] == "fused"))
    rows[0]["largest_difference"] = (scores[1] - scores[3]).abs().max().item()
    return rows


def _scores(model: Any, ids: Any, *, fused: bool) -> Any:
    import torch

    if fused:
        return model(input_ids=ids, labels=ids, fused_lm_head=True).log_probs.flatten()[: ids.shape[1] - 1]
    logprobs = torch.log_softmax(model(input_ids=ids).logits[0, :-1].float(), dim=-1)
    return logprobs.gather(1, ids[0, 1:, None])[:, 0]


def lora_step(tiny: bool) -> Rows:
    """Steps of LoRA at the shape of Qwen3-1.7B: rows of equal and of different lengths, tokens per second, MFU."""
    import torch

    from agentgym.trainers.cost.estimate import Plan, training_memory
    from agentgym.trainers.cost.gpus import GIB, GPUS, gpu_of
    from benchmarks._gpu_shapes import random_model, shape, trainer

    of, scale = shape(tiny), 64 if tiny else 1024
    gpu = gpu_of(torch.cuda.get_device_name()) if torch.cuda.is_available() else None
    rows: Rows = []
    for name, lengths in (("equal", [4] * 8), ("different", [1, 1, 2, 2, 3, 4, 6, 8])):
        row: dict[str, Any] = {"lengths": name, "longest": scale * max(lengths)}
        with tempfile.TemporaryDirectory() as folder:
            tokens = [scale * length for length in lengths]
            grpo_trainer = trainer(random_model(of), tokens, Path(folder), micro_batch=2, steps=1)
            grpo_trainer.train()  # compiles kernels
            again = trainer(random_model(of), tokens, Path(folder) / "again", micro_batch=2)
            with measured(row):
                again.train()
        flops = 3 * sum(length * of.learning_flops(length / 2, 32) for length in tokens)
        row["tokens_per_s"] = round(3 * sum(tokens) / row["seconds"], 1)
        row["mfu"] = round(flops / row["seconds"] / gpu.flops, 4) if gpu else None
        plan = Plan(of, gpu or GPUS["h100"], lora_rank=32, micro_batch=2, context=max(tokens))
        row["estimated_gib"] = round((training_memory(plan).total - training_memory(plan).reserved) / GIB, 2)
        rows.append(row)
    return rows


def scoring_memory(tiny: bool) -> Rows:
    """The scores that check an engine's weights: memory and time at two lengths."""
    import torch

    from agentgym.trainers.vllm.sync import model_scores
    from benchmarks._gpu_shapes import random_model, shape, trainer

    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        grpo_trainer = trainer(random_model(shape(tiny)), [64, 64], Path(folder))
        grpo_trainer.model.to(grpo_trainer.accelerator.device)
        for length in (32, 128) if tiny else (2048, 8192):
            row: dict[str, Any] = {"length": length}
            with measured(row):
                scores = model_scores(grpo_trainer, [torch.randint(1, 300, (length,)).tolist()])
            row["scores"] = len(scores)
            rows.append(row)
    return rows


def merge_drift(tiny: bool) -> Rows:
    """How far 200 merges of adapters move frozen weights in bfloat16: in place, and by swapped copies."""
    import torch
    from peft import get_peft_model

    from agentgym.trainers.adapters import MergedWeights, lora
    from benchmarks._gpu_shapes import random_model, shape

    rows: Rows = []
    for way in ("swapped copies", "in place"):
        model: Any = get_peft_model(random_model(shape(tiny, layers=2)), lora(32, 64))
        torch.manual_seed(1)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(std=1e-3)
        layer = model.get_base_model().model.layers[0].mlp.down_proj
        before, row = layer.base_layer.weight.detach().clone(), {"way": way, "merges": 10 if tiny else 200}
        with measured(row):
            for _ in range(row["merges"]):
                if way == "in place":
                    model.merge_adapter()
                    model.unmerge_adapter()
                else:
                    with MergedWeights(model).swapped():
                        pass
        drift = (layer.base_layer.weight - before).float().norm()
        row["moved_by_delta"] = round((drift / layer.get_delta_weight("default").float().norm()).item(), 4)
        rows.append(row)
    return rows


def sampler(tiny: bool) -> Rows:
    """Tokens per second of the sampler in this process, by the number of conversations."""
    from agentgym.trainers.policies import make_policy
    from benchmarks._gpu_shapes import random_model, shape, tokenizer

    model = random_model(shape(tiny)).eval()
    rows: Rows = []
    for count in (1, 4) if tiny else (1, 16, 64):
        policy = make_policy(model, tokenizer(), name="random", slots=count, context=4096)
        row: dict[str, Any] = {"conversations": count}
        with measured(row):
            sampled = asyncio.run(_sampled(policy, count, 8 if tiny else 128))
        row["tokens_per_s"] = round(sampled / row["seconds"], 1)
        rows.append(row)
    return rows


async def _sampled(policy: Any, count: int, tokens: int) -> int:
    prompt = [number % 300 + 1 for number in range(128)]
    turns = await asyncio.gather(*(policy.generate([*prompt, n + 1], tokens, f"s{n}") for n in range(count)))
    return sum(len(turn.ids) for turn in turns)


def fsdp2(tiny: bool) -> Rows:
    """A step of FSDP2 in one process, over NCCL on a GPU: loss before and after, and whole weights again."""
    import torch
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.fsdp import fully_shard

    from benchmarks._gpu_shapes import DEVICE, random_model, shape

    meeting = Path(tempfile.mkdtemp()) / "meeting"
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    init_process_group(backend, init_method=f"file://{meeting}", rank=0, world_size=1)
    model = random_model(shape(tiny), torch.float32)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(1, 300, (1, 64 if tiny else 1024), device=DEVICE)
    row: dict[str, Any] = {"backend": torch.distributed.get_backend(), "losses": []}
    with measured(row):
        for _ in range(3):
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            row["losses"].append(round(loss.item(), 4))
        whole = model.model.layers[0].mlp.down_proj.weight.full_tensor()
    row["whole_weights"] = whole.numel()
    destroy_process_group()
    return [row]


def smollm2(tiny: bool) -> Rows:
    """Train SmolLM2 on `sql` until the limit of this part; the metrics of its steps."""
    from agentgym.trainers.logbook.records import read_metrics

    limit_s = float(os.environ.get("PART_S", "60")) - 20
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["--recipe", "sql" if tiny else "sql-smollm2", "--output-dir", str(run), "--eval-tasks", "4"]
        words += ["--steps", "1" if tiny else "80", *(("--quick",) if tiny else ())]
        command = [sys.executable, "-m", "agentgym", "train", *words]
        try:
            done = subprocess.run(command, timeout=limit_s, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
        except subprocess.TimeoutExpired:
            pass  # as planned
        return list(read_metrics(run / "metrics.jsonl"))


ROOT = Path(__file__).resolve().parent.parent

PARTS: dict[str, tuple[Callable[[bool], Rows], int]] = {
    "fused_head": (fused_head, 60),
    "lora_step": (lora_step, 180),
    "scoring_memory": (scoring_memory, 60),
    "merge_drift": (merge_drift, 60),
    "sampler": (sampler, 90),
    "fsdp2": (fsdp2, 90),
    "smollm2": (smollm2, TOTAL_S),
}
"""The parts in their order, each with its limit in seconds; the last one takes what is left."""


def played(name: str, tiny: bool, limit_s: float) -> Rows:
    """Run a part in a process of its own and return its rows, or one row with its error."""
    command = [sys.executable, "-m", "benchmarks.gpu_check", "--part", name, *(("--tiny",) if tiny else ())]
    began = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PART_S": str(limit_s)},
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
        rows = json.loads(done.stdout.strip().splitlines()[-1]) if not done.returncode else None
        error = "" if rows else (done.stderr.strip().splitlines() or ["no output"])[-1]
    except subprocess.TimeoutExpired:
        rows, error = None, f"not finished within {limit_s:.0f} s"
    labels = {"part": name, "part_seconds": round(time.perf_counter() - began, 1)}
    return [{**labels, **row} for row in rows or [{"error": error}]]


def device() -> dict[str, Any]:
    """Return the name and the memory of the GPU, or why no GPU can be used."""
    import torch

    if not torch.cuda.is_available():
        return {"part": "device", "name": "cpu"}
    properties = torch.cuda.get_device_properties(0)
    return {"part": "device", "name": properties.name, "memory_gib": round(properties.total_memory / 2**30, 1)}


def options(words: list[str] | None = None) -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, to try the script on a CPU")
    parser.add_argument("--parts", default=",".join(PARTS), help="parts to run, separated by commas")
    parser.add_argument("--part", choices=PARTS, help="run one part in this process and print its rows")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="limit of all parts together")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    chosen = options(words)
    if chosen.part:
        print("\n" + json.dumps(PARTS[chosen.part][0](chosen.tiny)))
        return
    ends = time.perf_counter() + chosen.seconds
    rows: Rows = [device()]
    for name in chosen.parts.split(","):
        left_s = ends - time.perf_counter()
        limit_s = min(PARTS[name][1], left_s)
        rows += played(name, chosen.tiny, limit_s) if left_s > 20 else [{"part": name, "error": "no time left"}]
        print(rows[-1], file=sys.stderr)
        failed = sum("error" in row for row in rows)
        write(
            "gpu_check",
            rows,
            [Claim("gpu_check_failed_parts", failed, "<=", 0)],
            packages=PACKAGES,
            results=chosen.results,
        )


if __name__ == "__main__":
    main()
