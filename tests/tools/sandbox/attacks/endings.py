"""Attacks on the way a run or a session ends: closed streams, false goodbyes, broken shells."""

from __future__ import annotations

from agentgym.tools.sandbox.protection import Threat
from agentgym.tools.sandbox.result import Ended
from tests.tools.sandbox.attacks.attack import CLOCK, FELLED, SHORT, Attack, Way

ATTACKS = (
    Attack(
        28,
        "closes_its_output_and_goes_on",
        """
import time
for fd in (0, 1, 2):
    os.close(fd)
time.sleep(100)
""",
        (Threat.CPU,),
        stays_inside=True,
        expects=CLOCK,
        wall_s=SHORT,
    ),
    Attack(
        (28, 29),
        "closes_every_descriptor",
        """
import time
os.closerange(0, 4096)
time.sleep(100)
""",
        (Threat.CPU,),
        stays_inside=True,
        expects=CLOCK,
        wall_s=SHORT,
    ),
    Attack(
        30,
        "leaves_without_goodbye",
        "print('DONE', flush=True)\nos._exit(7)",
        (),
        stays_inside=True,
        exit_code=7,
    ),
    Attack(
        30,
        "dies_while_leaving",
        """
import atexit
atexit.register(lambda: os._exit(9))
print("DONE", flush=True)
raise RuntimeError("no")
""",
        (),
        stays_inside=True,
        exit_code=9,
    ),
    Attack(
        30,
        "hangs_while_leaving",
        """
import atexit, threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
atexit.register(time.sleep, 100)
""",
        (Threat.CPU,),
        stays_inside=True,
        expects=CLOCK,
        wall_s=SHORT,
    ),
    Attack(
        (46, 28),
        "session_replaces_itself",
        "os.execvp('sleep', ['sleep', '100.@TOKEN@'])",
        (Threat.CPU,),
        stays_inside=True,
        way=Way.SESSION,
        expects=frozenset({Ended.TIMEOUT, Ended.EXITED, Ended.SIGNALED}),
        wall_s=SHORT,
        finishes=False,
        exit_code=-1,
    ),
    Attack(
        (18, 46),
        "session_fills_the_process_table",
        """
import time
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
    except OSError as error:
        print("refused", error)
        break
""",
        (Threat.FORKS,),
        stays_inside=True,
        way=Way.SESSION,
        expects=frozenset({Ended.EXITED, Ended.PROCESSES}),
        then="runs_or_says_why_not",
    ),
    Attack(
        (29, 41),
        "session_lies_about_itself",
        """
import json
for lie in ({"exit_code": 10 ** 300, "cpu_s": float("nan"), "peak_kb": -1},
            {"exit_code": -5, "cpu_s": 1e400, "peak_kb": 1e30}, {"exit_code": [], "cpu_s": "x"}, []):
    text = json.dumps(lie).encode()
    for fd in range(3, 16):
        try:
            os.set_blocking(fd, False)
            os.write(fd, len(text).to_bytes(4, "big") + text)
        except OSError:
            pass
""",
        (),
        stays_inside=True,
        way=Way.SESSION,
        expects=FELLED,
        finishes=False,
        exit_code=-1,
        wall_s=2.0,
        then="numbers_are_sane",
    ),
    Attack(
        (46, 29),
        "session_comes_back_twice",
        """
twin = os.fork()
print("twin" if twin == 0 else "first")
""",
        (),
        stays_inside=True,
        way=Way.SESSION,
        expects=FELLED,
        wall_s=2.0,
        then="session_still_counts",
    ),
    Attack(
        (46, 30),
        "session_shell_kills_itself",
        "kill -9 $$",
        (),
        stays_inside=True,
        language="bash",
        way=Way.SESSION,
        expects=FELLED,
        finishes=False,
        then="session_still_counts",
    ),
    Attack(
        (46, 29),
        "session_shell_tricks",
        """
trap 'echo trapped' EXIT DEBUG ERR
exec 0</dev/null 2>/dev/null
PS1='$(echo x)'; PROMPT_COMMAND='echo prompt'
echo() { :; }; printf() { :; }; eval() { :; }; exit() { :; }; export -f echo printf
alias cd=false; set -eu; readonly IFS='x'
false
""",
        (),
        stays_inside=True,
        language="bash",
        way=Way.SESSION,
        expects=FELLED,
        wall_s=2.0,
        finishes=False,
        exit_code=1,
        then="session_still_counts",
    ),
)
