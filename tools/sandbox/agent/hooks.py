"""What modules want done when a process forks (`os.register_at_fork`): left out of the agent's forks, done for runs.

The hooks of `random` and `threading` alone cost as much as the fork, and agents have neither random state nor threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

_register = getattr(os, "register_at_fork", lambda **_: None)
_kept: list[dict[str, Callable[[], Any]]] = []
_own: list[Callable[[], Any]] = []
"""Does for `random` and `threading` what their hooks would; the first of `_kept` are theirs."""
_known = 0


def collect() -> None:
    """Keep all hooks from now on, instead of having them run. To be called before anything is imported."""
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


def fulfil() -> None:
    """In a new process that is not the agent's any more: do what was left out, and have its own forks do it."""
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
