"""Attacks on the kernel: namespaces, mounts, unusual system calls, devices, settings."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== namespaces rows=35 threats=kernel with=syscalls expects=exited,signaled
flags = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x8000000, "uts": 0x4000000,
         "cgroup": 0x2000000, "time": 0x80}
for name, flag in flags.items():
    forbidden("unshare " + name, 272, 97, flag)
    # The number of the time namespace is a signal to the older call.
    got = syscall(56, 220, flag | 17, 0, 0, 0, 0) if name != "time" else -1
    if got == 0:
        os._exit(0)
    breach("clone " + name) if got > 0 else print("refused clone", name, os.strerror(-got))
    area = (ctypes.c_uint64 * 11)(flag, 0, 0, 0, 17)
    got = syscall(435, 435, ctypes.addressof(area), 88)
    if got == 0:
        os._exit(0)
    breach("clone3 " + name) if got > 0 else print("refused clone3", name, os.strerror(-got))
for pid in ("@VICTIM@", "@DRIVER@", "1", "self"):
    for name in ("user", "mnt", "net", "pid"):
        with suppress(OSError):
            forbidden(f"setns {pid} {name}", 308, 268, os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), 0)

=== mounts rows=35 threats=privilege with=syscalls expects=exited,signaled
def text(value):
    kept.append(ctypes.create_string_buffer(value))
    return ctypes.addressof(kept[-1])
kept = []
here = os.getcwd().encode()
if forbidden("mount tmpfs", 165, 40, text(b"none"), text(here), text(b"tmpfs"), 0, 0) >= 0:
    sys.exit("whoever may mount could do harm with what follows")
forbidden("bind mount", 165, 40, text(b"/"), text(here), 0, 4096, 0)
forbidden("remount", 165, 40, 0, text(b"/"), 0, 32 | 4096, 0)
forbidden("umount", 166, 39, text(b"/proc"), 2)
forbidden("pivot_root", 155, 41, text(here), text(here))
forbidden("chroot", 161, 51, text(here))
forbidden("fsopen", 430, 430, text(b"tmpfs"), 0)
forbidden("open_tree", 428, 428, -100, text(b"/"), 1)
forbidden("mount_setattr", 442, 442, -100, text(b"/"), 0, 0, 0)
forbidden("open_by_handle_at", 304, 265, -100, text(bytes(64)), 0)

=== unusual_system_calls rows=36 threats=kernel with=syscalls expects=exited,signaled
area = ctypes.create_string_buffer(4096)
there = ctypes.addressof(area)
forbidden("io_uring_setup", 425, 425, 4, there)
forbidden("bpf", 321, 280, 0, there, 72)
area[0:8] = bytes([1, 0, 0, 0, 112, 0, 0, 0])
area[40] = 0x61
forbidden("perf_event_open", 298, 241, there, 0, -1, -1, 0)
forbidden("userfaultfd", 323, 282, 1)
forbidden("keyctl", 250, 219, 0, -3, 1)
forbidden("add_key", 248, 217, ctypes.addressof(ctypes.create_string_buffer(b"user")), there, there, 1, -3)
forbidden("kexec_load", 246, 104, 0, 0, 0, 0)
forbidden("init_module", 175, 105, there, 0, there)
forbidden("finit_module", 313, 273, 0, there, 0)
forbidden("delete_module", 176, 106, ctypes.addressof(ctypes.create_string_buffer(b"no_such_module")), 0)
forbidden("swapon", 167, 224, ctypes.addressof(ctypes.create_string_buffer(b"/no/such")), 0)
forbidden("acct", 163, 89, 0)
forbidden("syslog", 103, 116, 3, there, 100)
forbidden("fanotify_init", 300, 262, 0, 0)
forbidden("quotactl", 179, 60, 0x80000700, 0, 0, there)
if not ARM:
    forbidden("iopl", 172, 0, 3)
    forbidden("ioperm", 173, 0, 0x80, 1, 1)

=== other_call_conventions rows=36,34 threats=kernel with=syscalls expects=exited,signaled
import mmap
if ARM:
    print("refused: no such conventions")
else:
    got = syscall(0x40000000 + 41, 0, 40, 1, 0)
    breach("x32 socket") if got >= 0 else print("refused", os.strerror(-got))
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        # mov eax, 359 (i386 socket); mov ebx, 40 (vsock); mov ecx, 1; xor edx, edx; int 0x80; ret
        code = bytes.fromhex("53b867010000bb28000000b90100000031d2cd805bc3")
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        got = call()
        breach("i386 socket", got) if got >= 0 else print("refused i386", got)
        sys.stdout.flush()
        os._exit(0)
    print("ended", os.waitpid(pid, 0)[1])

=== kernel_settings rows=37 threats=privilege
paths = '''
/proc/sys/kernel/core_pattern /proc/sys/kernel/pid_max /proc/sys/kernel/hostname /proc/sys/vm/overcommit_memory
/proc/sys/net/ipv4/ip_forward /proc/sys/fs/binfmt_misc/register /proc/sys/kernel/modprobe /proc/sysrq-trigger
/proc/irq/default_smp_affinity /proc/acpi/wakeup /proc/timer_list /proc/keys
/sys/kernel/uevent_helper /sys/power/state /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/tracing/trace
/sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/tasks
/sys/fs/cgroup/memory/release_agent /sys/fs/cgroup/release_agent /sys/kernel/debug
'''.split()
def hidden(path):
    return os.path.exists(path) and os.stat(path).st_rdev == os.stat("/dev/null").st_rdev
for path in paths:
    # Only ever opened: what these files do is done by writing.
    # Where a container hides a file, there is /dev/null.
    attempt("open for writing " + path, lambda: os.close(os.open(path, os.O_WRONLY))) if not hidden(path) else None
for folder in ("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"):
    attempt("cgroup in " + folder, os.mkdir, folder + "/agentgym-attack-@TOKEN@")
def lower():
    value = int(open("/proc/self/oom_score_adj").read())
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(value - 1))
attempt("oom_score_adj", lower)
for name in ("uid_map", "gid_map"):
    attempt(name, lambda: os.write(os.open("/proc/self/" + name, os.O_WRONLY), b"0 0 1"))

=== priorities rows=38 threats=privilege with=syscalls
attempt("SCHED_FIFO", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
attempt("SCHED_RR", os.sched_setscheduler, 0, os.SCHED_RR, os.sched_param(1))
def nicer():
    now = os.nice(0)
    if os.nice(-1) >= now:
        raise OSError("not nicer")
attempt("nice", nicer)
forbidden("real-time input and output", 251, 30, 1, 0, (1 << 13) | 4)
attempt("parent's priority", lambda: os.setpriority(os.PRIO_PROCESS, @VICTIM@, 19))

=== clocks rows=38 threats=privilege with=syscalls expects=exited,signaled
now = (ctypes.c_int64 * 2)(*divmod(time.clock_gettime_ns(time.CLOCK_REALTIME), 10 ** 9))
forbidden("clock_settime", 227, 112, 0, ctypes.addressof(now))
change = (ctypes.c_int64 * 32)(0x0001, 0)
forbidden("adjtimex", 159, 171, ctypes.addressof(change)) if os.geteuid() else None
os.environ["TZ"] = ":@SECRET_FILE@"
time.tzset()
print(time.tzname)
import locale
for name in ("tr_TR.UTF-8", "C", "xx_XX", "../../@SECRET_FILE@"):
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, name)

=== terminals_and_devices rows=39 threats=privilege
import glob, termios
names = '''tty console kmsg mem port kvm fuse net/tun vda sda loop-control loop0 vsock vhost-vsock userfaultfd
nvidia0 dri/card0 uinput rtc0 hwrng'''.split()
for path in ['/dev/' + name for name in names] + glob.glob('/dev/pts/[0-9]*') + glob.glob('/dev/tty[0-9]*'):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        attempt(path, lambda: os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)))
for fd in (0, 1, 2):
    if os.isatty(fd):
        breach("a terminal at", fd)
    attempt("TIOCSTI", fcntl.ioctl, fd, termios.TIOCSTI, b"x")
""")
