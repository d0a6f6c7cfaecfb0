"""The base of the two tiers that fork agents from a zygote, with one zygote per kind of spec."""

from __future__ import annotations

import importlib.metadata
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from glob import glob
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentgym.base.errors import AgentGymError, UsageError
from agentgym.tools.sandbox import bundle, interpreter, users
from agentgym.tools.sandbox.agent import wire
from agentgym.tools.sandbox.agent.zygote import MAX_MESSAGE
from agentgym.tools.sandbox.backend import (
    PROBE_TIMEOUT_S,
    Launched,
    ProbeResult,
    Protection,
    SandboxBackend,
    SandboxStartFailed,
    Threat,
    held,
)
from agentgym.tools.sandbox.connection import ConnectionBroken, greet
from agentgym.tools.sandbox.sandbox import connect
from agentgym.tools.sandbox.spec import SandboxLimits, SandboxSpec, SandboxTier

if TYPE_CHECKING:
    from agentgym.tools.sandbox.result import Result


_TRIAL = """
import json, os, socket, sys

def refused(attempt):
    try:
        attempt()
    except OSError:
        return True
    return False

secret, driver = json.loads(sys.stdin.read())
answer = {
    "reads the host's files": not refused(lambda: open(secret)),
    "opens sockets": not refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)),
    "signals the driver": not refused(lambda: os.kill(driver, 0)),
    "is root": os.getuid() == 0,
    "makes namespaces": not refused(lambda: os.unshare(0x10000000)) if hasattr(os, "unshare") else False,
}
os.write(int(os.environ["AGENTGYM_REPLY_FD"]), json.dumps(answer).encode())
"""


def probe(backend: SandboxBackend) -> ProbeResult:
    """Return whether a backend can start a sandbox here, and whether the sandbox withstands the attacks."""
    spec = SandboxSpec(limits=SandboxLimits(wall_s=PROBE_TIMEOUT_S))
    try:
        launched = backend.start(spec)
        try:
            greet(launched.endpoint, launched.settings, PROBE_TIMEOUT_S)
        except ConnectionBroken as error:
            launched.kill()
            return ProbeResult(backend.tier, False, str(error))
        with connect(launched, spec, backend.tier, "") as sandbox:
            weak = _weaknesses(sandbox.exec(code=_TRIAL, stdin=json.dumps([os.path.abspath(__file__), os.getpid()])))
    except (AgentGymError, OSError) as error:
        return ProbeResult(backend.tier, False, str(error))
    if weak:
        return ProbeResult(backend.tier, False, f"a sandbox started, but code in it {weak}")
    return ProbeResult(backend.tier, True, "a sandbox started and held", backend.protections)


def _weaknesses(result: Result) -> str:
    if not result.ok:
        return f"does not work: {result.message} {result.err.strip()[-500:]}"
    try:
        weaknesses = json.loads(result.reply)
    except ValueError:
        return "sends no answer"
    return " and ".join(what for what, present in weaknesses.items() if present)


@dataclass(frozen=True)
class HostView:
    """The visible parts of the host."""

    readable: tuple[str, ...]
    """The interpreter's folders."""
    hidden: tuple[str, ...]
    """Folders below those, or below the system's, that appear empty."""
    late: tuple[str, ...]
    """Files and folders that are visible even inside hidden ones."""
    import_paths: tuple[str, ...]
    """The import path of preloaded modules."""


def view(preload: Iterable[str], readable: Iterable[Path], program: str) -> HostView:
    """Return the view of sandboxes that preload these modules and may read these folders."""
    packages = _packages(tuple(sorted(set(preload) - set(sys.stdlib_module_names))))
    late = [*packages]
    for path in readable:
        if not path.is_absolute() or not path.exists():
            raise UsageError(f"readable={str(path)!r} must be an absolute path that exists")
        late.append(str(path))
    folders = tuple(sorted({os.path.dirname(path) for path in packages}))
    prefix = interpreter.prefix(program)
    return HostView(_interpreter_folders(prefix), _package_folders(prefix), tuple(late), folders)


@cache
def _interpreter_folders(prefix: str) -> tuple[str, ...]:
    return tuple(path for name in ("bin", "lib", "lib64") if os.path.isdir(path := os.path.join(prefix, name)))


@cache
def _package_folders(prefix: str) -> tuple[str, ...]:
    """Return the site-packages folders inside the interpreter's folders."""
    version = "python3*"
    folders = {
        *glob(f"{prefix}/lib*/{version}/site-packages"),
        *glob(f"/usr/lib*/{version}/*-packages"),
        *glob(f"/usr/local/lib*/{version}/*-packages"),
    }
    return tuple(sorted(path for path in folders if os.path.isdir(path) and not os.path.islink(path)))


