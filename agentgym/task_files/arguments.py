"""Environment arguments from others: a recording to replay, the settings next to a checkpoint, a served client.

They are untrusted. They must not choose code, locations or the strength of a sandbox, so only arguments that the
environment declares as harmless (`Env.harmless_arguments`) are accepted, and only with plain values. The user who runs
the command must pass everything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.registry import is_class_path
from agentgym.task_files.declaring import with_defaults

_NAME = re.compile(r"\w[\w .+-]*")
"""Form of a permitted text: not a path, a URL or `module:Class`."""


def refuse_class(env_id: str, source: str) -> None:
    """Raise `UsageError` if a file names an environment by its class, because that would import the module."""
    if is_class_path(env_id):
        raise UsageError(f"{source} names the class {env_id!r}; if you trust it, say so with --env {env_id}")


def recorded_arguments(
    kind: type[Env], recorded: Mapping[str, Any], user_arguments: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the arguments from a file, overridden by the user's.

    Args:
        kind: Class of the environment that takes them.
        recorded: The arguments in the file.
        user_arguments: The arguments from the user.
        source: Name of the file, for the message.

    Raises:
        UsageError: The file sets an argument that only the user may set.
    """
    for name, value in recorded.items():
        if name not in user_arguments and (problem := why_refused(kind, name, value)):
            raise UsageError(f"{source} {problem}; if you trust it, say so with --set {name}=...")
    return with_defaults(kind.files, recorded, user_arguments, source)


def why_refused(kind: type[Env], name: str, value: Any) -> str | None:
    """Return the problem with an argument from an untrusted source, as the end of a sentence, or `None`."""
    if name not in kind.harmless_arguments:
        return f"sets {name!r}, which may name code or a place, or weaken a sandbox"
    try:
        is_plain = _is_plain(value)
    except RecursionError:
        is_plain = False
    if not is_plain:
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
