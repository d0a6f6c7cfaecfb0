"""Settings typed on the command line: arguments of environments (`--set KEY=VALUE`) and flags of training.

All commands parse them alike. Hyphens in a key stand for underscores. A value is YAML 1.2: numbers (`3`, `5e-4`),
`true`, `false`, `null` (or nothing), lists (`[1, 2]`), maps (`{a: 1}`); anything else is text, quoted or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import yaml

from agentgym.base import yaml12
from agentgym.base.errors import UsageError


def parse_settings(settings: Iterable[str], flag: str = "--set") -> dict[str, Any]:
    """Return `KEY=VALUE` settings as arguments; for a repeated key, the last value counts.

    Args:
        settings: The settings as typed on the command line.
        flag: The flag they were given with, for error messages.

    Raises:
        UsageError: A setting has the wrong form.
    """
    arguments: dict[str, Any] = {}
    for setting in settings:
        key, text = split_pair(setting, flag)
        name = name_of(key)
        if not name.isidentifier():
            raise UsageError(f"{flag} {setting!r}: {key!r} cannot be the name of an argument")
        arguments[name] = read_value(text, f"{flag} {name}")
    return arguments


def split_pair(pair: str, flag: str, form: str = "KEY=VALUE") -> tuple[str, str]:
    """Return both sides of `KEY=VALUE`. Raises `UsageError` if the key or the `=` is missing."""
    key, equals, value = pair.partition("=")
    if not key.strip() or not equals:
        raise UsageError(f"{flag} takes {form}, not {pair!r}")
    return key.strip(), value


def name_of(key: str) -> str:
    """Return the argument name for a key: `tool-cost` is `tool_cost`."""
    return key.replace("-", "_")


def read_value(text: str, what: str) -> Any:
    """Parse a value.

    Args:
        text: The value as typed.
        what: Name of the setting, for error messages.

    Raises:
        UsageError: A list or a map is malformed.
    """
    try:
        value = yaml12.load(text)
        # Recordings store the arguments of an environment as JSON.
        json.dumps(value, allow_nan=False)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        if text.lstrip().startswith(("[", "{")):
            raise UsageError(f"{what}: cannot read {text!r} as a list or a map") from error
        return text
    return value
