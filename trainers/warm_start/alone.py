"""Makes the model of a warm start for a run with several processes: in a process of its own, while they wait."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from accelerate import PartialState

from agentgym.base import yaml12
from agentgym.base.errors import UsageError
from agentgym.trainers import ranks
from agentgym.trainers.config import TrainConfig, to_dict

_OF_LAUNCHERS = (
    "ACCELERATE_",
    "FSDP_",
    "GROUP_",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_",
    "ROLE_",
    "TORCHELASTIC_",
)
"""Prefixes of the variables that `torchrun` and `accelerate launch` set, besides `RANK` and `WORLD_SIZE`."""


def made_alone(config: TrainConfig, folder: Path) -> None:
    """Make the warm-started model of a run, unless it is cached. All processes must call this.

    The warm start samples from the model that it trains, so that it cannot be sharded, and its model would depend on
    the number of processes. The new process uses the device of the main process.

    Args:
        config: The settings of the run.
        folder: The folder of the cached model.

    Raises:
        UsageError: The warm start fails, or processes on other machines cannot see its model.
    """
    if PartialState().is_main_process and not (folder / "config.json").is_file():
        _make(config)
    ranks.meet()
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{str(folder)!r} is not on this machine; set AGENTGYM_CACHE to a folder that all machines share"
        )


def _make(config: TrainConfig) -> None:
    with tempfile.TemporaryDirectory(prefix="agentgym-") as scratch:
        recipe = Path(scratch) / "recipe.yaml"
        recipe.write_text(yaml12.dump(to_dict(config)), encoding="utf-8")
        words = ["-m", "agentgym", "train", "--recipe", str(recipe), "--only", "warm-start"]
        status = _finished(subprocess.Popen([sys.executable, *words], env=without_launcher(os.environ)))
    if status:
        raise UsageError(f"the warm start failed with status {status}; see its message above")


def _finished(process: subprocess.Popen[bytes]) -> int:
    """Return the exit status of a process; report to the others that it runs."""
    try:
        while True:
            ranks.report("warm start")
            try:
                return process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                pass
    finally:
        process.kill()


def without_launcher(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables without those that make a process one of several."""
    return {
        name: value
        for name, value in variables.items()
        if name not in ("RANK", "WORLD_SIZE") and not name.startswith(_OF_LAUNCHERS)
    }
