"""`agentgym train`: every setting of `TrainConfig` is an option."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from agentgym.base.command_options import Settings
from agentgym.base.errors import UsageError
from agentgym.base.settings import parse_settings, read_value
from agentgym.trainers.config import FIELDS, TrainConfig, bundled_recipes, describe, documentation, load_config
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.passed_on import MAPPINGS
from agentgym.trainers.requirements import check_installed
from agentgym.trainers.run_folder import config_to_resume, how_to_resume, resumed_run

app = typer.Typer(add_completion=False)

Recipe = Annotated[
    str | None,
    typer.Option(metavar="NAME|FILE.yaml", help=f"Settings to start from: {', '.join(bundled_recipes())}, or a file."),
]
ShowConfig = Annotated[bool, typer.Option("--show-config", help="Print all settings as YAML, and stop.")]
Only = Annotated[
    Literal["warm-start"] | None,
    typer.Option("--only", help="Make the model after the warm start, print its folder, and stop."),
]

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Build everything with a random model of two layers in the true shape, play one group, take one step, and "
        "print estimates of memory and time.",
    ),
]


def train(
    recipe: Recipe = None,
    settings: Settings = None,
    show_config: ShowConfig = False,
    only: Only = None,
    dry_run: DryRun = False,
    **options: Any,
) -> None:
    """Train a policy with trajectory-level GRPO.

    \b
    agentgym train --env sql                     a tiny model learns SQL
    agentgym train --env mine:Class --quick      a trial of the whole run
    agentgym train --resume                      continue an interrupted run
    agentgym train --env sql --credit turn       with other settings
    agentgym train --env sql --set folder=DIR    on tasks from files
    agentgym train --recipe sql-qwen3-lora       a real model on a GPU
    agentgym train --recipe sql-qwen3-lora --dry-run       a trial without its weights

    Values are YAML: 3, 5e-4, null, [1, 2], {a: 1}, text. Task files: agentgym tasks sources.
    """
    overrides = overrides_of(options, settings or ())
    is_resumed = overrides.get("resume", False)
    config = config_to_resume(recipe, overrides) if is_resumed else load_config(recipe, overrides)
    if show_config:
        print_plain(describe(config))
        return
    if not is_resumed and recipe is None and "env" not in overrides:
        raise UsageError("name an environment (--env sql) or a recipe (--recipe sql); see: agentgym train --help")
    # Check first: importing the libraries takes seconds.
    check_installed(replace(config, use_vllm=False, vllm={}) if dry_run else config)
    if only is not None:
        if is_resumed:
            raise UsageError("--only warm-start makes a new run's model: leave out --resume")
        from agentgym.trainers.train import warm_start

        print_plain(f"{warm_start(config)}\n")
        return
    if dry_run:
        from agentgym.trainers.dry_run import dry_run as start_dry_run

        return start_dry_run(config)
    if is_resumed:
        resumed_run(config)
    console = Console(quiet=os.environ.get("RANK", "0") != "0")
    if config.quick and not is_resumed:
        full = load_config(recipe, {**overrides, "quick": False})
        print_plain(f"A quick run cuts {cuts_text(full, config)}.\n", console)
    with RunProgress(console) as progress:
        progress("importing torch, transformers and trl", 0, 1)
        from agentgym.trainers.train import train

        progress("importing torch, transformers and trl", 1, 1)
    try:
        train(config)
    except KeyboardInterrupt:
        if (text := how_to_resume(config.folder, config.steps)) is not None:
            print_plain(f"{text}\n", Console(stderr=True))
        raise


def print_plain(text: str, console: Console | None = None) -> None:
    """Print text without markup or wrapping."""
    (console or Console()).print(text, end="", soft_wrap=True, highlight=False, markup=False)


def cuts_text(full: TrainConfig, quick: TrainConfig) -> str:
    """Return the settings that a quick run changes, as text."""
    pairs = (
        (name, getattr(full, name), getattr(quick, name)) for name in FIELDS if name not in ("quick", "output_dir")
    )
    return ", ".join(f"{name} {before} → {after}" for name, before, after in pairs if before != after)


def overrides_of(options: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Return the settings of `TrainConfig` that the command line changes.

    Args:
        options: The options as typed, by field; `None` where an option was not used.
        settings: Arguments of the environment, such as `difficulty=2`.

    Raises:
        UsageError: A value cannot be read.
    """
    overrides = {name: _read(name, value) for name, value in options.items() if value not in (None, [], ())}
    if arguments := parse_settings(settings):
        overrides["env_kwargs"] = overrides.get("env_kwargs", {}) | arguments
    return overrides


def _read(name: str, value: str | bool | Sequence[str]) -> Any:
    """Return the value of an option, read as `--set` reads it; settings of type text keep the text unchanged."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return parse_settings(value, f"--{name.replace('_', '-')}")
    parsed = read_value(value, f"--{name.replace('_', '-')}")
    kind = FIELDS[name].type
    return value if kind == "str" or (kind == "str | None" and parsed is not None) else parsed


def panels() -> dict[str, str]:
    """Return the heading in the source of `TrainConfig` that each field stands under."""
    panels: dict[str, str] = {}
    heading = ""
    for line in inspect.getsource(TrainConfig).splitlines():
        if line.startswith("    # "):
            heading = line.removeprefix("    # ")
        elif (name := line.strip().partition(":")[0]) in FIELDS:
            panels[name] = heading
    return panels


_FLAGS = {"async_training": "--async"}
"""Options that are not named like their setting."""


def _add_fields() -> None:
    """Give `train` an option for each field of `TrainConfig`."""
    headings = panels()
    parameters = [p for p in inspect.signature(train, eval_str=True).parameters.values() if p.name != "options"]
    for name, field in FIELDS.items():
        flag = _FLAGS.get(name, f"--{name.replace('_', '-')}")
        is_switch, is_mapping = field.type == "bool", name in MAPPINGS
        option = typer.Option(
            f"{flag}/--no-{flag.removeprefix('--')}" if is_switch else flag,
            metavar=None if is_switch else "KEY=VALUE" if is_mapping else "VALUE",
            help=documentation(name),
            rich_help_panel=headings.get(name),
        )
        kind = bool | None if is_switch else list[str] | None if is_mapping else str | None
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option])
        )
    train.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    train.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


_add_fields()
app.command(context_settings={"token_normalize_func": lambda word: word.replace("_", "-")})(train)
