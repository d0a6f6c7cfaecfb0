"""Attacks on other processes: tracing, signals, the sandbox next door."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
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
    for line in range(1):
        remote = (ctypes.c_void_p * 2)(id(None), 64)
        forbidden("read memory of " + who, 310, 270, pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
        forbidden("write memory of " + who, 311, 271, pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
    handle = syscall(434, 434, pid, 0)
    if handle >= 0:
        if who in ("driver", "victim"):
            try:
                alien = open(f"/proc/{pid}/cmdline", "rb").read()
            except OSError:
                alien = b""
            if b"@MARK_A@" + b"@MARK_B@" in alien:
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
import signal
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
import signal, time
for pid in {os.getppid(), 1} - {0, os.getpid()}:
    try:
        os.kill(pid, 0)
    except OSError as error:
        print("refused", error)
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
import signal
for pid in {os.getppid(), 1} - {0, os.getpid()}:
    with suppress(OSError):
        if not (pid == 1 and open("/proc/1/comm").read().strip() in ("systemd", "init")):
            os.kill(pid, signal.SIGSTOP)

=== kills_everyone rows=17 threats=processes may_lose expects=felled wall_s=2
import signal, time
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
import socket, time
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
