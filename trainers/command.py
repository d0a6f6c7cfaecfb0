"""`agentgym train`: from words on the command line to a run. Every setting of `TrainConfig` is a flag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from rich.console import Console

from agentgym.errors import UsageError
from agentgym.trainers.config import FIELDS, bundled_recipes, describe, load_config

USAGE = """\
Usage: agentgym train [--recipe NAME|FILE.yaml] [--SETTING VALUE ...] [--set ENV_ARGUMENT=VALUE ...]

Train a policy with trajectory-level GRPO.

  agentgym train --env sql                          the main job: a tiny model learns to query databases
  agentgym train --env sql --credit turn --steps 30  any setting is a flag
  agentgym train --env sql --set difficulty=2        arguments of the environment
  agentgym train --env sql --set folder=DIR          tasks from files (agentgym tasks sources)
  agentgym train --recipe sql-qwen3-lora             a real model on a GPU
  agentgym train --env sql --show-config             every setting, with what it means

Recipes: {recipes}
"""


def main(words: Sequence[str]) -> None:
    """Run the command. Raises `UsageError` for words that make no sense."""
    recipe, overrides, wants = parse(words)
    if "help" in wants:
        print_plain(USAGE.format(recipes=", ".join(bundled_recipes())))
        return
    config = load_config(recipe, overrides)
    if "show-config" in wants:
        print_plain(describe(config))
        return
    from agentgym.trainers.train import train

    train(config)


def print_plain(text: str) -> None:
    """Print text as it is."""
    Console(soft_wrap=True, highlight=False, markup=False).print(text, end="")


def parse(words: Sequence[str]) -> tuple[str | None, dict[str, Any], set[str]]:
    """Return the recipe, the settings to override, and which of `--help` and `--show-config` were asked for."""
    recipe: str | None = None
    overrides: dict[str, Any] = {}
    wants: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise UsageError(f"unexpected {word!r}; settings look like --steps 30. Try 'agentgym train --help'")
        name, equals, value = word.removeprefix("--").partition("=")
        if name in ("help", "show-config"):
            wants.add(name)
            continue
        field = FIELDS.get(name.replace("-", "_"))
        if field is not None and field.type == "bool" and not equals and (not rest or rest[0].startswith("--")):
            value = "true"
        elif not equals:
            if not rest:
                raise UsageError(f"--{name} needs a value")
            value = rest.pop(0)
        if name == "recipe":
            recipe = value
        elif name == "set":
            overrides.setdefault("env_kwargs", {}).update(_assignment(value))
        else:
            overrides[name.replace("-", "_")] = _typed(name, value)
    return recipe, overrides, wants


def _assignment(text: str) -> dict[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set takes NAME=VALUE, not {text!r}")
    return {name: _typed(name, value)}


def _typed(name: str, value: str) -> Any:
    """Read a value as YAML does: numbers, true, null, [lists], {mappings}; anything else is text."""
    field = FIELDS.get(name.replace("-", "_"))
    if field is not None and field.type in ("str", "str | None"):
        return value
    try:
        return float(value) if _is_exponent(value) else yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise UsageError(f"--{name}: cannot read {value!r}") from error


def _is_exponent(value: str) -> bool:
    """Whether this is a number such as `5e-4`, which YAML takes for text."""
    try:
        float(value)
    except ValueError:
        return False
    return "e" in value.lower()
