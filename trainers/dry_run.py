"""`agentgym train --dry-run`: everything of a run with a real model, at the smallest scale that still runs all of it.

The model has two layers with random weights in its true shape, so that no weights are needed; the tokenizer is learned
from the environment's prompts. One group is played and learned from, and the cost model estimates the whole run.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym.base.errors import UsageError
from agentgym.core.making import closed_after
from agentgym.core.messages import text_of
from agentgym.core.task import TRAIN, TaskSource, iterate
from agentgym.core.trajectory import read_jsonl
from agentgym.rollout import EnvFactory
from agentgym.trainers import ranks
from agentgym.trainers.config import TINY, TrainConfig
from agentgym.trainers.cost.estimate import Plan, fits
from agentgym.trainers.cost.gpus import GPUS, Gpu, gpu_of
from agentgym.trainers.cost.of_run import longest_episodes, plan_of
from agentgym.trainers.cost.report import report
from agentgym.trainers.cost.shapes import ModelShape, shape_named, shape_of
from agentgym.trainers.credit import Credit, RewardedEpisode
from agentgym.trainers.logbook.phases import PHASES
from agentgym.trainers.logbook.progress import RunProgress, Stopwatch
from agentgym.trainers.logbook.records import FILE, read_metrics
from agentgym.trainers.policies import default_device
from agentgym.trainers.precision import loading, of_this_machine
from agentgym.trainers.run_folder import PlannedRun
from agentgym.trainers.tiny import tiny_tokenizer
from agentgym.trainers.training_run import TrainingRun
from agentgym.trainers.training_setup import check_prompt, quiet_libraries
from agentgym.trainers.trl_config import check_trl, credit_of, env_factory, eval_split_of, probe

LAYERS = 2
_SCALE: dict[str, Any] = {
    **{"steps": 1, "groups": 1, "group_size": 2, "updates_per_step": 1, "epochs_per_step": 1, "micro_batch": 1},
    **{"refill_rounds": 0, "max_new_tokens": 8, "max_tokens": 24, "warm_start_steps": 0, "warm_start_own": 0},
    **{"warm_start_from": None, "use_vllm": False, "vllm": {}, "vllm_memory": None, "record_groups": None},
    **{"report_to": [], "save_every": 1000, "generation_timeout_s": None, "resume": False},
}
_MOST_BYTES = 10 * 2**30
"""Bytes for weights, gradients and optimizer; beyond them, the vocabulary is that of the tokenizer."""
_VOCABULARY = 2048
_READ = 8
"""Tasks whose prompts the tokenizer is learned from."""
_COUNTS = (1, 2, 4, 8, 16, 32)
"""Numbers of GPUs to look for the smallest that fits."""


@dataclass(frozen=True)
class _Differing(Credit):
    """Credit as if every second trajectory were good, since a random model solves nothing."""

    def advantages(self, trajectories: Sequence[RewardedEpisode], groups: Sequence[int]) -> list[list[float]]:
        """Return 1 for each turn of every second trajectory, and -1 for the others."""
        return [[1.0 if place % 2 else -1.0] * len(t.model_turns) for place, t in enumerate(trajectories)]

    def logged_rewards(self, trajectories: Sequence[RewardedEpisode]) -> list[float | None]:
        """Return 1 for every second trajectory, and 0 for the others."""
        return [float(place % 2) for place, _ in enumerate(trajectories)]


def dry_run(config: TrainConfig, console: Console | None = None) -> None:
    """Build the run, play one group, take one step, and print the results with an estimate for GPUs.

    Raises:
        UsageError: The run cannot be built, or the shape of its model is not known.
    """
    quiet_libraries()
    ranks.join(config.rank_timeout_s)
    if ranks.world_size() > 1:
        raise UsageError("a dry run uses one process; start it without a launcher")
    whole = shape_of_model(config)
    check_trl(config)
    console, watch = console or Console(), Stopwatch()
    with RunProgress(console) as progress, tempfile.TemporaryDirectory() as folder:
        small = replace(of_this_machine(config, default_device()), **_SCALE, output_dir=f"{folder}/run")
        factory = env_factory(small)
        source, scheme = probe(factory)
        eval_split_of(small, source)
        tokenizer = tiny_tokenizer(_texts(factory, source), _VOCABULARY)
        progress("making a model with random weights", 0, 1)
        model = random_model(small, whole, len(tokenizer))
        progress("making a model with random weights", 1, 1)
        check_prompt(small, factory, source, model, tokenizer)
        credit = credit_of(small, scheme)
        differing = _Differing(**{field.name: getattr(credit, field.name) for field in fields(Credit)})
        small.folder.mkdir()
        training = TrainingRun(small, factory, source, differing, model, tokenizer, progress)
        training.train(PlannedRun(small, None, {}, small), None)
        results = _results(small.folder, model, whole, watch.lap())
    console.print(escape(f"{results}\n\n{_estimate(config, whole)}"), highlight=False, soft_wrap=True)


def shape_of_model(config: TrainConfig) -> ModelShape:
    """Return the shape of a run's model: of a checkpoint's folder, or of a published model, without a model hub.

    Raises:
        UsageError: The shape is not known.
    """
    if config.model == TINY:
        raise UsageError("a dry run is for pretrained models; --quick tries a run of the tiny model")
    if not (Path(config.model) / "config.json").is_file():
        return shape_named(config.model)
    shape = shape_of(AutoConfig.from_pretrained(config.model))
    if shape is None:
        raise UsageError(f"{config.model!r} is not of the Llama family, whose shapes the cost model knows")
    return shape


def shape_config(shape: ModelShape) -> Any:
    """Return the configuration (transformers) of a model with this shape."""
    return AutoConfig.for_model(
        shape.kind,
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.positions,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=shape.tied,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )


def random_model(config: TrainConfig, whole: ModelShape, tokens: int) -> Any:
    """Return a model of two layers in the shape of a run's model, with random weights.

    Args:
        config: The settings of the run.
        whole: The shape of its model.
        tokens: Size of the tokenizer, in place of a vocabulary that would take too much memory.
    """
    shape = replace(whole, layers=LAYERS)
    bytes_each = 4 if config.lora_rank else 16
    if bytes_each * shape.weights > _MOST_BYTES:
        shape = replace(shape, vocabulary=tokens)
    options = loading(config.bf16, config.lora_rank, config.model_kwargs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return AutoModelForCausalLM.from_config(shape_config(shape), dtype=options["dtype"])


def _texts(factory: EnvFactory, source: TaskSource) -> list[str]:
    """Return the system prompt, the tools and some tasks of an environment, whose calls no model has to write here."""
    with closed_after(factory()) as env:
        return [env.system_prompt, str(env.tools.schemas), *(text_of({"content": t.prompt}) for t in _tasks(source))]


def _tasks(source: TaskSource) -> list[Any]:
    return list(iterate(source, TRAIN, _READ))


def _results(folder: Path, model: Any, whole: ModelShape, seconds: float) -> str:
    """Return the outcome of the step as text."""
    [line] = read_metrics(folder / "metrics.jsonl")
    played = list(read_jsonl(folder / FILE))
    shares = ", ".join(f"{phase} {line[f'seconds/{phase}']:.1f} s" for phase in PHASES)
    turns = sum(len(t.model_turns) for t in played)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    vocabulary = model.config.vocab_size
    cut = "" if vocabulary == whole.vocabulary else f", vocabulary cut from {whole.vocabulary:,} to {vocabulary:,}"
    return "\n".join(
        [
            f"A dry run with {LAYERS} of {whole.layers} layers and random weights{cut}: {seconds:.0f} s in all.",
            f"Played {len(played)} episodes with {turns} turns; one step, gradient norm {line['grad_norm']:.3g}.",
            f"Seconds of the step: {shares}; peak memory of the process {peak / 2**30:.1f} GiB.",
        ]
    )


def _estimate(config: TrainConfig, shape: ModelShape) -> str:
    """Return the estimate of the whole run on the fewest GPUs that it fits on."""
    gpu = gpu_of(torch.cuda.get_device_name()) if torch.cuda.is_available() else None
    gpu = gpu or GPUS["h100"]
    plan = next((plan for count in _COUNTS if fits(plan := _plan(config, shape, gpu, count))), None)
    plan = plan or _plan(config, shape, gpu, _COUNTS[-1])
    episodes = longest_episodes(config)
    return f"The whole run, if every episode fills the context, with vLLM:\n{report(plan, episodes)}"


def _plan(config: TrainConfig, shape: ModelShape, gpu: Gpu, gpus: int) -> Plan:
    return plan_of(config, shape, gpu, gpus, sharded=gpus > 1 and not config.lora_rank)
