"""The base of the two tiers that fork agents from a zygote, with one zygote per kind of spec."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agentgym.errors import UsageError
from agentgym.tools.sandbox import interpreter, trial, users
from agentgym.tools.sandbox.backend import Launched, ProbeResult
from agentgym.tools.sandbox.protection import Protection, Threat, held
from agentgym.tools.sandbox.spec import SandboxSpec, SandboxTier
from agentgym.tools.sandbox.view import view
from agentgym.tools.sandbox.zygote import Zygote

_MAX_ZYGOTES = 8


class ForkingBackend(ABC):
    """Keeps zygotes, keyed by the settings their sandboxes share; evicts the least recently used idle one."""

    tier: SandboxTier
    base: Mapping[Threat, Protection]
    """How well each threat is held on any machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._zygotes: OrderedDict[tuple[object, ...], Zygote] = OrderedDict()
        self._closed = False
        self._holds_memory = False
        self.own_files = False
        """Whether sandboxes share no file with the host or each other; known after the first start."""

    @property
    def protections(self) -> Mapping[Threat, Protection]:
        """How well each threat is held on this machine."""
        if not self._holds_memory:
            return self.base
        return {**self.base, Threat.TOTAL_MEMORY: held("a cgroup for each sandbox")}

    def probe(self) -> ProbeResult:
        """Create a sandbox and attack it."""
        return trial.probe(self)

    def start(self, spec: SandboxSpec) -> Launched:
        """Fork an agent."""
        if spec.image is not None:
            raise UsageError(
                f"the {self.tier} backend does not support images; spec.image={spec.image!r} needs backend='docker'"
            )
        template = None if spec.template is None else os.path.realpath(spec.template)
        if template is not None and not os.path.isdir(template):
            raise UsageError(f"template={str(spec.template)!r} is not a folder")
        request = {"limits": spec.limits.to_dict(), "template": template, **self.request(spec)}
        endpoint, running = self._zygote(spec).start(request)
        return Launched(endpoint, running.kill, self.workdir(spec, request))

    def zygotes(self) -> list[Zygote]:
        """Return the current zygotes."""
        with self._lock:
            return list(self._zygotes.values())

    def close(self) -> None:
        """Kill all zygotes, and with them all sandboxes."""
        with self._lock:
            self._closed = True
            zygotes = list(self._zygotes.values())
            self._zygotes.clear()
        for zygote in zygotes:
            zygote.close()

    def request(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return the settings specific to a new sandbox."""
        return {}

    def workdir(self, spec: SandboxSpec, request: Mapping[str, Any]) -> str:
        """Return the path of a new sandbox's workspace."""
        return spec.workdir

    @abstractmethod
    def environment(self) -> Mapping[str, str]:
        """Return the part of the runs' environment that all sandboxes share."""

    def program(self) -> str:
        """Return the interpreter for zygotes."""
        return interpreter.executable()

    def _zygote(self, spec: SandboxSpec) -> Zygote:
        key = (spec.preload, spec.readable, spec.workdir)
        with self._lock:
            if self._closed:
                raise UsageError(f"the {self.tier} backend is closed")
            zygote = self._zygotes.get(key)
            if zygote is not None and not zygote.alive:
                zygote.close()
                zygote = None
            if zygote is None:
                zygote = self._zygotes[key] = Zygote(self.zygote_settings(spec), self.program())
                self._holds_memory, self.own_files = zygote.holds_memory, zygote.own_files
            self._zygotes.move_to_end(key)
            self._drop_idle()
            return zygote

    def _drop_idle(self) -> None:
        """Kill the least recently used zygotes if there are too many, except those with sandboxes."""
        for key, zygote in list(self._zygotes.items())[:-1]:
            if len(self._zygotes) > _MAX_ZYGOTES and zygote.idle:
                del self._zygotes[key]
                zygote.close()

    def zygote_settings(self, spec: SandboxSpec) -> dict[str, Any]:
        """Return the settings of a zygote for sandboxes of this spec."""
        host_view = view(spec.preload, spec.readable, self.program())
        return {
            "tier": str(self.tier),
            "driver": os.getpid(),
            "uid": users.fresh_user(),
            "program": self.program(),
            "workdir": spec.workdir,
            "environment": dict(self.environment()),
            "preload": list(spec.preload),
            "paths": list(host_view.import_paths),
            "shown": list(host_view.readable),
            "hidden": list(host_view.hidden),
            "late": list(host_view.late),
        }
