"""Task sources that are read from files: loaded once per process and shared by all environments.

A source is reloaded when its files change. Loading is slow and blocks; callers with an event loop do it in a thread
(`rollout.EnvPool`).
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.loading import load_named
from agentgym.task import TaskSource

_KEPT = 8
"""Number of most recently used sources to keep."""


@dataclass(eq=False)
class _Loaded:
    """A task source that is loaded on first use."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    source: TaskSource | None = None


_lock = threading.Lock()
_recent: OrderedDict[str, _Loaded] = OrderedDict()


def shared(loader: str, path: str | Path, options: Mapping[str, Any]) -> TaskSource:
    """Return the task source of a file or folder, loading it on first use in this process.

    Args:
        loader: `module:Class`; called with the path and the options.
        path: The file or folder.
        options: Further arguments of the class, as JSON data.
    """
    key = _key(loader, Path(path), options)
    with _lock:
        loaded = _recent.setdefault(key, _Loaded())
        _recent.move_to_end(key)
        while len(_recent) > _KEPT:
            _recent.popitem(last=False)
    with loaded.lock:
        if loaded.source is None:
            loaded.source = load_named(loader, "a task source class")(path, **options)
        assert loaded.source is not None
        return loaded.source


def _key(loader: str, path: Path, options: Mapping[str, Any]) -> str:
    """Return a key that identifies a source and the state of its files."""
    return json.dumps([loader, str(path.absolute()), options, [*state_of(path)]], sort_keys=True, default=repr)


def state_of(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and modification time of `path` and, if it is a folder, of its contents two levels deep."""
    here = _inside(path)
    for file in [path, *here, *(entry for inner in here for entry in _inside(inner))]:
        with suppress(OSError):  # a dangling link or a file just removed; loading reports it
            stat = file.stat()
            yield str(file), stat.st_size, stat.st_mtime_ns


def _inside(folder: Path) -> list[Path]:
    """Return the contents of a folder; nothing if it is not a folder or not readable."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _after_fork_in_child() -> None:
    """Replace all locks: a lock that another thread held at the fork would never be released in the child."""
    global _lock
    _lock = threading.Lock()
    for loaded in _recent.values():
        loaded.lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
