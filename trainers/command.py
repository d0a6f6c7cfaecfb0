"""`agentgym train`: parses the command line and starts a run. Every setting of `TrainConfig` is a flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from agentgym.base.errors import UsageError, require
from agentgym.base.settings import name_of, parse_settings, read_value
from agentgym.trainers.config import FIELDS, bundled_recipes, describe, load_config

USAGE = """\
Usage: agentgym train [--recipe NAME|FILE.yaml] [--SETTING VALUE ...] [--set ENV_ARGUMENT=VALUE ...]

Train a policy with trajectory-level GRPO.

  agentgym train --env sql                           a tiny model learns to query databases
  agentgym train --env sql --credit turn --steps 30  every setting is a flag
  agentgym train --env sql --set difficulty=2        arguments of the environment
  agentgym train --env sql --set folder=DIR          tasks from files (see: agentgym tasks sources)
  agentgym train --recipe sql-qwen3-lora             a real model on a GPU
  agentgym train --env sql --show-config             all settings, with explanations

Values are YAML, as for --set in all commands: 3, 5e-4, true, null, [1, 2], {{a: 1}}, text.

Recipes: {recipes}
"""


def main(words: Sequence[str]) -> None:
    """Run the command. Raises `UsageError` if the arguments are not valid."""
    recipe, overrides, wants = parse(words)
    if "help" in wants:
        print_plain(USAGE.format(recipes=", ".join(bundled_recipes())))
        return
    config = load_config(recipe, overrides)
    if "show-config" in wants:
        print_plain(describe(config))
        return
    if recipe is None and "env" not in overrides:
        raise UsageError("name an environment (--env sql) or a recipe (--recipe sql); see: agentgym train --help")
    require("torch", "train")
    from agentgym.trainers.train import train
    from agentgym.trainers.training_setup import how_to_resume

    try:
        train(config)
    except KeyboardInterrupt:
        if (text := how_to_resume(config)) is not None:
            Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(text)
        raise


def print_plain(text: str) -> None:
    """Print text without markup or wrapping."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text, end="")


def parse(words: Sequence[str]) -> tuple[str | None, dict[str, Any], set[str]]:
    """Return the recipe, the settings to override, and which of `--help` and `--show-config` are given."""
    recipe: str | None = None
    overrides: dict[str, Any] = {}
    wants: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-h":
            wants.add("help")
            continue
        if not word.startswith("--"):
            raise UsageError(f"unexpected {word!r}; write settings as --steps 30. See: agentgym train --help")
        name, equals, value = word.removeprefix("--").partition("=")
        if name in ("help", "show-config"):
            wants.add(name)
            continue
        field = FIELDS.get(name_of(name))
        if field is not None and field.type == "bool" and not equals and (not rest or rest[0].startswith("--")):
            value = "true"
        elif not equals:
            if not rest:
                raise UsageError(f"--{name} needs a value")
            value = rest.pop(0)
        if name == "recipe":
            recipe = value
        elif name == "set":
            overrides.setdefault("env_kwargs", {}).update(parse_settings([value]))
        else:
            overrides[name_of(name)] = _read(name, value)
    return recipe, overrides, wants


def _read(name: str, text: str) -> Any:
    """Return the value of a flag, read as `--set` reads it; settings of type text keep the text unchanged."""
    value = read_value(text, f"--{name}")
    kind = FIELDS[name_of(name)].type if name_of(name) in FIELDS else None
    return text if kind == "str" or (kind == "str | None" and value is not None) else value
