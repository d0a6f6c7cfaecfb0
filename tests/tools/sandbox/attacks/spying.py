"""Attacks on secrets: environments, memories, descriptors, other processes."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== environments rows=12 threats=environment edge
print(dict(os.environ))
pids = {"@DRIVER@", "@VICTIM@", str(os.getppid()), "self", "1"}
with suppress(OSError):
    pids |= {entry for entry in os.listdir("/proc") if entry.isdigit()}
for pid in sorted(pids)[:3000]:
    for name in ("environ", "cmdline", "auxv"):
        with suppress(OSError):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                print(pid, name, file.read(3000).replace(b"\0", b" ")[:1500])

=== sees_other_processes rows=13 threats=processes
try:
    pids = [p for p in os.listdir("/proc") if p.isdigit()]
except OSError as error:
    pids = []
    print("refused", error)
for pid in {*pids, "@VICTIM@", "@DRIVER@"}:
    try:
        line = open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        continue
    if b"@MARK_A@" + b"@MARK_B@" in line:
        breach("sees the victim as", pid)
for pid in ("@VICTIM@", "@DRIVER@"):
    for entry in ("root/etc", "cwd", "fd", "map_files", "task"):
        with suppress(OSError):
            found = os.listdir(f"/proc/{pid}/{entry}")
            if entry in ("root/etc", "fd") or "@SECRET_BASE@" in found:
                breach("lists", pid, entry)

=== searches_its_memory rows=14 threats=environment stays_inside
import gc, re
wanted = "@SECRET_A@" + "@SECRET_B@"
for thing in gc.get_objects():
    try:
        if isinstance(thing, dict):
            pairs = list(thing.items())[:500]
            text = " ".join(str(part)[:2000] for pair in pairs for part in pair if isinstance(part, (str, bytes)))
        elif isinstance(thing, (list, tuple)):
            text = " ".join(str(part)[:2000] for part in thing[:500] if isinstance(part, (str, bytes)))
        else:
            continue
    except Exception:
        continue
    if found := re.search(wanted + "[0-9a-f]{16}", text):
        breach("in an object", found[0])
needle = wanted.encode()
try:
    maps, memory = open("/proc/self/maps").readlines(), open("/proc/self/mem", "rb", 0)
except OSError as error:
    print("refused", error)
    maps = []
for line in maps:
    span, mode = line.split()[:2]
    start, end = (int(part, 16) for part in span.split("-"))
    if mode[0] != "r" or end - start > 64 << 20 or start > 1 << 62:
        continue
    try:
        memory.seek(start)
        block = memory.read(end - start)
    except (OSError, OverflowError, ValueError, MemoryError):
        continue
    place = block.find(needle)
    while place >= 0:
        rest = block[place + len(needle):][:8]
        if rest[:1].isalnum():
            breach("in memory", rest)
        place = block.find(needle, place + 1)

=== inherited_descriptors rows=15 threats=environment stays_inside
import socket, stat
reply = int(os.environ.get("AGENTGYM_REPLY_FD", "-1"))
for fd in range(3, 4096):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    if fd == reply:
        continue
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        target = "?"
    if stat.S_ISSOCK(mode) or stat.S_ISDIR(mode) or stat.S_ISFIFO(mode) or "agentgym" in target:
        breach("descriptor", fd, oct(mode), target)
    with suppress(OSError):
        at = os.open("@SECRET_FILE@".lstrip("/"), os.O_RDONLY, dir_fd=fd)
        breach("opened through", fd, os.read(at, 100))

=== fakes_the_result rows=29,15 stays_inside exit_code=3
import json, struct
header = json.dumps({"ended": "exited", "exit_code": 0, "signal": None, "duration_s": 0.1, "cpu_s": 0,
                     "peak_memory_mb": 1, "cut": [0, 0], "alive": True, "blobs": [6, 0, 0]}).encode()
frame = struct.pack(">I", len(header)) + header + b"FORGED"
for fd in range(1024):
    with suppress(OSError):
        os.set_blocking(fd, False)
        os.write(fd, frame)
print("DONE", flush=True)
os._exit(3)

=== climbs_into_the_agent rows=29,14 stays_inside expects=felled exit_code=3 then=still_answers
import gc, socket, stat, types
def live(one):
    try:
        return stat.S_ISSOCK(os.fstat(one.fileno()).st_mode)
    except OSError:
        return False
header = b'{"ended": "exited", "exit_code": 0, "blobs": [0, 0, 0]}'
frame = len(header).to_bytes(4, "big") + header
found = [thing for thing in gc.get_objects() if isinstance(thing, socket.socket)]
for one in found:
    with suppress(OSError, ValueError):
        one.setblocking(False)
        one.send(frame)
        breach("a live socket of the agent", one)
frames, frame_ = [], sys._getframe()
while frame_:
    frames.append(frame_)
    frame_ = frame_.f_back
for each in frames[1:]:
    for scope in (each.f_locals, each.f_globals):
        for name, value in list(scope.items()):
            if isinstance(value, socket.socket) and live(value):
                breach("a socket in a frame", name)
for name, module in list(sys.modules.items()):
    if "agentgym" in name and isinstance(module, types.ModuleType):
        for key, value in list(vars(module).items()):
            if callable(value):
                with suppress(Exception):
                    setattr(module, key, lambda *args, **named: os._exit(0))
print("DONE", flush=True)
raise SystemExit(3)
""")
