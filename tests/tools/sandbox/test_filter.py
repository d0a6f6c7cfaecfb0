"""The system call filter for every supported machine, run by a small interpreter of classic BPF."""

from __future__ import annotations

import errno
import struct

import pytest

from agentgym.tools.sandbox.agent.lockdown import seccomp, syscalls
from tests.rows import each_row

pytestmark = pytest.mark.real

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
MACHINES = ("x86_64", "aarch64")
LIBRARY_CALLS = {
    "x86_64": (0, 1, 9, 56, 57, 59, 61, 231, 257, 434),
    "aarch64": (63, 64, 222, 220, 221, 260, 94, 56, 434),
}
"""read, write, mmap, clone, (fork,) execve, wait4, exit_group, openat, pidfd_open."""


def decide(
    machine: str,
    number: int,
    *arguments: int,
    architecture: int | None = None,
    part: seccomp.FilterPart = seccomp.FilterPart.ALL,
) -> int:
    """Return the filter's decision on a system call."""
    code = seccomp.program(machine, part)
    program = [struct.unpack_from("HBBI", code, at) for at in range(0, len(code), 8)]
    own = syscalls.ARCHITECTURES[machine][1]
    data = struct.pack("IIQ6Q", number, architecture or own, 0, *arguments, *[0] * (6 - len(arguments)))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = program[at]
        at += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("I", data, value)
            continue
        tests = {0x15: accumulator == value, 0x25: accumulator > value, 0x45: bool(accumulator & value)}
        at += if_true if tests[operation] else if_false


def call(machine: str, name: str, *arguments: int) -> int:
    number = syscalls.number(name, machine)
    assert number is not None
    return decide(machine, number, *arguments)


@each_row("machine", MACHINES)
def test_each_call_is_allowed_refused_or_unsupported(machine: str) -> None:
    assert {decide(machine, number) for number in LIBRARY_CALLS[machine]} == {ALLOW}
    decisions = {
        ALLOW: "clone 17|socketpair 1|prlimit64 0|setpriority 0 0|ioprio_set 1 0|mmap 0 0 0 0x22|fcntl 3 1|fcntl 3 6"
        "|ioctl 0 0x5401|madvise 0 0 4|madvise 0 0 8",
        ERRNO | errno.EPERM: "socket|mount|ptrace|unshare|setns|bpf|io_uring_setup|keyctl|memfd_create|chroot"
        "|clone 0x10000011|socketpair 2|prlimit64 1|setpriority 0 7|setpriority 2 0|ioprio_set 3 0|ioprio_set 1 7"
        "|mmap 0 0 0 0x40022|fcntl 3 10|fcntl 3 1024|fcntl 3 1026|ioctl 0 0x5412"
        "|madvise 0 0 12|madvise 0 0 20|madvise 0 0 21",
        ERRNO | errno.ENOSYS: "clone3|timer_create|inotify_init1|io_setup|mincore|cachestat|preadv2",
        ERRNO: "sync|syncfs|fadvise64 3 0 0 4|readahead|sync_file_range",
    }
    for decision, calls in decisions.items():
        for name, *arguments in map(str.split, calls.split("|")):
            assert call(machine, name, *(int(word, 0) for word in arguments)) == decision, (name, arguments)
    assert decide(machine, syscalls.HIGHEST_KNOWN + 1) == decide(machine, 0x40000000) == ERRNO | errno.ENOSYS
    assert decide(machine, 0, architecture=0x40000003) == KILL


@each_row("machine", MACHINES)
def test_the_two_parts_of_the_filter_refuse_as_much_as_the_whole(machine: str) -> None:
    for number in range(syscalls.HIGHEST_KNOWN + 2):
        for argument in (0, 1, 2, 0x10000000):
            whole, *parts = (decide(machine, number, argument, argument, part=part) for part in seccomp.FilterPart)
            assert whole == min(parts), (number, argument)  # the kernel takes the strictest, which is the smallest


@each_row("machine", MACHINES)
def test_the_filter_of_a_zygote_allows_only_the_calls_to_build_sandboxes(machine: str) -> None:
    building = {"mount", "umount2", "pivot_root", "open_tree", "move_mount", "mount_setattr", "unshare", "setns"}
    for name in syscalls.NUMBERS:
        number = syscalls.number(name, machine)
        if number is not None and decide(machine, number, 0x7FFFFFFF, 0x7FFFFFFF) != ALLOW:
            decision = decide(machine, number, 0x7FFFFFFF, 0x7FFFFFFF, part=seccomp.FilterPart.BEFORE)
            assert (decision == ALLOW) == (name in building), name