@cache
def _packages(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the installed files and folders of modules and their dependencies."""
    if not modules:
        return ()
    by_module = importlib.metadata.packages_distributions()
    waiting = []
    for module in modules:
        top = module.partition(".")[0]
        if top not in by_module:
            raise UsageError(f"preload={module!r} belongs neither to the standard library nor to an installed package")
        waiting += by_module[top]
    visited: set[str] = set()
    paths: set[str] = set()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in visited:
            visited.add(name)
            waiting += _add(name, paths)
    return tuple(sorted(paths))


def _add(name: str, paths: set[str]) -> list[str]:
    """Add the files of a distribution to `paths`; return its requirements."""
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return []
    base = Path(str(distribution.locate_file("")))
    for file in distribution.files or ():
        top = file.parts[0]
        if top not in ("..", "__pycache__") and not file.is_absolute():
            paths.add(str(base / top))
    required = [Requirement(line) for line in distribution.requires or ()]
    return [
        requirement.name
        for requirement in required
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]


_READY_S = 60.0
_END_S = 10.0


class Zygote:
    """A running fork server. Thread-safe.

    Args:
        settings: The settings of `agent/zygote.py` and its walls.
        program: Its interpreter.
    """

    def __init__(self, settings: Mapping[str, Any], program: str):
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._numbers = count(1)
        self._running: weakref.WeakSet[SandboxHandle] = weakref.WeakSet()
        self._process, self._socket = _start(settings, program)
        try:
            answer = self._await_ready()
        except BaseException:
            self.close()
            raise
        self.holds_memory = answer.get("holds_memory") is True
        self.own_files = answer.get("own_files") is True

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self._process.poll() is None

    @property
    def idle(self) -> bool:
        """Whether it has no sandboxes."""
        return all(running.ended for running in list(self._running))

    @property
    def pid(self) -> int:
        """The zygote's process id."""
        return self._process.pid

    def start(self, request: Mapping[str, Any]) -> tuple[socket.socket, SandboxHandle]:
        """Start an agent; return the driver's end of its connection and a handle that kills it."""
        ours, theirs = socket.socketpair()
        read, write = os.pipe()
        running = SandboxHandle(self, next(self._numbers), read)
        self._running.add(running)
        message = wire.encode_header({"op": "start", "id": running.number, **request})
        try:
            if len(message) > MAX_MESSAGE:
                raise SandboxStartFailed(
                    f"the sandbox's settings have {len(message)} bytes, which is too large to send"
                )
            with self._lock:
                socket.send_fds(self._socket, [message], [theirs.fileno(), write])
        except OSError as error:
            ours.close()
            running.forget()
            raise SandboxStartFailed(f"the zygote is gone: {error}") from error
        finally:
            theirs.close()
            os.close(write)
        return ours, running

    def end(self, number: int) -> None:
        """Tell the zygote to kill a sandbox."""
        if os.getpid() != self._owner:
            return
        try:
            with self._lock:
                self._socket.send(wire.encode_header({"op": "end", "id": number}))
        except OSError:
            return  # the zygote is gone, and its sandboxes with it

    def close(self) -> None:
        """Kill it and all its sandboxes."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._socket.close()
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _await_ready(self) -> dict[str, Any]:
        self._socket.settimeout(_READY_S)
        try:
            answer = json.loads(self._socket.recv(MAX_MESSAGE) or b"{}")
        except TimeoutError:
            raise SandboxStartFailed(f"the zygote was not ready within {_READY_S:g} s") from None
        except (OSError, ValueError) as error:
            raise SandboxStartFailed(f"the zygote did not start: {error}") from error
        self._socket.settimeout(None)
        if "ready" not in answer:
            raise SandboxStartFailed(str(answer.get("error", "the zygote exited during startup")))
        return answer


class SandboxHandle:
    """Kills one sandbox of a zygote."""

    def __init__(self, zygote: Zygote, number: int, done: int):
        self.number = number
        self._zygote = zygote
        self._lock = threading.Lock()
        self._done: int | None = done

    @property
    def ended(self) -> bool:
        """Whether it was killed."""
        return self._done is None

    def kill(self) -> None:
        """Kill the sandbox, and wait until it is completely gone."""
        with self._lock:
            done, self._done = self._done, None
        if done is None:
            return
        self._zygote.end(self.number)
        poll = select.poll()
        poll.register(done, 0)  # the zygote closes its end of this pipe once everything is gone
        until = time.monotonic() + _END_S
        while not poll.poll(100) and time.monotonic() < until:
            pass
        os.close(done)

    def forget(self) -> None:
        """Close the descriptor of a sandbox that was never started."""
        with self._lock:
            done, self._done = self._done, None
        if done is not None:
            os.close(done)


def _start(settings: Mapping[str, Any], program: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    alive = os.pidfd_open(os.getpid())
    arguments = f"{theirs.fileno()}, {alive}, {dict(settings)!r}"
    source = bundle.started(f"from agentgym.tools.sandbox.agent.zygote import main; main({arguments})")
    try:
        process = subprocess.Popen(
            [program, *interpreter.RUN_STDIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), alive, *settings.get("held", ())),
            cwd="/",
            env=_environment(program),
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise SandboxStartFailed(f"cannot start {program!r}: {error}") from error
    finally:
        theirs.close()
        os.close(alive)
    assert process.stdin is not None
    try:
        with process.stdin as stdin:
            stdin.write(source.encode())
    except BrokenPipeError:
        pass  # it exited; the caller notices the missing answer
    return process, ours


def _environment(program: str) -> dict[str, str]:
    environment = interpreter.environment(home="/tmp", tmp="/tmp", links=os.path.dirname(program))
    return {name: value for name, value in environment.items() if name != "PYTHONUNBUFFERED"} | {"LD_BIND_NOW": "1"}


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
        return probe(self)

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
        key = (spec.preload, spec.readable, spec.workdir, spec.sealed)
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
            "sealed": spec.sealed,
            "environment": dict(self.environment()),
            "preload": list(spec.preload),
            "paths": list(host_view.import_paths),
            "shown": list(host_view.readable),
            "hidden": list(host_view.hidden),
            "late": list(host_view.late),
        }
