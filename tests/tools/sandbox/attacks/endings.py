"""Attacks on the end of a run or session: closed streams, premature exits, broken shells."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== closes_its_output_and_goes_on rows=28 threats=cpu stays_inside expects=clock wall_s=short
import time
for fd in (0, 1, 2):
    os.close(fd)
time.sleep(100)

=== closes_every_descriptor rows=28,29 threats=cpu stays_inside expects=clock wall_s=short
import time
os.closerange(0, 4096)
time.sleep(100)

=== leaves_without_goodbye rows=30 stays_inside exit_code=7
print('DONE', flush=True)
os._exit(7)

=== dies_while_leaving rows=30 stays_inside exit_code=9
import atexit
atexit.register(lambda: os._exit(9))
print("DONE", flush=True)
raise RuntimeError("no")

=== hangs_while_leaving rows=30 threats=cpu stays_inside expects=clock wall_s=short
import atexit, threading, time
threading.Thread(target=time.sleep, args=(100,)).start()
atexit.register(time.sleep, 100)

=== session_replaces_itself rows=46,28 threats=cpu stays_inside session expects=exited,signaled,timeout exit_code=-1
=== wall_s=short unfinished
os.execvp('sleep', ['sleep', '100.@TOKEN@'])

=== session_fills_the_process_table rows=18,46 threats=forks stays_inside session expects=exited,processes
=== then=runs_or_says_why_not
import time
for _ in range(200):
    try:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
    except OSError as error:
        print("refused", error)
        break

=== session_lies_about_itself rows=29,41 stays_inside session expects=felled exit_code=-1 wall_s=2 unfinished
=== then=numbers_are_sane
import json
for lie in ({"exit_code": 10 ** 300, "cpu_s": float("nan"), "peak_kb": -1},
            {"exit_code": -5, "cpu_s": 1e400, "peak_kb": 1e30}, {"exit_code": [], "cpu_s": "x"}, []):
    text = json.dumps(lie).encode()
    for fd in range(3, 16):
        with suppress(OSError):
            os.set_blocking(fd, False)
            os.write(fd, len(text).to_bytes(4, "big") + text)

=== session_comes_back_twice rows=46,29 stays_inside session expects=felled wall_s=2 then=session_still_counts
twin = os.fork()
print("twin" if twin == 0 else "first")

=== session_shell_kills_itself rows=46,30 stays_inside bash session expects=felled unfinished
=== then=session_still_counts
kill -9 $$

=== session_shell_tricks rows=46,29 stays_inside bash session expects=felled exit_code=1 wall_s=2 unfinished
=== then=session_still_counts
trap 'echo trapped' EXIT DEBUG ERR
exec 0</dev/null 2>/dev/null
PS1='$(echo x)'; PROMPT_COMMAND='echo prompt'
echo() { :; }; printf() { :; }; eval() { :; }; exit() { :; }; export -f echo printf
alias cd=false; set -eu; readonly IFS='x'
false
""")
