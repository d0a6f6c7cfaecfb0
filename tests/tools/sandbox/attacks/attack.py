"""The definition of an attack: a program, its permitted outcomes, and the protections it tries.

A program prints `BREACH: ...` if it gets through, and `DONE` at its end, so that a crash is not taken for a protection
that held. Every program bounds itself, so that it does no harm even if it succeeds. `@NAME@` in a program stands for a
fact about the host (see `host.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentgym.tools.sandbox.backend import Threat
from agentgym.tools.sandbox.result import Ended
from agentgym.tools.sandbox.spec import SandboxLimits

LIMITS = SandboxLimits(wall_s=8, cpu_s=8, memory_mb=256, total_memory_mb=400, processes=24, open_files=64)
LIMITS = LIMITS.but(file_mb=8, disk_mb=16, files=500, output_bytes=20_000, reply_bytes=200_000)
"""The limits of every sandbox under attack: so low that a program can exceed each within a second."""

PATIENT_S = 60.0
"""Wall-clock limit of attacks that are ended by a periodic check, which may come late on a busy machine."""
SHORT = 0.5
"""Wall-clock limit of attacks that it is meant to end."""

ENDS = frozenset({Ended.EXITED})
CLOCK = frozenset({Ended.TIMEOUT})
FELLED = frozenset({Ended.EXITED, Ended.SIGNALED, Ended.KILLED, Ended.TIMEOUT})
"""The possible ends of a program that attacks its own supervisor."""


@dataclass(frozen=True)
class Attack:
    """One attack."""

    name: str
    program: str
    rows: tuple[int, ...]
    """The cases of hostile inputs that it represents."""
    threats: tuple[Threat, ...] = ()
    """The threats that a backend must hold for the attack to fail; empty if every backend must withstand it."""
    language: str = "python"
    expects: frozenset[Ended] = ENDS
    exit_code: int = 0
    """The exit code of a program that ends by itself; negative for any."""
    wall_s: float | None = None
    cpu_s: float | None = None
    in_session: bool = False
    """Whether it is a cell of a live session."""
    then: str = ""
    """The name of the host's step after the program (see `steps.py`)."""
    finishes: bool = True
    """Whether a program that ends by itself must have printed `DONE`."""
    stays_inside: bool = False
    """Whether it touches nothing outside its workspace and temporary folder even if it can. Other attacks never run
    where the files of this machine are unprotected."""
    edge: bool = False
    """Whether a backend that holds the threats only partly need not withstand it."""
    may_lose: bool = False
    """Whether the sandbox may be lost, as long as it reports that."""

    @property
    def limits(self) -> SandboxLimits:
        return LIMITS.but(wall_s=self.wall_s or LIMITS.wall_s, cpu_s=self.cpu_s or LIMITS.cpu_s)

    def source(self, facts: dict[str, str]) -> str:
        """Return the complete program with its prelude and the host's facts."""
        prelude, end = (
            (PYTHON, "\nprint('DONE', flush=True)\n") if self.language == "python" else (BASH, "\necho DONE\n")
        )
        text = prelude + self.program + (end if self.finishes else "\n")
        for name, value in facts.items():
            text = text.replace(f"@{name}@", value)
        return text


PYTHON = """\
import fcntl, gc, json, os, resource, signal, socket, stat, subprocess, sys, threading, time
from contextlib import suppress
def breach(*what):
    print("BREACH:", *what, flush=True)
def attempt(what, call, *args):
    with suppress(Exception):
        breach(what, "->", repr(call(*args))[:300])
def outlast(*what):
    # By now the limit has ended the program, or it was exceeded.
    time.sleep(20)
    breach(*what)
def fill(path, mb):
    with open(path, "wb") as file:
        file.write(bytes(mb << 20))
def spin():
    while True:
        pass
def marked():
    try:
        open("/proc/self/comm", "w").write("ag@TOKEN@")
    except OSError:
        import ctypes
        ctypes.CDLL(None).prctl(15, b"ag@TOKEN@", 0, 0, 0)
marked()
"""

BASH = """\
breach() { echo "BREACH: $*"; }
attempt() { local what=$1; shift; if "$@" 2>/dev/null; then breach "$what"; else echo "refused $what"; fi; }
{ printf 'ag@TOKEN@' > /proc/$$/comm; } 2>/dev/null
"""

SYSCALLS = '''\
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
ARM = os.uname().machine == "aarch64"
def syscall(number, arm, *args):
    """Call by number; the result, or minus the error number."""
    number = arm if ARM else number
    got = libc.syscall(ctypes.c_long(number), *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in args])
    return got if got >= 0 else -ctypes.get_errno()
def forbidden(what, number, arm, *args):
    got = syscall(number, arm, *args)
    if got >= 0:
        breach(what, "->", got)
    return got
'''
"""An additional prelude for attacks that make system calls."""

_FLAGS: dict[str, dict[str, Any]] = {
    "bash": {"language": "bash"},
    "session": {"in_session": True},
    "unfinished": {"finishes": False},
    **{name: {name: True} for name in ("stays_inside", "edge", "may_lose")},
}
_EXPECTS = {"clock": CLOCK, "felled": FELLED}
_WALL_S = {"short": SHORT, "patient": PATIENT_S}
_VALUES: dict[str, Callable[[str], Any]] = {
    "rows": lambda rows: tuple(map(int, rows.split(","))),
    "threats": lambda names: tuple(map(Threat, names.split(","))),
    "expects": lambda names: _EXPECTS.get(names) or frozenset(map(Ended, names.split(","))),
    "exit_code": int,
    "wall_s": lambda value: _WALL_S.get(value) or float(value),
    "cpu_s": float,
    "then": str,
}


def parse_attacks(text: str, **preludes: str) -> tuple[Attack, ...]:
    """Parse attacks: each is a header such as `=== NAME rows=1,2 threats=cpu session`, then its program.

    A long header continues in further lines that start with `=== `. With `with=NAME`, it has a prelude.
    """
    preludes = {"syscalls": SYSCALLS, "": ""} | preludes
    attacks: list[Attack] = []
    for header, program in re.findall(r"((?:^=== .*\n)+)((?:^(?!=== ).*\n)*)", text, re.MULTILINE):
        name, *words = header.replace("=== ", "").split()
        options: dict[str, Any] = {}
        prelude = ""
        for key, _, value in (word.partition("=") for word in words):
            if key == "with":
                prelude = value
            else:
                options |= {key: _VALUES[key](value)} if value else _FLAGS[key]
        attacks.append(Attack(name, f"{preludes[prelude]}\n{program}", **options))
    return tuple(attacks)
