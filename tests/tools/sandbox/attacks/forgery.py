"""Attacks on the end and outcome of a run or cell: forgeries, closed streams, premature exits, broken shells."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

_LIES = r"""
outcome = {"exit_code": 0, "ended": "exited", "signal": None, "cpu_s": 0.0, "peak_kb": 1, "alive": True, "blobs": []}
text = json.dumps(outcome, separators=(",", ":")).encode()
lies = [len(text).to_bytes(4, "big") + text, b"0\0", b" 0\0", b"0\n", b"0" * 16 + b" 0\0", b"0" * 32 + b" 0\0"]
def lie(write):
    for forged in lies:
        with suppress(OSError):
            write(forged)
"""

ATTACKS = parse_attacks(
    r"""
=== cell_writes_an_end_of_its_own rows=29,30 threats=forged_results stays_inside session with=lies exit_code=7
=== unfinished then=cells_end_as_they_do
for fd in range(3, 64):
    try:
        os.set_blocking(fd, False)
    except OSError:
        continue
    lie(lambda data: os.write(fd, data))
sys.exit(7)

=== cell_finds_its_connection rows=29,30 threats=forged_results stays_inside session with=lies exit_code=7 unfinished
=== then=cells_end_as_they_do
found = [thing for thing in gc.get_objects() if isinstance(thing, socket.socket)]
frame = sys._getframe()
while frame is not None:
    found += [value for value in frame.f_locals.values() if isinstance(value, socket.socket)]
    frame = frame.f_back
for connection in found:
    lie(connection.send)
sys.exit(7)

=== child_of_a_cell_ends_later_cells rows=29,46 threats=forged_results stays_inside session with=lies exit_code=7
=== unfinished then=cells_end_as_they_do
if os.fork() == 0:
    while True:
        for fd in range(3, 64):
            lie(lambda data: os.write(fd, data))
        time.sleep(0.01)
sys.exit(7)

=== thread_of_a_cell_ends_later_cells rows=29,46 threats=forged_results stays_inside session with=lies exit_code=7
=== unfinished then=cells_end_as_they_do
def later():
    while True:
        for fd in range(4, 64):
            lie(lambda data: os.write(fd, data))
        time.sleep(0.01)
threading.Thread(target=later, daemon=True).start()
sys.exit(7)

=== shell_writes_an_end_of_its_own rows=29,30 threats=forged_results stays_inside bash session exit_code=7 unfinished
=== then=cells_end_as_they_do
for fd in {3..63}; do
  { printf '0\0 0\00000000000000000 0\0' >&$fd; printf '0\n' >&$fd; } 2>/dev/null
done
(while :; do for fd in {4..15}; do printf '0\0 0\0' >&$fd; done; sleep 0.01; done) 2>/dev/null &
(exit 7)

=== run_writes_an_end_of_its_own rows=29,30 threats=forged_results stays_inside with=lies exit_code=7 unfinished
=== then=cells_end_as_they_do
for fd in range(3, 64):
    lie(lambda data: os.write(fd, data))
os._exit(7)

=== cell_hangs_up_and_goes_on rows=28,30 threats=forged_results stays_inside session expects=clock wall_s=short
os.closerange(3, 4096)
time.sleep(100)

=== session_meddles_with_later_runs rows=29,44 threats=forged_results stays_inside session then=runs_are_left_alone
def meddle():
    while True:
        try:
            pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        except OSError:
            pids = range(2, 200)
        for pid in {*pids} - {1, os.getpid(), os.getppid()}:
            for fd in (1, 2, 3):
                with suppress(OSError):
                    with open(f"/proc/{pid}/fd/{fd}", "wb", buffering=0) as stream:
                        stream.write(b"FORGED")
if os.fork() == 0:
    meddle()
threading.Thread(target=meddle, daemon=True).start()

=== closes_its_output_and_goes_on rows=28 threats=cpu stays_inside expects=clock wall_s=short
for fd in (0, 1, 2):
    os.close(fd)
time.sleep(100)

=== closes_every_descriptor rows=28,29 threats=cpu stays_inside expects=clock wall_s=short
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
import atexit
threading.Thread(target=time.sleep, args=(100,)).start()
atexit.register(time.sleep, 100)

=== session_replaces_itself rows=46,28 threats=cpu stays_inside session expects=exited,signaled,timeout exit_code=-1
=== wall_s=short unfinished
os.execvp('sleep', ['sleep', '100.@TOKEN@'])

=== session_fills_the_process_table rows=18,46 threats=forks stays_inside session expects=exited,processes
=== then=runs_or_says_why_not
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
""",
    lies=_LIES,
)
