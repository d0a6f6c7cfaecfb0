"""Attacks on the disk: its size, its number of files, and what makes it hard to clean up."""

from __future__ import annotations

from agentgym.tools.sandbox.protection import Threat
from agentgym.tools.sandbox.result import Ended
from tests.tools.sandbox.attacks.attack import PATIENT_S, Attack

_QUOTA = frozenset({Ended.EXITED, Ended.DISK})
_COUNT = frozenset({Ended.EXITED, Ended.FILES})

ATTACKS = (
    Attack(
        6,
        "disk_full_of_files",
        """
block = os.urandom(1 << 20)
try:
    for number in range(32):
        for folder in (".", os.environ.get("TMPDIR", "/tmp")):
            with open(f"{folder}/fill{number}", "wb") as file:
                file.write(block)
except OSError as error:
    print("refused", error)
else:
    outlast("wrote 64 MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        wall_s=PATIENT_S,
        expects=_QUOTA,
    ),
    Attack(
        6,
        "disk_full_of_unlinked_files",
        """
held = []
try:
    for number in range(16):
        file = open("gone", "wb")
        os.unlink("gone")
        held.append(file)
        for _ in range(6):
            file.write(bytes(1 << 20))
            file.flush()
except OSError as error:
    print("refused", error)
else:
    outlast("held 96 MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        wall_s=PATIENT_S,
        expects=_QUOTA,
    ),
    Attack(
        6,
        "disk_full_behind_closed_doors",
        """
try:
    for number in range(16):
        os.mkdir(f"d{number}")
        with open(f"d{number}/file", "wb") as file:
            file.write(bytes(6 << 20))
        os.chmod(f"d{number}", 0)
except OSError as error:
    print("refused", error)
else:
    outlast("hid 96 MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        wall_s=PATIENT_S,
        expects=_QUOTA,
    ),
    Attack(
        6,
        "disk_full_in_a_locked_workspace",
        """
files = [open(f"file{number}", "wb", buffering=0) for number in range(16)]
os.chmod(".", 0)
os.chmod(os.environ.get("TMPDIR", "."), 0)
try:
    for file in files:
        file.write(bytes(6 << 20))
except OSError as error:
    print("refused", error)
else:
    outlast("wrote 96 MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        wall_s=PATIENT_S,
        expects=_QUOTA,
    ),
    Attack(
        (6, 9),
        "disk_full_in_the_depth",
        """
try:
    for _ in range(30):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    for number in range(16):
        with open(f"file{number}", "wb") as file:
            file.write(bytes(6 << 20))
except OSError as error:
    print("refused", error)
else:
    outlast("hid 96 MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        wall_s=PATIENT_S,
        expects=_QUOTA,
    ),
    Attack(
        6,
        "one_large_file",
        """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
total = 0
try:
    with open("large", "wb", buffering=0) as file:
        while total < 128 << 20:
            total += file.write(bytes(1 << 20))
except OSError as error:
    print("refused", error)
if total > 20 << 20:
    breach("wrote", total)
attempt("allocate", lambda: os.posix_fallocate(os.open("more", os.O_CREAT | os.O_RDWR), 0, 128 << 20))
""",
        (Threat.DISK,),
        stays_inside=True,
        expects=frozenset({Ended.EXITED, Ended.DISK, Ended.FILE_SIZE}),
    ),
    Attack(
        6,
        "one_large_file_from_bash",
        """
head -c 134217728 /dev/zero > large
size=$(wc -c < large)
[ "$size" -gt 20971520 ] && breach "wrote $size"
true
""",
        (Threat.DISK,),
        stays_inside=True,
        language="bash",
        expects=frozenset({Ended.EXITED, Ended.DISK, Ended.FILE_SIZE}),
    ),
    Attack(
        7,
        "inode_flood",
        """
try:
    for made in range(2500):
        if made % 3 == 0:
            open(f"f{made}", "w").close()
        elif made % 3 == 1:
            os.mkdir(f"d{made}")
        else:
            os.symlink("x", f"s{made}")
except OSError as error:
    print("refused", error)
else:
    outlast("made 2,500 files")
""",
        (Threat.INODES,),
        stays_inside=True,
        wall_s=PATIENT_S,
        expects=_COUNT,
    ),
    Attack(
        7,
        "a_million_small_files",
        """
temporary = os.environ.get("TMPDIR", "/tmp")
try:
    for made in range(20_000):
        folder = f"{temporary}/n{made // 1000}" if made % 2 else f"n{made // 1000}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{made}", "w") as file:
            file.write("x")
except OSError as error:
    print("refused", error)
else:
    outlast("made 20,000 files")
""",
        (Threat.INODES,),
        stays_inside=True,
        wall_s=PATIENT_S,
        expects=frozenset({Ended.EXITED, Ended.FILES, Ended.DISK}),
    ),
    Attack(
        8,
        "sparse_giant",
        """
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt("1 TB", lambda: open("giant", "wb").truncate(1 << 40))
for number in range(20):
    try:
        with open(f"sparse{number}", "wb") as file:
            file.truncate(7 << 20)
    except OSError as error:
        print("refused", error)
""",
        (Threat.DISK,),
        stays_inside=True,
        then="downloads_within_bounds",
        expects=frozenset({Ended.EXITED, Ended.DISK}),
    ),
    Attack(
        (46, 6),
        "leaves_the_disk_full",
        """
try:
    for number in range(100):
        with open(f"fill{number}", "wb") as file:
            file.write(os.urandom(1 << 20))
except OSError as error:
    print("refused", error)
""",
        (Threat.DISK,),
        stays_inside=True,
        expects=_QUOTA,
        may_lose=True,
    ),
)
