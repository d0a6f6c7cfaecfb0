"""Attacks on shared resources: per-user quotas of the kernel, locks on common files, the machine's state."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

COMMON_FILES = """
paths = '''/ /usr /usr/bin /usr/bin/env /bin/sh /lib /etc /etc/passwd /etc/ld.so.cache /etc/alternatives /dev /dev/null
/dev/zero /proc /proc/version /proc/sys/kernel/ostype /tmp /run /dev/shm /var /sys /home'''.split()
paths += [os.getcwd(), sys.executable, os.path.realpath(sys.executable), os.__file__]
"""
"""Files and folders that several sandboxes may be able to open."""

ATTACKS = parse_attacks(
    r"""
=== queues_signals rows=36,48 threats=kernel_quotas stays_inside
number = signal.SIGRTMIN + 3
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
for _ in range(3000):
    os.kill(os.getpid(), number)
queued = 0
while signal.sigtimedwait([number], 0) is not None:
    queued += 1
if queued > 600:
    breach("queued", queued)

=== asks_for_what_is_counted rows=36,48 threats=kernel_quotas stays_inside with=syscalls
area = ctypes.create_string_buffer(256)
there = ctypes.addressof(area)
event = (ctypes.c_int32 * 16)(0, 0, 10, 0)
forbidden("a timer by signal", 222, 107, 1, ctypes.addressof(event), there)
forbidden("a watch of files", 294, 26, 0)
forbidden("asynchronous input and output", 206, 0, 64, there)
forbidden("a message queue", 240, 180, ctypes.addressof(ctypes.create_string_buffer(b"ag")), 0o102, 0o600, 0)
forbidden("a queued signal", 129, 138, os.getpid(), 34, there)
forbidden("a key", 250, 219, 1, 0)
file = os.open("leased", os.O_CREAT | os.O_RDWR)
for what, command, value in (("a signal of one's choice", 10, 18), ("a lease", 1024, 1), ("a notice", 1026, 2)):
    forbidden(what, 72, 25, file, command, value)
if not ARM:
    forbidden("an old watch of files", 253, 0)
forbidden("the priority of all of the user's processes", 141, 140, 2, 0, 19)
forbidden("the disk priority of all of the user's processes", 251, 30, 3, 0, 3 << 13)
forbidden("large pages", 9, 222, 0, 1 << 21, 3, 0x40022, -1, 0)
if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
    breach("the host may be given what has crashed: 0 holds back files only")

=== uses_up_what_is_counted rows=36,48 threats=kernel_quotas stays_inside edge session then=a_neighbour_gets_its_share
import array, select
number = signal.SIGRTMIN + 3
signal.pthread_sigmask(signal.SIG_BLOCK, [number])
kept = []
def until_refused(what, call, most):
    done = 0
    with suppress(OSError, ValueError):
        for done in range(most):
            kept.append(call())
    print(what, done)
def pass_on():
    one, other = socket.socketpair()
    fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    for fd in fds:
        os.close(fd)
    return one, other
def watch():
    poll = select.epoll()
    for fd in range(3):
        with suppress(OSError):
            poll.register(fd)
    return poll
until_refused("signals", lambda: os.kill(os.getpid(), number), 3000)
until_refused("passed on", pass_on, 12)
until_refused("pipes", os.pipe, 8)
until_refused("watches", watch, 100)

=== locks_common_files rows=48 threats=file_locks stays_inside edge session with=common_files
=== then=nobody_sees_the_locks
kept = []
for path in paths:
    with suppress(OSError):
        kept.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(kept[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
print("locked", len(kept))

=== speaks_through_the_load rows=48 threats=side_channels stays_inside with=syscalls
area = ctypes.create_string_buffer(256)
if syscall(99, 179, ctypes.addressof(area)) >= 0:
    breach("sees the machine's load and free memory")
""",
    common_files=COMMON_FILES,
)
