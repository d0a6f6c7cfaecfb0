"""A pool that starts sandboxes in the background, so that opening one rarely has to wait."""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import sys
import threading
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox import registry
from agentgym.tools.sandbox.backend import START_TIMEOUT_S, Launched, SandboxBackend, SandboxStartFailed
from agentgym.tools.sandbox.connection import ConnectionBroken, greet
from agentgym.tools.sandbox.sandbox import AsyncSandbox, Sandbox, connect, connect_async
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier

_log = logging.getLogger(__name__)

SPARE = 4
"""Sandboxes kept ready for each kind that was opened more than once."""
_AT_MOST = {SandboxTier.DOCKER: 2, SandboxTier.REMOTE: 0}
"""Maximum of ready sandboxes for tiers whose idle sandboxes are expensive."""
_KINDS = 4
"""Kinds of sandboxes kept ready; the least recently used is evicted."""


@dataclass
class _Kind:
    backend: SandboxBackend
    spec: SandboxSpec
    ready: deque[Launched] = field(default_factory=deque)
    starting: int = 0
    uses: int = 0


class SandboxPool:
    """Hands out fresh sandboxes and prepares more in the background. A sandbox is never reused.

    Args:
        spare: Ready sandboxes of each kind; 0 starts each one on demand.
        makers: Threads that start sandboxes.
    """

    def __init__(self, spare: int = SPARE, makers: int = 2):
        if spare < 0 or makers < 1:
            raise UsageError(f"spare={spare!r} must not be negative, and makers={makers!r} must be at least 1")
        self._spare = spare
        self._makers = makers
        self._reset()
        _pools.add(self)

    def open(
        self, spec: SandboxSpec | None = None, *, backend: str | SandboxBackend = "auto", allow_weak: bool = False
    ) -> Sandbox:
        """Return a fresh sandbox."""
        spec = spec or SandboxSpec()
        chosen_backend = registry.choose(backend, spec, allow_weak)
        launched = self._take(chosen_backend, spec)
        sandbox = connect(launched, spec, chosen_backend.tier, registry.notes(chosen_backend, launched.notes))
        self._opened.add(sandbox.core)
        return sandbox

    async def open_async(
        self, spec: SandboxSpec | None = None, *, backend: str | SandboxBackend = "auto", allow_weak: bool = False
    ) -> AsyncSandbox:
        """Return a fresh sandbox whose methods are coroutines for the running loop."""
        spec = spec or SandboxSpec()
        chosen_backend = await asyncio.to_thread(registry.choose, backend, spec, allow_weak)
        launched = await asyncio.to_thread(self._take, chosen_backend, spec)
        sandbox = connect_async(launched, spec, chosen_backend.tier, registry.notes(chosen_backend, launched.notes))
        self._opened.add(sandbox)
        return sandbox

    def close(self) -> None:
        """Close every sandbox of this pool. Safe to call twice."""
        with self._change:
            self._closed = True
            idle = [launched for kind in self._kinds.values() for launched in kind.ready]
            self._kinds.clear()
            self._change.notify_all()
            threads = list(self._threads)
        for launched in idle:
            _end(launched)
        for core in list(self._opened):
            core.end("the pool was closed")
        for thread in threads:
            thread.join(START_TIMEOUT_S)

    def _take(self, backend: SandboxBackend, spec: SandboxSpec) -> Launched:
        sys.audit("agentgym.sandbox.open", str(backend.tier))
        kind = self._kind(backend, spec)
        while True:
            with self._change:
                launched = kind.ready.popleft() if kind.ready else None
                self._change.notify()
            if launched is None:
                return _start(backend, spec)
            if _alive(launched):
                return launched
            _end(launched)

    def _kind(self, backend: SandboxBackend, spec: SandboxSpec) -> _Kind:
        key = _key(backend, spec)
        with self._change:
            if self._closed:
                raise UsageError("this sandbox pool is closed")
            kind = self._kinds.setdefault(key, _Kind(backend, spec))
            kind.uses += 1
            self._kinds.move_to_end(key)
            old = self._kinds.popitem(last=False)[1] if len(self._kinds) > _KINDS else None
            if kind.uses > 1 and self._target(kind):
                self._start_makers()
        for launched in old.ready if old is not None else ():
            _end(launched)
        return kind

    def _start_makers(self) -> None:
        while len(self._threads) < self._makers:
            thread = threading.Thread(target=self._make, name="agentgym-sandboxes", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _make(self) -> None:
        """Start missing sandboxes until the pool is closed."""
        while True:
            with self._change:
                kind = self._missing()
                while kind is None:
                    if self._closed:
                        return
                    self._change.wait()
                    kind = self._missing()
                kind.starting += 1
            try:
                launched = _start(kind.backend, kind.spec)
            except Exception:  # the next `open` gets the same error in its own thread
                launched = None
            with self._change:
                kind.starting -= 1
                needed = not self._closed and kind in self._kinds.values()
                if launched is None:
                    kind.uses = 0
                elif needed:
                    kind.ready.append(launched)
            if launched is not None and not needed:
                _end(launched)

    def _missing(self) -> _Kind | None:
        for kind in reversed(self._kinds.values()):
            if kind.uses > 1 and len(kind.ready) + kind.starting < self._target(kind) and not self._closed:
                return kind
        return None

    def _target(self, kind: _Kind) -> int:
        return min(self._spare, _AT_MOST.get(kind.backend.tier, self._spare))

    def _reset(self) -> None:
        self._change = threading.Condition()
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()
        self._opened: weakref.WeakSet[AsyncSandbox] = weakref.WeakSet()
        self._threads: list[threading.Thread] = []
        self._closed = False


def _key(backend: SandboxBackend, spec: SandboxSpec) -> str:
    """Return the key of interchangeable sandboxes; per-run limits are sent with each run."""
    limits = spec.limits
    totals = (limits.total_memory_mb, limits.disk_mb, limits.files, limits.processes, limits.file_mb)
    parts = (totals, spec.template, spec.image, spec.workdir, spec.preload, spec.readable, spec.sealed)
    return f"{id(backend)}|" + json.dumps(parts, default=str)


def _start(backend: SandboxBackend, spec: SandboxSpec) -> Launched:
    launched = backend.start(spec)
    try:
        hello = greet(launched.endpoint, launched.settings, START_TIMEOUT_S)
        launched.notes = "; ".join(str(note) for note in (launched.notes, hello.get("notes")) if note)
    except ConnectionBroken as error:
        _end(launched)
        raise SandboxStartFailed(f"the {backend.tier} sandbox did not start: {error}") from error
    except BaseException:
        _end(launched)
        raise
    return launched


def _alive(launched: Launched) -> bool:
    """Whether an idle agent still has its connection open (it sends nothing without a request)."""
    try:
        launched.endpoint.setblocking(False)
        launched.endpoint.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _end(launched: Launched) -> None:
    try:
        launched.kill()
    except InfrastructureError as error:
        _log.warning("a sandbox could not be ended: %s", error)
    launched.endpoint.close()


_pools: weakref.WeakSet[SandboxPool] = weakref.WeakSet()
_default_lock = threading.Lock()
_default: SandboxPool | None = None


def default_pool() -> SandboxPool:
    """Return this process's pool."""
    global _default
    with _default_lock:
        if _default is None:
            _default = SandboxPool()
        return _default


def open_sandbox(
    spec: SandboxSpec | None = None, *, backend: str | SandboxBackend = "auto", allow_weak: bool = False
) -> Sandbox:
    """Open a fresh sandbox from this process's pool.

    Args:
        spec: The sandbox to open.
        backend: A tier's name, `"auto"` for the best one that works on this machine, or a custom backend.
        allow_weak: Whether to allow the tier that does not contain malicious code.
    """
    return default_pool().open(spec, backend=backend, allow_weak=allow_weak)


async def open_sandbox_async(
    spec: SandboxSpec | None = None, *, backend: str | SandboxBackend = "auto", allow_weak: bool = False
) -> AsyncSandbox:
    """Open a fresh sandbox whose methods are coroutines; see `open_sandbox`."""
    return await default_pool().open_async(spec, backend=backend, allow_weak=allow_weak)


def _after_fork_in_child() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    for pool in _pools:
        pool._reset()


def _at_exit() -> None:
    for pool in list(_pools):
        pool.close()
    registry.close_backends()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
