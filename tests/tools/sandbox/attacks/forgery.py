"""Attacks that forge the outcome of a run or cell."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

_LIES = r"""
import json, socket
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
import gc
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
import time
if os.fork() == 0:
    while True:
        for fd in range(3, 64):
            lie(lambda data: os.write(fd, data))
        time.sleep(0.01)
sys.exit(7)

=== thread_of_a_cell_ends_later_cells rows=29,46 threats=forged_results stays_inside session with=lies exit_code=7
=== unfinished then=cells_end_as_they_do
import threading, time
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
import time
os.closerange(3, 4096)
time.sleep(100)

=== session_meddles_with_later_runs rows=29,44 threats=forged_results stays_inside session then=runs_are_left_alone
import threading, time
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
""",
    lies=_LIES,
)
