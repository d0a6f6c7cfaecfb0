"""Arguments of environments that come from a file: a recording that is replayed, the settings beside a checkpoint.

Anybody may have written it. It cannot choose code, a place or how strongly something is confined: of what it asks for,
only the arguments that an environment declares as harmless (`Env.harmless_arguments`) are taken, and only plain values.
Everything else has to be said by the person who runs the command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.registry import is_class_path
from agentgym.task_files import with_defaults

_NAME = re.compile(r"\w[\w .+-]*")
"""What a text may be: neither a path nor a URL nor `module:Class`."""


def refuse_class(env_id: str, source: str) -> None:
    """Raise `UsageError` if a file names an environment by its class, whose module would be imported."""
    if is_class_path(env_id):
        raise UsageError(f"{source} names the class {env_id!r}; if you trust it, say so with --env {env_id}")


def recorded_arguments(
    kind: type[Env], recorded: Mapping[str, Any], given: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the arguments of a file, replaced by those that a person gave.

    Args:
        kind: The environment that takes them.
        recorded: What the file asks for.
        given: What a person gave.
        source: Names the file, for the message.

    Raises:
        UsageError: The file asks for what only a person may choose.
    """
    for name, value in recorded.items():
        if name not in given and (problem := _problem(kind, name, value)):
            raise UsageError(f"{source} {problem}; if you trust it, say so with --set {name}=...")
    return with_defaults(kind.files, recorded, given, source)


def _problem(kind: type[Env], name: str, value: Any) -> str | None:
    if name not in kind.harmless_arguments:
        return f"sets {name!r}, which may name code or a place, or weaken a sandbox"
    if not _is_plain(value):
        return f"sets {name!r} to something other than plain names and numbers"
    if name == "scheme" and value is not None and kind.choose_scheme(value).allow_unsound:
        return f"asks for the unsound scheme {value!r}"
    return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return _NAME.fullmatch(value) is not None
    if isinstance(value, Mapping):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or (isinstance(value, int | float) and isfinite(value))
