"""The index that an environment searches: the user's own, or one built for a task's corpus."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from agentgym.base.cache import cache_folder
from agentgym.base.errors import UsageError
from agentgym.tasks.search import documents_of
from agentgym.tools.index import Index, SearchR1Client, build_index, open_index

_KEPT = 8
_lock = threading.Lock()
_open: OrderedDict[Path, Index] = OrderedDict()
"""Open indexes of corpora, shared by all environments of this process; the most recently used one is last."""


def index_of(corpus: Mapping[str, Any], backend: str) -> Index:
    """Return the index of a task's corpus, built once and cached.

    Args:
        corpus: The description of a generated corpus, from a task's data.
        backend: The engine of the index.
    """
    folder = cache_folder() / "indexes" / _key(corpus, backend)
    with _lock:
        index = _open.get(folder)
        if index is None:
            if not folder.exists():
                build_index(documents_of(corpus), folder, backend).close()
            index = _open[folder] = open_index(folder)
            while len(_open) > _KEPT:
                # Not closed: an episode may still be searching it.
                _open.popitem(last=False)
        _open.move_to_end(folder)
        return index


def given_index(index: Any) -> Index | None:
    """Return the index that an argument names: an index, its folder, or the address of a retrieval server."""
    if index is None or not isinstance(index, str | Path):
        return index
    if str(index).startswith(("http://", "https://")):
        return SearchR1Client(str(index))
    folder = Path(index)
    if not folder.is_dir():
        raise UsageError(f"no index in {str(index)!r}; make one: agentgym index build SOURCE --out {index}")
    return open_index(folder)


def _key(corpus: Mapping[str, Any], backend: str) -> str:
    text = json.dumps([corpus, backend, _generator()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def _generator() -> str:
    """Return a hash of the code that generates corpora: an index from other code is not used."""
    return code_hash(files("agentgym.tasks.search"))


def code_hash(folder: Traversable) -> str:
    """Return a hash of the modules in a folder and in all folders inside it."""
    digest = hashlib.sha256()
    for name, code in sorted(_modules(folder)):
        digest.update(name.encode() + b"\0" + code)
    return digest.hexdigest()


def _modules(folder: Traversable, inside: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = f"{inside}{entry.name}"
        if entry.is_dir():
            yield from _modules(entry, f"{name}/")
        elif name.endswith(".py"):
            yield name, entry.read_bytes()
