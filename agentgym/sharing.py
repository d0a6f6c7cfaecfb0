"""Task sources that are read from files: loaded once in a process, however many environments take tasks from them.

A source is loaded again when its files change. Loading is slow and blocking; whoever has an event loop does it in a
thread (`rollout.EnvPool`).
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from agentgym.task import TaskSource

_KEPT = 8
"""Sources that are kept although nobody uses them at the moment."""


@dataclass(eq=False)
class _Loaded:
    """A source that is loaded by the first who asks for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    source: TaskSource | None = None


_lock = threading.Lock()
_recent: OrderedDict[str, _Loaded] = OrderedDict()


def shared(loader: str, path: str | Path, options: Mapping[str, Any]) -> TaskSource:
    """Return the task source of a file or folder, loading it if this process has not done so.

    Args:
        loader: `module:Class`; called with the path and the options.
        path: The file or folder.
        options: What else the class takes, as JSON data.
    """
    key = _key(loader, Path(path), options)
    with _lock:
        loaded = _recent.setdefault(key, _Loaded())
        _recent.move_to_end(key)
        while len(_recent) > _KEPT:
            _recent.popitem(last=False)
    with loaded.lock:
        if loaded.source is None:
            module, _, name = loader.partition(":")
            loaded.source = getattr(import_module(module), name)(path, **options)
        assert loaded.source is not None
        return loaded.source


def _key(loader: str, path: Path, options: Mapping[str, Any]) -> str:
    """Return what tells one source in one state of its files from every other."""
    return json.dumps([loader, str(path.absolute()), options, [*state_of(path)]], sort_keys=True, default=repr)


def state_of(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and time of change of a file, or of what lies in a folder and in the folders in it."""
    here = _inside(path)
    for file in [path, *here, *(entry for inner in here for entry in _inside(inner))]:
        with suppress(OSError):  # a link to nothing, or a file that has just gone: whoever loads it says so
            stat = file.stat()
            yield str(file), stat.st_size, stat.st_mtime_ns


def _inside(folder: Path) -> list[Path]:
    """Return what a folder holds; nothing of what is no folder, or may not be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _after_fork_in_child() -> None:
    """A lock that another thread held at the fork would never be released in the child."""
    global _lock
    _lock = threading.Lock()
    for loaded in _recent.values():
        loaded.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
