"""The modes of `SearchEnv` by name, and how an argument names them."""

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


def modes_of(given: ModeLike | Iterable[ModeLike] | None, known: Mapping[str, type[Mode]]) -> tuple[Mode, ...]:
    """Return the modes that an argument names: one, several or none.

    Args:
        given: The argument.
        known: The modes that can be named.

    Raises:
        UsageError: There is no such mode, it has no such setting, or it is given twice.
    """
    if given is None:
        return ()
    several = [given] if isinstance(given, Mode | str | Mapping) or not isinstance(given, Iterable) else given
    modes = [_mode(one, known) for one in several]
    if len({type(mode) for mode in modes}) < len(modes):
        raise UsageError(f"each mode can be given once, not as in {given!r}")
    return tuple(modes)


def _mode(given: Any, known: Mapping[str, type[Mode]]) -> Mode:
    if isinstance(given, Mode):
        return given
    if isinstance(given, str):
        return named("mode", given, known)()
    if not isinstance(given, Mapping) or "name" not in given:
        raise UsageError(f"mode must be one of {', '.join(known)}, or its settings {{name: NAME, ...}}, not {given!r}")
    kind = named("mode", given["name"], known)
    settings = {key: value for key, value in given.items() if key != "name"}
    takes = list(inspect.signature(kind).parameters)
    for key in settings:
        if key not in takes:
            raise UsageError(
                f"mode {given['name']!r} has no setting {key!r}{nearest(key, takes)} It has: {', '.join(takes)}"
            )
    return kind(**settings)
