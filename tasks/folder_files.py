"""Reads files of untrusted task folders: regular files of bounded size that lie inside the folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentgym.base.strict_json import json_kind
from agentgym.core.task_files import Unusable

MAX_BYTES = 1_000_000


def read_text(path: Path, what: str = "") -> str:
    """Return the text of a file, without a byte order mark.

    Args:
        path: The file.
        what: Its name in messages; by default the file name.

    Raises:
        Unusable: The file is missing, not a regular file, not UTF-8, or larger than `MAX_BYTES`.
    """
    what = what or path.name
    try:
        if not path.is_file():
            raise Unusable(f"{what} is {'not a file' if path.exists() else 'missing'}")
        if path.stat().st_size > MAX_BYTES:
            raise Unusable(f"{what} has more than {MAX_BYTES} bytes")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"{what} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise Unusable(f"{what} cannot be read: {error.strerror or error}") from error
    return text.replace("\r\n", "\n")


def refuse_links_out(folder: Path, paths: Iterable[Path]) -> None:
    """Refuse links out of a task folder, which would disclose other files of this machine to the agent.

    Args:
        folder: The folder of the task.
        paths: The paths in it whose content is read.

    Raises:
        Unusable: A path is, or lies below, a link to outside the folder.
    """
    inside = folder.resolve()
    for path in paths:
        try:
            is_inside = path.resolve().is_relative_to(inside)
        except (OSError, RuntimeError) as error:  # a link to itself
            raise Unusable(f"{path.relative_to(folder)} cannot be followed: {error}") from error
        if not is_inside:
            raise Unusable(
                f"{path.relative_to(folder)} is a link to outside the folder; replace it with a copy of its target"
            )


def as_texts(value: Any, what: str) -> tuple[str, ...]:
    """Return a list of texts or numbers as texts; empty for null. Raises `Unusable` for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str | int | float) for item in value):
        raise Unusable(f"{what} must be a list of texts, not {json_kind(value)}: {value!r:.60}")
    return tuple(map(str, value))
