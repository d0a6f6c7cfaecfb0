"""The model card: how a model was trained here, and what it solves."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.base import yaml12
from agentgym.eval.results.provenance import record_of, runs_in
from agentgym.eval.summary import Summary
from agentgym.trainers.config import TINY, TrainConfig
from agentgym.trainers.requirements import SMOLLM2

CARD = "README.md"
_SHOWN = ("agentgym", "torch", "transformers", "trl", "vllm")


def write_card(model: Path, config: TrainConfig, step: int, evaluations: Mapping[str, Summary | None]) -> None:
    """Write the card of a model: metadata of the model hub in YAML, then Markdown.

    Args:
        model: The model's folder.
        config: The settings of its run.
        step: Number of training steps behind it.
        evaluations: Held-out results by the time that they describe; `None` if there are none.
    """
    title = f"{_name(config.model)} trained on {config.env}"
    parts = [f"---\n{yaml12.dump(_metadata(config))}---\n", f"# {title}\n", _origin(config, step), ""]
    parts += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in _facts(config, step)), ""]
    if results := [(when, summary) for when, summary in evaluations.items() if summary is not None]:
        parts += ["| held-out tasks | solved | 95 % interval | tasks | attempts |", "|---|---|---|---|---|"]
        parts += [_row(when, summary) for when, summary in results]
        parts.append("")
    command = shlex.join(["agentgym", "eval", "--env", config.env, "--policy", str(model)])
    parts += ["Evaluate it:\n", f"```sh\n{command}\n```\n"]
    if runs := runs_in(record_of(config.folder)):
        commands = "\n".join(f"{run['command']}  # {run['started']}" for run in runs)
        versions = {"agentgym": runs[-1]["agentgym"], **runs[-1]["packages"]}
        libraries = ", ".join(f"{name} {versions[name]}" for name in _SHOWN if name in versions)
        parts += ["Trained by:\n", f"```sh\n{commands}\n```\n", f"Python {runs[-1]['python']}, {libraries}\n"]
    (model / CARD).write_text("\n".join(parts), encoding="utf-8")


def _metadata(config: TrainConfig) -> dict[str, Any]:
    library = {"library_name": "peft" if config.lora_rank else "transformers"}
    base = {} if _is_local(config.model) else {"base_model": config.model}
    return {**base, **library, "pipeline_tag": "text-generation", "tags": ["agentgym", "grpo", "tool-use"]}


def _is_local(model: str) -> bool:
    """Whether the model hub does not have a model under this name."""
    return model in (TINY, SMOLLM2) or Path(model).exists()


def _name(model: str) -> str:
    """Return a model's name without the folders of this machine."""
    return "-".join(Path(model).parts[-2:]) if Path(model).exists() else model


def _origin(config: TrainConfig, step: int) -> str:
    if config.model == TINY:
        base = "A language model with random weights, made for this run"
    else:
        base = f"The model {_name(config.model)}"
    adapters = f", with LoRA adapters of rank {config.lora_rank}" if config.lora_rank else ""
    warm = ", learned from demonstrations and then" if config.is_warm_started else ","
    return (
        f"{base}{adapters}{warm} trained with trajectory-level GRPO for {step} steps by "
        "[agentgym](https://github.com/agentgym/agentgym)."
    )


def _facts(config: TrainConfig, step: int) -> Iterator[tuple[str, str]]:
    arguments = ", ".join(f"{name}={value!r}" for name, value in config.env_kwargs.items())
    yield "base model", "made for this run" if config.model == TINY else _name(config.model)
    yield "environment", config.env + (f" with `{arguments}`" if arguments else "")
    yield "credit", config.credit.value
    yield "steps", f"{step} of {config.groups} groups of {config.group_size} trajectories"
    yield "learning rate", f"{config.learning_rate:g}"
    yield "seed", str(config.seed)
    if config.is_warm_started:
        yield "warm start", f"{config.warm_start_steps} steps on {config.warm_start_tasks} tasks"


def _row(when: str, summary: Summary) -> str:
    rate = summary.overall
    solved = "unknown" if rate.success is None else f"{rate.success:.1%}"
    interval = "" if rate.interval is None else f"{rate.interval.low:.1%} to {rate.interval.high:.1%}"
    return f"| {when} | {solved} | {interval} | {rate.tasks} | {rate.attempts} |"
