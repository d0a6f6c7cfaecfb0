"""Numbers of the filter's system calls on the supported architectures: x86_64 and aarch64."""

from __future__ import annotations

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7), "arm64": (1, 0xC00000B7)}
"""Machine → column of the table below, and the kernel's architecture constant."""

HIGHEST_KNOWN = 466
"""System calls above this number are newer than this list, and fail as if the kernel did not have them."""

NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "prlimit64": (302, 261),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone": (56, 220),
    "clone3": (435, 435),
    # sockets and shared memory
    "socket": (41, 198),
    "socketpair": (53, 199),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # per-user and machine-wide quotas, and calls that wake up a stopped process
    "timer_create": (222, 107),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_setup": (206, 0),
    "fcntl": (72, 25),
    "mmap": (9, 222),
    "sync": (162, 81),
    "syncfs": (306, 267),
    # the page cache, which programs in different sandboxes could use to signal to each other
    "fadvise64": (221, 223),
    "readahead": (187, 213),
    "sync_file_range": (277, 84),
    "mincore": (27, 232),
    "cachestat": (451, 451),
    "preadv2": (327, 286),
    "madvise": (28, 233),
    # file attributes, which Landlock does not cover
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    # rarely used and risky
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "personality": (135, 92),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ioctl": (16, 29),
    # the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "nfsservctl": (180, 42),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
}


def number(name: str, machine: str) -> int | None:
    """Return the number of a system call, or `None` if the machine does not have it."""
    return NUMBERS[name][ARCHITECTURES[machine][0]]
