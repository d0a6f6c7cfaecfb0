"""Attacks with processes and time: bombs, daemons, programs that do not end."""

from __future__ import annotations

from agentgym.tools.sandbox.protection import Threat
from agentgym.tools.sandbox.result import Ended
from tests.tools.sandbox.attacks.attack import CLOCK, SHORT, Attack

_BOMB = frozenset({Ended.EXITED, Ended.PROCESSES, Ended.TIMEOUT, Ended.MEMORY})

ATTACKS = (
    Attack(
        18,
        "fork_bomb",
        """
import time
children = 0
end = time.monotonic() + 3
while children < 2000 and time.monotonic() < end:
    try:
        pid = os.fork()
    except OSError as error:
        print("refused", error)
        break
    if pid == 0:
        time.sleep(3)
        os._exit(0)
    children += 1
if children > 60:
    breach("forked", children)
""",
        (Threat.FORKS,),
        stays_inside=True,
        expects=_BOMB,
    ),
    Attack(
        18,
        "fork_bomb_that_grows",
        """
import time
end = time.monotonic() + 1.5
for _ in range(10):
    try:
        os.fork()
    except OSError:
        pass
    if time.monotonic() > end:
        break
time.sleep(max(0, end - time.monotonic()))
""",
        (Threat.FORKS,),
        stays_inside=True,
        expects=_BOMB,
    ),
    Attack(
        18,
        "fork_bomb_in_bash",
        """
bomb() { [ "$1" -gt 0 ] && { bomb $(($1 - 1)) & bomb $(($1 - 1)) & wait; }; }
bomb 9 2>/dev/null
""",
        (Threat.FORKS,),
        stays_inside=True,
        language="bash",
        expects=_BOMB,
        wall_s=2.0,
        finishes=False,
    ),
    Attack(
        18,
        "thread_bomb",
        """
import threading, time
threading.stack_size(65536)
started, end = 0, time.monotonic() + 3
try:
    while started < 2000 and time.monotonic() < end:
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
        started += 1
except (RuntimeError, MemoryError) as error:
    print("refused", error)
if started > 60:
    breach("started", started)
""",
        (Threat.FORKS,),
        stays_inside=True,
        expects=_BOMB,
    ),
    Attack(
        (18, 19),
        "runner_that_is_never_the_same_process",
        """
import time
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
""",
        (Threat.DAEMONS,),
        stays_inside=True,
    ),
    Attack(
        19,
        "daemon",
        """
import signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, 64)
        time.sleep(30)
    os._exit(0)
os.wait()
""",
        (Threat.DAEMONS,),
        stays_inside=True,
    ),
    Attack(
        19,
        "daemon_of_bash",
        """
(setsid nohup sleep 30.@TOKEN@ >/dev/null 2>&1 </dev/null &)
nohup sleep 31.@TOKEN@ >/dev/null 2>&1 </dev/null &
disown -a
""",
        (Threat.DAEMONS,),
        stays_inside=True,
        language="bash",
    ),
    Attack(
        20,
        "child_holds_the_output",
        """
sleep 30.@TOKEN@ &
sleep 30.@TOKEN@ >&2 &
""",
        (Threat.DAEMONS,),
        stays_inside=True,
        language="bash",
        then="was_quick",
    ),
    Attack(
        21,
        "ignores_signals_and_spins",
        """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    pass
""",
        (Threat.CPU,),
        stays_inside=True,
        expects=CLOCK,
        wall_s=SHORT,
    ),
    Attack(
        21,
        "uses_up_its_processor_time",
        """
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass
""",
        (Threat.CPU,),
        stays_inside=True,
        expects=frozenset({Ended.CPU}),
        cpu_s=1.0,
        wall_s=60.0,
    ),
    Attack(
        21,
        "sleeps_for_ever",
        """
trap '' TERM INT HUP QUIT
while :; do sleep 100.@TOKEN@; done
""",
        (Threat.CPU,),
        stays_inside=True,
        language="bash",
        expects=CLOCK,
        wall_s=SHORT,
    ),
    Attack(
        21,
        "stops_itself",
        """
import signal
os.kill(os.getpid(), signal.SIGSTOP)
os.kill(0, signal.SIGSTOP)
import time
time.sleep(100)
""",
        (Threat.CPU,),
        stays_inside=True,
        expects=CLOCK,
        wall_s=SHORT,
    ),
    Attack(
        22,
        "endless_arithmetic",
        "print(len(str(3 ** (10 ** 8))) if sys.set_int_max_str_digits(0) is None else 0)",
        (Threat.CPU,),
        stays_inside=True,
        expects=CLOCK,
        wall_s=SHORT,
    ),
    Attack(
        22,
        "endless_regular_expression",
        "import re; re.match('(a+)+$', 'a' * 40 + 'b')",
        (Threat.CPU,),
        stays_inside=True,
        expects=CLOCK,
        wall_s=SHORT,
    ),
)
