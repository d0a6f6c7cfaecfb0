"""Attacks on the disk: its size, its number of files, and what makes it hard to clean up."""

from __future__ import annotations

from agentgym.tools.sandbox.protection import Threat
from agentgym.tools.sandbox.result import Ended
from tests.sandbox_attacks.attack import Attack, Way

_QUOTA = frozenset({Ended.EXITED, Ended.DISK})
_COUNT = frozenset({Ended.EXITED, Ended.FILES})

ATTACKS = (
    Attack(
        6,
        "disk_full_of_files",
        """
import time
block, total = os.urandom(1 << 20), 0
try:
    for number in range(64):
        for folder in (".", os.environ.get("TMPDIR", "/tmp")):
            with open(f"{folder}/fill{number}", "wb") as file:
                file.write(block)
            total += 1
        time.sleep(0.03)
except OSError as error:
    print("refused", error)
if total > 48:
    breach("wrote", total, "MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        expects=_QUOTA,
    ),
    Attack(
        6,
        "disk_full_of_unlinked_files",
        """
import time
held, total = [], 0
try:
    for number in range(16):
        file = open("gone", "wb")
        os.unlink("gone")
        held.append(file)
        for _ in range(6):
            total += file.write(bytes(1 << 20)) >> 20
            file.flush()
        time.sleep(0.05)
    time.sleep(0.5)
except OSError as error:
    print("refused", error)
if total > 60:
    breach("held", total, "MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        expects=_QUOTA,
    ),
    Attack(
        6,
        "disk_full_behind_closed_doors",
        """
import time
total = 0
try:
    for number in range(16):
        os.mkdir(f"d{number}")
        with open(f"d{number}/file", "wb") as file:
            total += file.write(bytes(6 << 20)) >> 20
        os.chmod(f"d{number}", 0)
        time.sleep(0.05)
    time.sleep(0.5)
except OSError as error:
    print("refused", error)
if total > 60:
    breach("hid", total, "MB")
""",
        (Threat.DISK,),
        stays_inside=True,
        expects=_QUOTA,
    ),
    Attack(
        (6, 9),
        "disk_full_in_the_depth",
        """
import time
total = 0
try:
    for _ in range(30):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    for number in range(16):
        with open(f"file{number}", "wb") as file:
            total += file.write(bytes(6 << 20)) >> 20
        time.sleep(0.05)
    time.sleep(0.5)
except OSError as error:
    print("refused", error)
if total > 60:
    breach("hid", total, "MB")
""",
        (Threat.DISK,),
        stays_inside=True,
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
import time
made = 0
try:
    for made in range(6000):
        if made % 3 == 0:
            open(f"f{made}", "w").close()
        elif made % 3 == 1:
            os.mkdir(f"d{made}")
        else:
            os.symlink("x", f"s{made}")
        if made % 100 == 0:
            time.sleep(0.02)
except OSError as error:
    print("refused", error)
if made > 2500:
    breach("made", made)
""",
        (Threat.INODES,),
        stays_inside=True,
        expects=_COUNT,
    ),
    Attack(
        7,
        "a_million_small_files",
        """
import time
made, end, temporary = 0, time.monotonic() + 6, os.environ.get("TMPDIR", "/tmp")
try:
    while made < 1_000_000 and time.monotonic() < end:
        folder = f"{temporary}/n{made // 1000}" if made % 2 else f"n{made // 1000}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{made}", "w") as file:
            file.write("x")
        made += 1
        if made % 200 == 0:
            time.sleep(0.02)
except OSError as error:
    print("refused", error)
if made > 20_000:
    breach("made", made)
""",
        (Threat.INODES,),
        stays_inside=True,
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
        9,
        "unpleasant_names",
        """
for name in (b"new\\nline", b"\\xff\\xfe invalid", b"n" * 255, b"-rf", b"*", b"$(touch x)", b"a\\\\..\\\\b", b" ",
             b"\\x1b[31m"):
    try:
        with open(name, "wb") as file:
            file.write(b"x")
    except OSError as error:
        print("refused", error)
os.mkdir("shut")
open("shut/inner", "w").write("x")
os.chmod("shut/inner", 0)
os.chmod("shut", 0)
""",
        (),
        stays_inside=True,
        then="lists_and_downloads",
    ),
    Attack(
        9,
        "names_that_are_taken",
        """
os.makedirs("outer/inner/most")
open("outer/inner/most/file", "w").write("x")
for pid in {1, os.getppid(), os.getpid()}:
    for number in range(1, 20):
        os.makedirs(f".removed-{pid}-{number}/full", exist_ok=True)
os.mkdir("shut")
os.mkdir("shut/in")
os.chmod("shut", 0o500)
""",
        (),
        stays_inside=True,
        then="removes_everything",
    ),
    Attack(
        9,
        "names_too_long_for_a_frame",
        """
depth, name = 0, b"\\xff" * 255
try:
    for depth in range(120):
        os.mkdir(name)
        os.chdir(name)
except OSError as error:
    print("refused", error)
print(depth)
""",
        (),
        stays_inside=True,
        then="lists_and_downloads",
    ),
    Attack(
        9,
        "file_that_is_leased",
        """
import fcntl
open("leased", "w").write("x")
held = open("leased", "r+")
try:
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError as error:
    print("refused", error)
fcntl.flock(held, fcntl.LOCK_EX)
""",
        (),
        stays_inside=True,
        way=Way.SESSION,
        then="lists_and_downloads",
    ),
    Attack(
        9,
        "deep_folders",
        """
depth = 0
try:
    for depth in range(450):
        os.mkdir("d" * 40)
        os.chdir("d" * 40)
except OSError as error:
    print("refused", error)
print(depth)
""",
        (),
        stays_inside=True,
        then="lists_and_downloads",
    ),
    Attack(
        (46,),
        "destroys_its_workspace",
        """
import shutil
here = os.getcwd()
for name in os.listdir(here):
    shutil.rmtree(name, ignore_errors=True) if os.path.isdir(name) else os.unlink(name)
attempt("unlink", os.unlink, "@WRITABLE_FILE@")
attempt("rename", os.rename, "@WRITABLE_FILE@", "@WRITABLE_FILE@x")
for place in ("/bin", "/usr/bin", "/lib", "/usr/lib"):
    attempt("change " + place, os.mkdir, place + "/agentgym-attack-@TOKEN@")
os.chmod(here, 0) if os.stat(here).st_uid == os.getuid() else None
for call in (os.rmdir, lambda path: os.rename(path, path + "-moved")):
    try:
        call(here)
    except OSError as error:
        print("refused", error)
""",
        (Threat.FILES,),
        may_lose=True,
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
