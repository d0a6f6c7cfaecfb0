"""Attacks by sessions that keep working between their cells."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== session_works_between_cells rows=19,21 threats=idle_cpu stays_inside session then=sessions_rest
import threading
def spin():
    while True:
        pass
for alone in (False, True):
    if os.fork() == 0:
        os.setsid() if alone else None
        spin()
threading.Thread(target=spin, daemon=True).start()

=== shell_works_between_cells rows=19,21 threats=idle_cpu stays_inside bash session then=sessions_rest
(exec -a ag@TOKEN@ bash -c 'while :; do :; done') &
(exec -a ag@TOKEN@ bash -c 'trap "" CONT TSTP; while :; do (while :; do :; done) & wait; done') &
set -m
(exec -a ag@TOKEN@ bash -c 'while :; do :; done') &

=== session_has_itself_woken rows=19,21 threats=idle_cpu stays_inside session with=syscalls then=sessions_rest
import fcntl, resource, signal, threading, time
CONT = int(signal.SIGCONT)
event, timer = (ctypes.c_int32 * 16)(0, 0, CONT, 0), ctypes.c_int32()
if syscall(222, 107, 1, ctypes.addressof(event), ctypes.addressof(timer)) >= 0:
    period = (ctypes.c_int64 * 4)(0, 10_000_000, 0, 10_000_000)
    syscall(223, 110, timer.value, 0, ctypes.addressof(period), 0)
read, write = os.pipe()
for command, value in ((fcntl.F_SETOWN, os.getpid()), (10, CONT), (fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)):
    with suppress(OSError):
        fcntl.fcntl(read, command, value)
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
""")
