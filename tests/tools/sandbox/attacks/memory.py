"""Attacks on memory: of one process, of all together, and outside of processes."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== memory_bomb rows=23 threats=memory stays_inside expects=exited,memory
held, total = [], 0
with suppress(MemoryError):
    while total < 1024:
        held.append(bytearray(os.urandom(1) * (32 << 20)))
        total += 32
held.clear()
if total > 300:
    breach("took", total, "MB")

=== memory_mapped_bomb rows=23 threats=memory stays_inside expects=exited,memory
import mmap
held, total = [], 0
with suppress(OSError, MemoryError, ValueError):
    while total < 1024:
        block = mmap.mmap(-1, 32 << 20)
        for place in range(0, len(block), 4096):
            block[place] = 1
        held.append(block)
        total += 32
if total > 300:
    breach("took", total, "MB")

=== many_processes_share_the_bomb rows=23 threats=total_memory stays_inside expects=exited,memory wall_s=patient
children = set()
for _ in range(12):
    with suppress(OSError):
        if (pid := os.fork()) == 0:
            with suppress(MemoryError):
                held = [bytearray(b"x" * (8 << 20)) for _ in range(10)]
                time.sleep(100)
            os._exit(0)
        children.add(pid)
for _ in range(200):
    children -= {pid for pid in children if os.waitpid(pid, os.WNOHANG)[0]}
    if len(children) <= 6:
        break
    time.sleep(0.1)
else:
    breach(len(children), "processes hold 80 MB each")

=== shared_memory_folder rows=11 threats=total_memory,disk,files expects=disk,exited,memory wall_s=patient
with suppress(OSError):
    for number in range(128):
        fill(f"/dev/shm/agentgym-attack-@TOKEN@-{number}", 4)
    outlast("took 512 MB")

=== memory_files rows=11 threats=total_memory stays_inside expects=exited,memory wall_s=patient
with suppress(OSError):
    for _ in range(50):
        fd = os.memfd_create("bomb")
        for _ in range(12):
            os.write(fd, bytes(1 << 20))
    outlast("took 600 MB")

=== system_v_and_posix_ipc_that_stay rows=11 threats=neighbours with=syscalls
key = 0x61670000 + int("@TOKEN@") % 65536
for what, x86, arm, args in (("shmget", 29, 194, (key, 1 << 20, 0o1666)), ("msgget", 68, 186, (key, 0o1666)),
                             ("semget", 64, 190, (key, 1, 0o1666))):
    print(what, syscall(x86, arm, *args))
name = ctypes.create_string_buffer(b"agentgym-attack-@TOKEN@")
print("mq_open", syscall(240, 180, ctypes.addressof(name), os.O_CREAT | os.O_RDWR, 0o666, 0))

=== pipes_full_of_memory rows=11 threats=total_memory stays_inside
total = 0
with suppress(OSError):
    for _ in range(2000):
        read, write = os.pipe()
        os.set_blocking(write, False)
        with suppress(OSError):
            fcntl.fcntl(write, 1031, 1 << 20)
        total += os.write(write, bytes(1 << 20))
if total > 200 << 20:
    breach("held", total)

=== deep_recursion rows=24 stays_inside expects=exited,memory,signaled exit_code=1 then=no_core_file
sys.setrecursionlimit(10 ** 9)
class Deep:
    def __repr__(self):
        return repr(self)
    def __eq__(self, other):
        return self == other
print("DONE", flush=True)
repr(Deep())

=== segmentation_fault rows=24 stays_inside expects=signaled then=no_core_file
import ctypes
with suppress(ValueError, OSError):
    resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
    breach("core files may be written")
sys.stdout.flush()
ctypes.string_at(1)

=== raises_its_own_limits rows=38 threats=privilege may_lose then=still_answers
for name in ("AS", "CPU", "FSIZE", "NPROC", "NOFILE", "CORE", "MEMLOCK", "MSGQUEUE", "RTPRIO", "NICE"):
    which = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        attempt("raise " + name, resource.setrlimit, which, (hard + 1, hard + 1))
        attempt("unlimit " + name, resource.setrlimit, which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with suppress(OSError, ValueError):
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0)) if os.getppid() else None
    print("limited the parent")
""")
