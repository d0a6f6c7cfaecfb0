"""What one attack is: a program, what may come of it, and which protections it tries.

A program prints `BREACH: ...` when it got what it should not, and `DONE` at its end, so that an attack that merely
crashed is not taken for one that was held. Every program bounds itself: it harms no machine even where it succeeds.
`@NAME@` in a program stands for a fact about the host (see `host.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agentgym.tools.sandbox.limits import SandboxLimits
from agentgym.tools.sandbox.protection import Threat
from agentgym.tools.sandbox.result import Ended

LIMITS = SandboxLimits(
    wall_s=8,
    cpu_s=8,
    memory_mb=256,
    total_memory_mb=400,
    processes=24,
    open_files=64,
    file_mb=8,
    disk_mb=16,
    files=500,
    output_bytes=20_000,
    reply_bytes=200_000,
)
"""Of every sandbox under attack. Small, so that a program can go beyond each of them within a second."""

PATIENT_S = 60.0
"""Wall-clock limit of the attacks that a regular check ends: on a busy machine it may come late."""

SHORT = 0.5
"""Wall-clock limit of the attacks that are meant to be ended by it."""

ENDS = frozenset({Ended.EXITED})
CLOCK = frozenset({Ended.TIMEOUT})
FELLED = frozenset({Ended.EXITED, Ended.SIGNALED, Ended.KILLED, Ended.TIMEOUT})
"""A program that strikes at what runs it may end in any of these ways."""


class Way(StrEnum):
    """How the program is run."""

    EXEC = "exec"
    SESSION = "session"
    """As one cell of a live session."""


@dataclass(frozen=True)
class Attack:
    """One attack. `row` names the cases of the table of hostile inputs that it stands for."""

    row: int | tuple[int, ...]
    name: str
    program: str
    threats: tuple[Threat, ...]
    """What a backend must hold for this attack to fail; nothing for what every backend must hold."""
    language: str = "python"
    expects: frozenset[Ended] = ENDS
    exit_code: int = 0
    """Of a program that comes to its own end."""
    wall_s: float | None = None
    cpu_s: float | None = None
    way: Way = Way.EXEC
    then: str = ""
    """The step in `steps.py` that the host takes after the program ran."""
    finishes: bool = True
    """Whether a program that ends by itself must have printed `DONE`."""
    stays_inside: bool = False
    """Whether it touches nothing outside of its workspace and temporary folder, even where it could. No other attack is
    ever run where the files of this machine are not held."""
    edge: bool = False
    """Whether a backend that holds the threats only partly is excused."""
    may_lose: bool = False
    """Whether the sandbox may be lost, so long as it says so."""

    @property
    def rows(self) -> tuple[int, ...]:
        """Return the rows as a tuple."""
        return self.row if isinstance(self.row, tuple) else (self.row,)

    @property
    def limits(self) -> SandboxLimits:
        """Return the limits of its run."""
        return LIMITS.but(wall_s=self.wall_s or LIMITS.wall_s, cpu_s=self.cpu_s or LIMITS.cpu_s)

    def source(self, facts: dict[str, str]) -> str:
        """Return the program as it is run, with its prelude and the host's facts."""
        prelude, end = (
            (PYTHON, "\nprint('DONE', flush=True)\n") if self.language == "python" else (BASH, "\necho DONE\n")
        )
        text = prelude + self.program + (end if self.finishes else "\n")
        for name, value in facts.items():
            text = text.replace(f"@{name}@", value)
        return text


PYTHON = """\
import os, sys
def breach(*what):
    print("BREACH:", *what, flush=True)
def attempt(what, call, *args, **named):
    try:
        got = call(*args, **named)
    except Exception as error:
        print("refused", what, type(error).__name__, error)
        return None
    breach(what, "->", repr(got)[:300])
    return got
def outlast(*what):
    # Whatever looks after the limit ends the program by now, or the limit was passed.
    import time
    time.sleep(float(os.environ.get("AGENTGYM_OUTLAST_S", "20")))
    breach(*what)
def marked():
    try:
        with open("/proc/self/comm", "w") as file:
            file.write("ag@TOKEN@")
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
    else:
        print("refused", what, os.strerror(-got))
    return got
'''
"""More of a prelude, for attacks that speak to the kernel directly."""
