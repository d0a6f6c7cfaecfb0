"""Steps that check what follows a run: later cells and runs, idle sessions, the resources of neighbours."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator

from agentgym.tools.sandbox import Ended
from tests.tools.sandbox.attacks.attack import LIMITS
from tests.tools.sandbox.attacks.host import processes_named
from tests.tools.sandbox.attacks.shares import COMMON_FILES
from tests.tools.sandbox.attacks.steps import Scene

_TICKS = 3
"""Hundredths of a second of CPU time that the kernel may account late to a stopped process."""


def cells_end_as_they_do(scene: Scene) -> Iterator[str]:
    for number in (3, 0, 5, 1, 0, 9):
        code = f"echo {number}; (exit {number})" if scene.language == "bash" else f"print({number})\nimport sys\n"
        code += "" if scene.language == "bash" else f"sys.exit({number})"
        result = scene.live().run(code, limits=LIMITS)
        if (result.ended, result.exit_code, result.stdout) != (Ended.EXITED, number, b"%d\n" % number):
            yield f"a cell that ends with {number} is reported to end with {result.exit_code} and {result.stdout!r}"
        if result.duration_s > LIMITS.wall_s or result.usage.cpu_s > LIMITS.cpu_s:
            yield f"a cell is reported to have used {result.usage}"


_LONGER = """
import os, time
reply = int(os.environ["AGENTGYM_REPLY_FD"])
for _ in range(20):
    time.sleep(0.02)
print("true", flush=True)
os.write(reply, b"true")
os._exit(5)
"""


def runs_are_left_alone(scene: Scene) -> Iterator[str]:
    for _ in range(2):
        result = scene.sandbox.exec(code=_LONGER, limits=LIMITS)
        if (result.stdout, result.stderr, result.reply, result.exit_code) != (b"true\n", b"", b"true", 5):
            yield f"a later run is reported to give {result}"[:300]


def sessions_rest(scene: Scene) -> Iterator[str]:
    """A session uses no CPU time between its cells, whether or not something else runs."""
    token = scene.host.token
    yield from _at_work("between cells", token, lambda: time.sleep(0.6))
    run = "import time; time.sleep(0.6)"
    yield from _at_work("during another run", token, lambda: scene.sandbox.exec(code=run, limits=LIMITS))
    with contextlib.closing(scene.sandbox.python()) as other:
        yield from _at_work("during another session's cell", token, lambda: other.run(run, limits=LIMITS))
    result = scene.live().run("echo 42" if scene.language == "bash" else "print(42)", limits=LIMITS)
    if result.stdout != b"42\n":
        yield f"after its rest the session says {result}"[:300]


def _at_work(when: str, token: str, meanwhile: Callable[[], object]) -> Iterator[str]:
    time.sleep(0.3)
    before = _ticks(token)
    meanwhile()
    if (used := _ticks(token) - before) > _TICKS:
        yield f"{when} a session used {used} hundredths of a second"


def _ticks(token: str) -> int:
    total = 0
    for pid in processes_named(token):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
            total += int(words[11]) + int(words[12])
    return total * 100 // os.sysconf("SC_CLK_TCK")


_SHARE = """
import array, os, select, signal, socket
def attempt(what, call):
    try:
        call()
    except OSError as error:
        print("BREACH: no share of", what, error)
number = signal.SIGRTMIN + 3
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
for _ in range(50):
    os.kill(os.getpid(), number)
if sum(signal.sigtimedwait([number], 0) is not None for _ in range(50)) < 50:
    print("BREACH: no share of signals")
one, other = socket.socketpair()
fds = array.array("i", [0] * 20)
attempt("passing on", lambda: one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]))
attempt("watches", lambda: select.epoll().register(one.fileno()))
attempt("processes", lambda: os.fork() or os._exit(0))
reading, writing = os.pipe()
os.set_blocking(writing, False)
if os.write(writing, bytes(65536)) < 65536:
    print("BREACH: no share of pipes")
print("looked")
"""


def a_neighbour_gets_its_share(scene: Scene) -> Iterator[str]:
    return scene.second(_SHARE)


_LOCKS = (
    "import fcntl, os, struct, sys\nfrom contextlib import suppress"
    + COMMON_FILES
    + """
here = {os.getcwd(), "/tmp", "/dev/shm"}
for path in [path for path in paths if path not in here]:
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            print("BREACH: sees a lock on", path, error)
        with suppress(OSError):
            query = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
            if struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, query))[0] != fcntl.F_UNLCK:
                print("BREACH: sees a record lock on", path)
        os.close(fd)
print("looked")
"""
)


def nobody_sees_the_locks(scene: Scene) -> Iterator[str]:
    yield from scene.second(_LOCKS)
    for path in ("/usr/bin/env", "/dev/null", "/usr", os.__file__):
        fd = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield f"the host sees a lock on {path}"
        finally:
            os.close(fd)
