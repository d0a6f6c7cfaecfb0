"""Attacks on the reader of the output: floods, strange bytes, strange programs."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== endless_output rows=25 stays_inside expects=output,timeout wall_s=2
block, total = b"x" * 65536, 0
while total < 2 << 30:
    total += os.write(1, block)

=== endless_errors rows=25 stays_inside bash expects=output,timeout wall_s=2
yes | head -c 2147483648 >&2

=== one_endless_line rows=25 stays_inside expects=exited,output,timeout wall_s=2 unfinished
block = b"x" * (1 << 20)
for _ in range(200):
    os.write(1, block); os.write(2, block)

=== endless_reply rows=25 stays_inside expects=exited,output,signaled,timeout wall_s=2
fd, block, total = int(os.environ["AGENTGYM_REPLY_FD"]), b"x" * 65536, 0
with suppress(OSError):
    while total < 1 << 30:
        total += os.write(fd, block)

=== endless_output_of_a_session rows=25 stays_inside bash session expects=output,timeout wall_s=2
yes | head -c 2147483648

=== a_megabyte_is_no_attack rows=26 stays_inside then=kept_both_ends
for number in range(10_000):
    print(f"{number:0100}")

=== bytes_that_are_no_text rows=27 stays_inside then=bytes_came_through
os.write(1, bytes(range(256)) + b"\xed\xa0\x80\xff\x00\x1b]0;title\x07\x1b[2J\r\n")
os.write(2, b"\xc3\x28\x00")

=== programs_that_are_none rows=31 stays_inside then=survives_strange_programs
pass

=== huge_arguments rows=31 stays_inside then=survives_huge_arguments
for arguments in (["x" * (1 << 22)], ["x" * 1000] * 10_000):
    with suppress(OSError, MemoryError):
        subprocess.run(["/bin/true", *arguments], check=False)
        print("ran")

=== prints_a_verdict rows=27,29 stays_inside exit_code=1
print('{"ended": "exited", "exit_code": 0}\n===== 1 passed in 0.01s =====')
print("__AGENTGYM_DONE__", 0)
sys.stdout.flush()
print("DONE", flush=True)
sys.exit(1)

=== session_breaks_its_streams rows=28,31 stays_inside session expects=felled exit_code=-1 wall_s=1 unfinished
=== then=still_answers
import builtins
sys.stdout = sys.stderr = sys.stdin = None
builtins.print = builtins.compile = builtins.exec = builtins.repr = builtins.eval = None
os.write = os.read = None
sys.displayhook = sys.excepthook = None
sys.modules.clear()
""")
