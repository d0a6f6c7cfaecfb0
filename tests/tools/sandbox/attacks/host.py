"""The machine under attack, with canaries that show whether an attack reached it."""

from __future__ import annotations

import contextlib
import os
import random
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

SECRET_VARIABLE = "AGENTGYM_CANARY_SECRET"

_PLACES = ("/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/dev/mqueue", "/root", "/home", "/usr", "/usr/lib", "/etc")
_MORE_PLACES = ("/run", "/run/lock", "/var", "/opt", "/srv", "/mnt", "/bin", "/sys/fs/cgroup", "/sys/fs/cgroup/memory")
_UNTOUCHED = b"untouched\n"


class Host:
    """Canaries on this machine: files, sockets, a process and a variable. `harm` reports damage to them."""

    def __init__(self, patience_s: float = 20.0):
        self._patience_s = patience_s
        self._random = random.Random(f"{os.getpid()}:{time.monotonic_ns()}")
        self.secret = f"AGENTGYMCANARY{self._random.getrandbits(64):016x}"
        self._before = os.environ.get(SECRET_VARIABLE)
        os.environ[SECRET_VARIABLE] = self.secret
        self.folder = Path(tempfile.mkdtemp(prefix="canaries-"))
        self.folder.chmod(0o777)
        self.name = f"key{self._random.getrandbits(32):08x}"
        self.secret_file = self.folder / self.name
        self.secret_file.write_text(self.secret + "\n")
        self.secret_file.chmod(0o644)
        self.writable = self.folder / "writable"
        self._mark = ("agvictim", f"{self._random.getrandbits(48):012x}")
        self._listen()
        self.victim = subprocess.Popen(
            ["".join(self._mark), "3600"], executable=shutil.which("sleep"), env={SECRET_VARIABLE: self.secret}
        )
        self.renew()

    def _listen(self) -> None:
        family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
        tcp = socket.create_server(("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6)
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        named, abstract, datagrams = (socket.socket(socket.AF_UNIX, kind) for kind in _KINDS)
        self.abstract = f"agentgym-canary-{self.name}"
        named.bind(str(self.folder / "socket"))
        (self.folder / "socket").chmod(0o777)
        abstract.bind("\0" + self.abstract)
        datagrams.bind("\0" + self.abstract + "-datagrams")
        for listener in (named, abstract):
            listener.listen()
        self.listeners = {"TCP": tcp, "UDP": udp, "unix": named, "abstract": abstract, "abstract datagrams": datagrams}

    def renew(self) -> None:
        """Restore everything, and choose a new token to recognise the traces of the next attack."""
        for path in self.folder.iterdir():
            if path not in (self.secret_file, self.folder / "socket"):
                _remove(path)
        self.writable.write_bytes(_UNTOUCHED)
        self.writable.chmod(0o666)
        self._stat = self._stat_of_writable()
        self.touched()
        self.token = str(self._random.randrange(10**8, 10**9))

    def _stat_of_writable(self) -> tuple[int, int, int]:
        status = self.writable.stat()
        return status.st_mode, status.st_uid, status.st_mtime_ns

    def facts(self) -> dict[str, str]:
        """Return the values of `@NAME@` in programs."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            free = probe.getsockname()[1]
        return {
            "SECRET_FILE": str(self.secret_file),
            "SECRET_DIR": str(self.folder),
            "SECRET_BASE": self.name,
            "SECRET_NAME_A": self.folder.name[:5],
            "SECRET_NAME_B": self.folder.name[5:],
            "SECRET_A": "AGENTGYM",
            "SECRET_B": "CANARY",
            "WRITABLE_FILE": str(self.writable),
            "MARK_A": self._mark[0],
            "MARK_B": self._mark[1],
            "VICTIM": str(self.victim.pid),
            "DRIVER": str(os.getpid()),
            "TCP": str(self.listeners["TCP"].getsockname()[1]),
            "UDP": str(self.listeners["UDP"].getsockname()[1]),
            "UNIX": str(self.folder / "socket"),
            "ABSTRACT": self.abstract,
            "ADDRESS": address_of_this_machine(),
            "FREE": str(free),
            "TOKEN": self.token,
        }

    def touched(self) -> list[str]:
        """Return the sockets with new connections or messages, and discard these."""
        touched: set[str] = set()
        while ready := select.select(list(self.listeners.values()), [], [], 0)[0]:
            for name, listener in self.listeners.items():
                if listener in ready:
                    touched.add(name)
                    with contextlib.suppress(OSError):
                        listener.recv(10) if "UDP" in name or "datagrams" in name else listener.accept()[0].close()
        return sorted(touched)

    def harm(self) -> Iterator[str]:
        """Yield everything that an attack changed on this machine."""
        if sockets := self.touched():
            yield f"reached the host's sockets: {sockets}"
        if self.victim.poll() is not None:
            yield f"killed a process of the host ({self.victim.returncode})"
        if not self.writable.is_file() or self.writable.read_bytes() != _UNTOUCHED:
            yield "changed a file of the host"
        elif self._stat_of_writable() != self._stat:
            yield "changed the attributes of a file of the host"
        if more := {path.name for path in self.folder.iterdir()} - {self.name, "writable", "socket"}:
            yield f"made files on the host: {sorted(more)}"
        yield from self._outside()
        yield from self._ipc()

    def _outside(self) -> Iterator[str]:
        for place in dict.fromkeys((*_PLACES, *_MORE_PLACES, *sys.path)):
            with contextlib.suppress(OSError):
                for name in os.listdir(place or "."):
                    if name.startswith("agentgym-attack") and self.token in name:
                        yield f"left {name} in {place} of the host"
                        _remove(Path(place, name))

    def _ipc(self) -> Iterator[str]:
        key = 0x61670000 + int(self.token) % 65536
        for kind in ("shm", "msg", "sem"):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
                if any(line.split()[0] == str(key) for line in lines):
                    subprocess.run(["ipcrm", f"-{kind[0].upper() if kind != 'msg' else 'Q'}", str(key)], check=False)
                    yield f"left a System V {kind} on the host"

    def survivors(self) -> list[int]:
        """Return the processes of the attack that outlive a grace period."""
        deadline = time.monotonic() + self._patience_s
        while (alive := processes_named(self.token)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return alive

    def close(self) -> None:
        """Remove the canaries."""
        self.victim.kill()
        self.victim.wait()
        for listener in self.listeners.values():
            listener.close()
        shutil.rmtree(self.folder)
        os.environ.pop(SECRET_VARIABLE)
        if self._before is not None:
            os.environ[SECRET_VARIABLE] = self._before


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


_KINDS = (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)


def processes_named(token: str) -> list[int]:
    """Return the live processes whose name, arguments or environment contain the token."""
    pids = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        text = "".join(_read(f"/proc/{entry}/{name}") for name in ("comm", "cmdline", "environ"))
        if token in text and ") Z " not in _read(f"/proc/{entry}/stat"):
            pids.append(int(entry))
    return pids


def _read(path: str) -> str:
    try:
        return Path(path).read_bytes().decode("latin-1")
    except OSError:
        return ""


def address_of_this_machine() -> str:
    """Return an address of this machine, preferably not the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def resident_mb() -> float:
    """Return this process's resident memory."""
    return int(_read("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def problems_of(text: str, facts: Mapping[str, str], secret: str) -> Iterator[str]:
    """Yield the problems that an output reveals."""
    if secret in text or secret[14:] in text:
        yield "shows the host's secret"
    for line in text.splitlines():
        if line.startswith("BREACH:"):
            yield line[:200].replace(facts["SECRET_DIR"], "CANARIES")
