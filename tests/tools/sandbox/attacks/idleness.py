"""Attacks on the time between cells: sessions that work on when nobody has asked them to."""

from __future__ import annotations

from agentgym.tools.sandbox.protection import Threat
from tests.tools.sandbox.attacks.attack import SYSCALLS, Attack, Way

ATTACKS = (
    Attack(
        (19, 21),
        "session_works_between_cells",
        """
import threading
def spin():
    while True:
        pass
for alone in (False, True):
    if os.fork() == 0:
        os.setsid() if alone else None
        spin()
threading.Thread(target=spin, daemon=True).start()
""",
        (Threat.IDLE_CPU,),
        stays_inside=True,
        way=Way.SESSION,
        then="sessions_rest",
    ),
    Attack(
        (19, 21),
        "shell_works_between_cells",
        """
(exec -a ag@TOKEN@ bash -c 'while :; do :; done') &
(exec -a ag@TOKEN@ bash -c 'trap "" CONT TSTP; while :; do (while :; do :; done) & wait; done') &
set -m
(exec -a ag@TOKEN@ bash -c 'while :; do :; done') &
""",
        (Threat.IDLE_CPU,),
        stays_inside=True,
        language="bash",
        way=Way.SESSION,
        then="sessions_rest",
    ),
    Attack(
        (19, 21),
        "session_has_itself_woken",
        SYSCALLS
        + """
import fcntl, resource, signal, threading, time
CONT = int(signal.SIGCONT)
event, timer = (ctypes.c_int32 * 16)(0, 0, CONT, 0), ctypes.c_int32()
if syscall(222, 107, 1, ctypes.addressof(event), ctypes.addressof(timer)) >= 0:
    period = (ctypes.c_int64 * 4)(0, 10_000_000, 0, 10_000_000)
    syscall(223, 110, timer.value, 0, ctypes.addressof(period), 0)
read, write = os.pipe()
for command, value in ((fcntl.F_SETOWN, os.getpid()), (10, CONT), (fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)):
    try:
        fcntl.fcntl(read, command, value)
    except OSError as error:
        print("refused", error)
for number in (signal.SIGALRM, signal.SIGIO):
    signal.signal(number, lambda *_: os.kill(0, CONT))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
libc.prctl(1, CONT, 0, 0, 0)
def spin():
    while True:
        pass
def wake():
    while True:
        os.kill(os.getppid(), CONT)
        os.write(write, b"x" * 10)
if os.fork() == 0:
    libc.prctl(1, CONT, 0, 0, 0)
    os.setpgid(0, 0)
    wake()
threading.Thread(target=spin, daemon=True).start()
""",
        (Threat.IDLE_CPU,),
        stays_inside=True,
        way=Way.SESSION,
        then="sessions_rest",
    ),
)
