"""Attacks on secrets and other processes: environments, memories, descriptors, signals, the sandbox next door."""

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
pids = {"@VICTIM@", "@DRIVER@"}
with suppress(OSError):
    pids |= {entry for entry in os.listdir("/proc") if entry.isdigit()}
for pid in pids:
    with suppress(OSError):
        if b"@MARK_A@" + b"@MARK_B@" in open(f"/proc/{pid}/cmdline", "rb").read():
            breach("sees the victim as", pid)
for pid in ("@VICTIM@", "@DRIVER@"):
    for entry in ("root/etc", "cwd", "fd", "map_files", "task"):
        with suppress(OSError):
            found = os.listdir(f"/proc/{pid}/{entry}")
            if entry in ("root/etc", "fd") or "@SECRET_BASE@" in found:
                breach("lists", pid, entry)

=== searches_its_memory rows=14 threats=environment stays_inside
import re
wanted = "@SECRET_A@" + "@SECRET_B@"
for thing in gc.get_objects():
    with suppress(Exception):
        parts = thing
        if isinstance(thing, dict):
            parts = [part for pair in list(thing.items())[:500] for part in pair]
        if isinstance(parts, (list, tuple)):
            text = " ".join(str(part)[:2000] for part in parts[:1000] if isinstance(part, (str, bytes)))
            if found := re.search(wanted + "[0-9a-f]{16}", text):
                breach("in an object", found[0])
needle = wanted.encode()
maps = []
with suppress(OSError):
    maps, memory = open("/proc/self/maps").readlines(), open("/proc/self/mem", "rb", 0)
for line in maps:
    span, mode = line.split()[:2]
    start, end = (int(part, 16) for part in span.split("-"))
    if mode[0] != "r" or end - start > 64 << 20 or start > 1 << 62:
        continue
    block = b""
    with suppress(OSError, OverflowError, ValueError, MemoryError):
        memory.seek(start)
        block = memory.read(end - start)
    place = block.find(needle)
    while place >= 0:
        rest = block[place + len(needle):][:8]
        if rest[:1].isalnum():
            breach("in memory", rest)
        place = block.find(needle, place + 1)

=== inherited_descriptors rows=15 threats=environment stays_inside
reply = int(os.environ.get("AGENTGYM_REPLY_FD", "-1"))
for fd in range(3, 4096):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    if fd == reply:
        continue
    target = "?"
    with suppress(OSError):
        target = os.readlink(f"/proc/self/fd/{fd}")
    if stat.S_ISSOCK(mode) or stat.S_ISDIR(mode) or stat.S_ISFIFO(mode) or "agentgym" in target:
        breach("descriptor", fd, oct(mode), target)
    with suppress(OSError):
        at = os.open("@SECRET_FILE@".lstrip("/"), os.O_RDONLY, dir_fd=fd)
        breach("opened through", fd, os.read(at, 100))

=== fakes_the_result rows=29,15 stays_inside exit_code=3
import struct
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
import types
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
frame_ = sys._getframe().f_back
while frame_:
    for name, value in [*frame_.f_locals.items(), *frame_.f_globals.items()]:
        if isinstance(value, socket.socket) and live(value):
            breach("a socket in a frame", name)
    frame_ = frame_.f_back
for name, module in list(sys.modules.items()):
    if "agentgym" in name and isinstance(module, types.ModuleType):
        for key, value in list(vars(module).items()):
            if callable(value):
                with suppress(Exception):
                    setattr(module, key, lambda *args, **named: os._exit(0))
print("DONE", flush=True)
raise SystemExit(3)

=== traces_others rows=16 threats=processes with=syscalls
pids = {"victim": @VICTIM@, "parent": os.getppid(), "driver": @DRIVER@, "first": 1}
for who, pid in pids.items():
    if pid in (0, os.getpid()):
        continue
    if forbidden("attach to " + who, 101, 117, 16, pid, 0, 0) >= 0:
        sys.exit("whoever is traced stands still")
    forbidden("seize " + who, 101, 117, 0x4206, pid, 0, 0)
    buffer = ctypes.create_string_buffer(64)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
    remote = (ctypes.c_void_p * 2)(id(None), 64)
    forbidden("read memory of " + who, 310, 270, pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
    forbidden("write memory of " + who, 311, 271, pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
    handle = syscall(434, 434, pid, 0)
    if handle >= 0:
        with suppress(OSError):
            if b"@MARK_A@" + b"@MARK_B@" in open(f"/proc/{pid}/cmdline", "rb").read():
                breach("a handle of", who)
        for fd in range(64):
            got = syscall(438, 438, handle, fd, 0)
            if got >= 0:
                breach("took descriptor", fd, "of", who)
                break
    for mode in ("rb", "r+b"):
        with suppress(OSError):
            open(f"/proc/{pid}/mem", mode, buffering=0)
            breach("opened the memory of", who, mode)
    forbidden("kcmp " + who, 312, 272, pid, pid, 0, 0, 1)

=== signals_strangers rows=17 threats=processes
def visible(pid):
    try:
        return b"@MARK_A@" + b"@MARK_B@" in open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return None
for who, pid in (("driver", @DRIVER@), ("victim", @VICTIM@)):
    with suppress(OSError):
        os.kill(pid, 0)
        if visible(pid) is not False:
            breach("can signal the", who)

=== kills_its_parent rows=17 threats=processes may_lose expects=felled wall_s=2
for pid in {os.getppid(), 1} - {0, os.getpid()}:
    try:
        os.kill(pid, 0)
    except OSError:
        continue
    if pid == 1 and open("/proc/1/comm").read().strip() in ("systemd", "init"):
        breach("can signal the host's init")
        continue
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGSEGV, signal.SIGKILL):
        with suppress(OSError):
            os.kill(pid, number)
            print("sent", number, "to", pid)
    time.sleep(0.05)
time.sleep(0.2)

=== stops_its_parent rows=17 threats=processes may_lose expects=felled wall_s=2
for pid in {os.getppid(), 1} - {0, os.getpid()}:
    with suppress(OSError):
        if not (pid == 1 and open("/proc/1/comm").read().strip() in ("systemd", "init")):
            os.kill(pid, signal.SIGSTOP)

=== kills_everyone rows=17 threats=processes may_lose expects=felled wall_s=2
try:
    os.kill(@VICTIM@, 0)
    foreign = b"@MARK_A@" + b"@MARK_B@" in open("/proc/@VICTIM@/cmdline", "rb").read()
except OSError:
    foreign = False
if foreign:
    breach("could kill a process of the host")
else:
    with suppress(OSError):
        os.kill(-1, signal.SIGKILL)
time.sleep(0.3)

=== reaches_a_neighbour rows=48 threats=neighbours session then=neighbours_are_apart
places = [os.getcwd(), os.environ.get("TMPDIR", "/tmp"), os.environ["HOME"], "/tmp", "/dev/shm"]
for place in places:
    with suppress(OSError):
        with open(place + "/agentgym-attack-@TOKEN@", "w") as file:
            file.write("@MARK_A@" + "@MARK_B@")
        os.chmod(file.name, 0o666)
with suppress(OSError):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0ag-@TOKEN@")
    listener.listen()
print("PLACES", ":".join(places), flush=True)
""")
