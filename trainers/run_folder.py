"""The folder of a training run: its settings, the record of its starts, its checkpoints, and resumption.

`config.yaml` has the settings that a run begins with, `run.json` those that change when it resumes, each with its step,
and `start/` the model and the tokenizer after the warm start. Imports no torch, so that a refusal comes at once.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import link
from pathlib import Path
from typing import Any

from agentgym.base import yaml12
from agentgym.base.errors import UsageError
from agentgym.eval.results.provenance import record_of, runs_in
from agentgym.trainers.config import (
    FIELDS,
    TrainConfig,
    build,
    fitting_micro_batch,
    folder_named,
    load_config,
    quick_output_dir,
    read_recipe,
    short_name,
    to_dict,
)
from agentgym.trainers.passed_on import merged

CONFIG, COMPLETE, START, SUMMARY = "config.yaml", "complete", "start", "summary.json"
"""The settings of a run; the mark of a complete checkpoint; the model of the warm start; the results."""
RUNS = Path("runs")

KEPT = frozenset(
    {name for name in FIELDS if name.startswith(("warm_start_", "tiny_", "eval_", "lora_"))}
    | {"env", "env_kwargs", "strict", "seed", "quick", "model", "dialect", "template_kwargs", "context", "bf16"}
    | {"model_kwargs", "async_training"}
    | {"temperature", "max_new_tokens", "max_tokens"}
)
"""Settings that a resumed run keeps: other values would change its model, tokenizer, tasks or evaluation."""

Changes = dict[str, tuple[Any, Any]]
"""Maps settings to their values before and after."""


@dataclass(frozen=True)
class PlannedRun:
    """A run that is about to begin or to resume."""

    config: TrainConfig
    checkpoint: Path | None
    """`None` if there is none yet."""
    changes: Changes
    """Settings that change now."""
    requested: TrainConfig
    """`config` before it was adapted to this machine."""

    @property
    def step(self) -> int:
        """Number of completed steps."""
        return 0 if self.checkpoint is None else step_of(self.checkpoint)


def step_of(checkpoint: Path) -> int:
    """Return the number of completed steps in a checkpoint, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in a run's folder, or `None`."""
    complete = [
        path
        for path in folder.glob("checkpoint-*")
        if re.fullmatch(r"checkpoint-\d+", path.name) and (path / COMPLETE).is_file()
    ]
    return max(complete, key=step_of, default=None)


def recorded_config(folder: Path) -> TrainConfig:
    """Return the settings of a run, with the changes of its continuations.

    Raises:
        UsageError: The folder holds no run, or one that this release cannot continue.
    """
    if not (folder / CONFIG).is_file():
        raise UsageError(f"there is nothing to resume in {str(folder)!r}{_unfinished_text()}")
    runs = runs_in(record_of(folder))
    if not runs:
        raise UsageError(
            f"{str(folder)!r} was begun by an earlier release, which counted the steps of checkpoints in another way; "
            "continue it with that release, or train anew in another --output-dir"
        )
    values = to_dict(load_config(str(folder / CONFIG)))
    for run in runs:
        values |= {name: after for name, (_, after) in run.get("changes", {}).items()}
    return replace(build(values, {}), output_dir=_escaped(folder), resume=True)


def config_to_resume(recipe: str | None, overrides: Mapping[str, Any]) -> TrainConfig:
    """Return the settings of the run that a command with `--resume` names, with the changes that it asks for.

    Without an environment, a recipe or a folder, this is the only unfinished run in `runs`. A recipe only helps to name
    the run, which has its own settings.

    Raises:
        UsageError: There is no such run, or several unfinished ones.
    """
    named = read_recipe(recipe) if recipe else {}
    is_named = recipe is not None or overrides.keys() & {"env", "output_dir"}
    values = {**named, **overrides}
    if overrides.get("quick") and "output_dir" not in overrides:
        values["output_dir"] = quick_output_dir(values)
    folder = folder_named(values) if is_named else _only_unfinished()
    recorded = to_dict(recorded_config(folder))
    changes = {name: value for name, value in named.items() if name in ("env", "model")} | dict(overrides)
    if "env_kwargs" in changes:
        changes["env_kwargs"] = recorded["env_kwargs"] | changes["env_kwargs"]
    if short_name(str(changes.get("env"))) == short_name(recorded["env"]):
        del changes["env"]
    values = {**merged(recorded, changes), "output_dir": recorded["output_dir"], "resume": True}
    if "micro_batch" not in changes and values["micro_batch"] is not None:
        values["micro_batch"] = fitting_micro_batch(values)
    return build(values, {})


def resumed_run(config: TrainConfig) -> PlannedRun:
    """Return the run in `config.folder` with the settings of `config`.

    Raises:
        UsageError: There is no run, or a setting differs that it keeps.
    """
    before, now = to_dict(recorded_config(config.folder)), to_dict(config)
    names = [name for name in FIELDS if before[name] != now[name] and name not in ("resume", "output_dir")]
    changes = {name: (before[name], now[name]) for name in names}
    if refused := {name: values for name, values in changes.items() if name in KEPT}:
        raise UsageError(
            f"cannot resume {str(config.folder)!r} with other settings: "
            + "; ".join(f"{_flag(name)} is {old!r} in this run, not {new!r}" for name, (old, new) in refused.items())
            + f". A run keeps its model, tasks and evaluation: leave out {', '.join(map(_flag, refused))}, or start "
            "a new run in another --output-dir"
        )
    run = PlannedRun(config, last_checkpoint(config.folder), changes, config)
    if run.step > config.steps:
        raise UsageError(
            f"{str(config.folder)!r} has a checkpoint of step {run.step}, beyond --steps {config.steps}; ask for more "
            "steps, or evaluate its model"
        )
    return run


