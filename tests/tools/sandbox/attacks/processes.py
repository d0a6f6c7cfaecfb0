"""Attacks with processes and time: bombs, daemons, endless programs, work between the cells of a session."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== fork_bomb rows=18 threats=forks stays_inside expects=exited,memory,processes,timeout
children = 0
end = time.monotonic() + 3
while children < 2000 and time.monotonic() < end:
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(3)
        os._exit(0)
    children += 1
if children > 60:
    breach("forked", children)

=== fork_bomb_that_grows rows=18 threats=forks stays_inside expects=exited,memory,processes,timeout
end = time.monotonic() + 1.5
for _ in range(10):
    with suppress(OSError):
        os.fork()
    if time.monotonic() > end:
        break
time.sleep(max(0, end - time.monotonic()))

=== fork_bomb_in_bash rows=18 threats=forks stays_inside bash expects=exited,memory,processes,timeout wall_s=2
=== unfinished
bomb() { [ "$1" -gt 0 ] && { bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; }
bomb 9 2>/dev/null

=== thread_bomb rows=18 threats=forks stays_inside expects=exited,memory,processes,timeout
threading.stack_size(65536)
started, end = 0, time.monotonic() + 3
with suppress(RuntimeError, MemoryError):
    while started < 2000 and time.monotonic() < end:
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
        started += 1
if started > 60:
    breach("started", started)

=== runner_that_is_never_the_same_process rows=18,19 threats=daemons stays_inside
end = time.monotonic() + 6
for _ in range(2000):
    try:
        if os.fork():
            break
    except OSError:
        continue
    if _ == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
    time.sleep(0.003)
    if time.monotonic() > end:
        os._exit(0)
if _ > 0:
    os._exit(0)

=== daemon rows=19 threats=daemons stays_inside
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 64)
        time.sleep(30)
    os._exit(0)
os.wait()

=== daemon_of_bash rows=19 threats=daemons stays_inside bash
(setsid nohup sleep 30.@TOKEN@ >/dev/null 2>&1 </dev/null &)
nohup sleep 31.@TOKEN@ >/dev/null 2>&1 </dev/null &
disown -a

=== child_holds_the_output rows=20 threats=daemons stays_inside bash then=was_quick
sleep 30.@TOKEN@ &
sleep 30.@TOKEN@ >&2 &

=== ignores_signals_and_spins rows=21 threats=cpu stays_inside expects=clock wall_s=short
for number in range(1, 65):
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
spin()

=== uses_up_its_processor_time rows=21 threats=cpu stays_inside expects=cpu wall_s=patient cpu_s=1
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
spin()

=== sleeps_for_ever rows=21 threats=cpu stays_inside bash expects=clock wall_s=short
trap '' TERM INT HUP QUIT
while :; do sleep 100.@TOKEN@; done

=== stops_itself rows=21 threats=cpu stays_inside expects=clock wall_s=short
os.kill(os.getpid(), signal.SIGSTOP)
os.kill(0, signal.SIGSTOP)
time.sleep(100)

=== endless_arithmetic rows=22 threats=cpu stays_inside expects=clock wall_s=short
print(len(str(3 ** (10 ** 8))) if sys.set_int_max_str_digits(0) is None else 0)

=== endless_regular_expression rows=22 threats=cpu stays_inside expects=clock wall_s=short
import re; re.match('(a+)+$', 'a' * 40 + 'b')

=== session_works_between_cells rows=19,21 threats=idle_cpu stays_inside session then=sessions_rest
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
