"""Defers the hooks of `os.register_at_fork`: skipped in the agent's forks, called in runs.

The hooks of `random` and `threading` alone cost as much as the fork, and agents have neither random state nor threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

_register = getattr(os, "register_at_fork", lambda **_: None)
_kept: list[dict[str, Callable[[], Any]]] = []
_own: list[Callable[[], Any]] = []
"""Replaces the hooks of `random` and `threading`, which are the first of `_kept`."""
_known = 0


def collect() -> None:
    """Collect all hooks from now on instead of running them. Call it before importing anything."""
    global _known
    os.register_at_fork = _keep  # pyright: ignore[reportAttributeAccessIssue]
    import _random
    import _thread
    import random
    import threading

    generator = random._inst  # pyright: ignore[reportAttributeAccessIssue]
    thread = threading.main_thread()

    def renew() -> None:
        _random.Random.seed(generator)
        thread._native_id = _thread.get_native_id()  # pyright: ignore[reportAttributeAccessIssue]

    _own.append(renew)
    _known = len(_kept)


def _keep(**hooks: Callable[[], Any]) -> None:
    _kept.append(hooks)


def run_deferred() -> None:
    """In a run's process: call the skipped hooks, and register them for its own forks."""
    os.register_at_fork = _register
    for renew in _own:
        renew()
    for hooks in reversed(_kept[_known:]):
        hooks.get("before", _nothing)()
    for hooks in _kept[_known:]:
        hooks.get("after_in_child", _nothing)()
    for hooks in _kept:
        _register(**hooks)


def _nothing() -> None:
    pass