_REPLACED = ("metrics.jsonl", "summary.json", "samples.jsonl", "curve.png", "eval-before.jsonl", "eval-after.jsonl")
"""Files that a new run in a folder replaces."""


def new_run(config: TrainConfig) -> PlannedRun:
    """Return a new run. It replaces a quick run, and the same run if that has no checkpoint yet.

    Raises:
        UsageError: The folder holds another run.
    """
    folder = config.folder
    if not (folder / CONFIG).is_file():
        if existing := [name for name in _REPLACED if (folder / name).exists()]:
            raise UsageError(
                f"{str(folder)!r} holds {', '.join(existing)}, but no run of agentgym; choose another --output-dir"
            )
    elif not _may_replace(folder, config):
        raise UsageError(
            f"{str(folder)!r} already holds a run; continue it with `{resume_command(folder)}`, or choose another "
            "--output-dir"
        )
    return PlannedRun(config, None, {}, config)


def _may_replace(folder: Path, config: TrainConfig) -> bool:
    """Whether a new run may replace the one in a folder: a quick run, or the same one without a checkpoint."""
    try:
        recorded = load_config(str(folder / CONFIG))
    except UsageError:  # of an earlier release
        return False
    if config.quick and recorded.quick:
        return True
    return last_checkpoint(folder) is None and replace(recorded, output_dir=config.output_dir) == config


def begin(folder: Path, config: TrainConfig) -> None:
    """Write the settings of a new run; remove the record and the checkpoints of the run that it replaces."""
    for checkpoint in folder.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
    record_of(folder).unlink(missing_ok=True)
    (folder / CONFIG).write_text(yaml12.dump(to_dict(config)), encoding="utf-8")


def start_of(folder: Path) -> Path:
    """Return the model of the warm start in a run's folder. Raises `UsageError` if it is missing."""
    if not (folder / START / "config.json").is_file():
        raise UsageError(
            f"{str(folder / START)!r} is missing: without the model of its warm start, a run cannot resume"
        )
    return folder / START


def keep_start(folder: Path, model: Path) -> None:
    """Keep the model of a warm start in a run's folder, as links to the cache if the file system allows it."""
    unfinished = folder / f"{START}.tmp"
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(model, unfinished, copy_function=_link)
    shutil.rmtree(folder / START, ignore_errors=True)
    unfinished.rename(folder / START)


def _link(source: str, target: str) -> None:
    try:
        link(source, target)
    except OSError:
        shutil.copy2(source, target)


def resume_command(folder: Path) -> str:
    """Return the command that continues the run in a folder."""
    return f"agentgym train --resume --output-dir {shlex.quote(_escaped(folder))}"


def check_model_state(folder: Path, state: str) -> None:
    """Raise `UsageError` if the files of a run's pretrained model have changed since the run began."""
    recorded = runs_in(record_of(folder))[0].get("model_state")
    if recorded not in (None, state):
        raise UsageError(
            f"cannot resume {str(folder)!r}: the files of its model have changed since it began; restore them, or "
            "start a new run in another --output-dir"
        )


def how_to_resume(folder: Path, steps: int) -> str | None:
    """Return a message on how to resume an interrupted run of `steps` steps, or `None` if it has written nothing."""
    if not (folder / CONFIG).is_file():
        return None
    checkpoint = last_checkpoint(folder)
    if checkpoint is None:
        return (
            f"The run in {folder} has no checkpoint yet; `{resume_command(folder)}` starts its training again and "
            "keeps the finished evaluations."
        )
    done = f"step {step_of(checkpoint)} of {steps}"
    return f"The run in {folder} has a checkpoint of {done}; `{resume_command(folder)}` continues from it."


def changes_text(changes: Changes) -> str:
    """Return changed settings as text."""
    return ", ".join(f"{name} {before!r} → {after!r}" for name, (before, after) in changes.items())


def _flag(name: str) -> str:
    return "--set" if name == "env_kwargs" else f"--{name.replace('_', '-')}"


def _escaped(folder: Path) -> str:
    """Return a folder as a value of `output_dir`, where braces are placeholders."""
    return str(folder).replace("{", "{{").replace("}", "}}")


def _unfinished() -> list[Path]:
    """Return the folders of unfinished runs, latest first."""
    configs = [path for path in RUNS.glob(f"*/{CONFIG}") if not (path.parent / SUMMARY).is_file()]
    return [path.parent for path in sorted(configs, key=lambda path: path.stat().st_mtime, reverse=True)]


def _unfinished_text() -> str:
    names = ", ".join(str(folder) for folder in _unfinished()[:5])
    return f"; unfinished runs: {names} (--output-dir)" if names else ""


def _only_unfinished() -> Path:
    folders = _unfinished()
    if not folders:
        raise UsageError("there is no unfinished run in 'runs'; name its folder with --output-dir")
    if len(folders) > 1:
        raise UsageError(f"several runs can be resumed; name one with --output-dir: {', '.join(map(str, folders[:5]))}")
    return folders[0]
