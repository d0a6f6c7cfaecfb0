"""The modes of `SearchEnv` by name, and the parsing of its argument `mode`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from agentgym.choices import named, nearest
from agentgym.envs.search.deciding import Deciding
from agentgym.envs.search.judging import Judging
from agentgym.envs.search.mode import Mode
from agentgym.envs.search.simulating import Simulating
from agentgym.errors import UsageError

MODES: Mapping[str, type[Mode]] = {"reseek": Judging, "adasearch": Deciding, "zerosearch": Simulating}

ModeLike = Mode | str | Mapping[str, Any]
"""A mode, its name, or its settings by name with `name` among them, such as `{"name": "zerosearch", "total": 100}`."""


def modes_of(value: ModeLike | Iterable[ModeLike] | None, available: Mapping[str, type[Mode]]) -> tuple[Mode, ...]:
    """Return the modes of an argument.

    Args:
        value: A mode, its name or its settings, or several of these.
        available: The modes that can be named.

    Raises:
        UsageError: There is no such mode, it has no such setting, or it is given twice.
    """
    if value is None:
        return ()
    entries = [value] if isinstance(value, Mode | str | Mapping) or not isinstance(value, Iterable) else value
    modes = [_mode(entry, available) for entry in entries]
    if len({type(mode) for mode in modes}) < len(modes):
        raise UsageError(f"each mode can be given once, not as in {value!r}")
    return tuple(modes)


def _mode(value: Any, available: Mapping[str, type[Mode]]) -> Mode:
    if isinstance(value, Mode):
        return value
    if isinstance(value, str):
        return named("mode", value, available)()
    if not isinstance(value, Mapping) or "name" not in value:
        raise UsageError(
            f"mode must be one of {', '.join(available)}, or its settings {{name: NAME, ...}}, not {value!r}"
        )
    kind = named("mode", value["name"], available)
    settings = {key: setting for key, setting in value.items() if key != "name"}
    takes = list(inspect.signature(kind).parameters)
    for key in settings:
        if key not in takes:
            raise UsageError(
                f"mode {value['name']!r} has no setting {key!r}{nearest(key, takes)} It has: {', '.join(takes)}"
            )
    return kind(**settings)
