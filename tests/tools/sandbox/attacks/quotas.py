"""Attacks on the disk and the upkeep of the workspace: sizes, numbers of files, and names that are hard to clean up."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== disk_full_of_files rows=6 threats=disk stays_inside expects=disk,exited wall_s=patient
with suppress(OSError):
    for number in range(32):
        for folder in (".", os.environ.get("TMPDIR", "/tmp")):
            fill(f"{folder}/fill{number}", 1)
    outlast("wrote 64 MB")

=== disk_full_of_unlinked_files rows=6 threats=disk stays_inside expects=disk,exited wall_s=patient
held = []
with suppress(OSError):
    for number in range(16):
        file = open("gone", "wb")
        os.unlink("gone")
        held.append(file)
        for _ in range(6):
            file.write(bytes(1 << 20))
            file.flush()
    outlast("held 96 MB")

=== disk_full_behind_closed_doors rows=6 threats=disk stays_inside expects=disk,exited wall_s=patient
with suppress(OSError):
    for number in range(16):
        os.mkdir(f"d{number}")
        fill(f"d{number}/file", 6)
        os.chmod(f"d{number}", 0)
    outlast("hid 96 MB")

=== disk_full_in_a_locked_workspace rows=6 threats=disk stays_inside expects=disk,exited wall_s=patient
files = [open(f"file{number}", "wb", buffering=0) for number in range(16)]
os.chmod(".", 0)
os.chmod(os.environ.get("TMPDIR", "."), 0)
with suppress(OSError):
    for file in files:
        file.write(bytes(6 << 20))
    outlast("wrote 96 MB")

=== disk_full_in_the_depth rows=6,9 threats=disk stays_inside expects=disk,exited wall_s=patient
with suppress(OSError):
    for _ in range(30):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    for number in range(16):
        fill(f"file{number}", 6)
    outlast("hid 96 MB")

=== one_large_file rows=6 threats=disk stays_inside expects=disk,exited,file_size
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
total = 0
with suppress(OSError):
    with open("large", "wb", buffering=0) as file:
        while total < 128 << 20:
            total += file.write(bytes(1 << 20))
if total > 20 << 20:
    breach("wrote", total)
attempt("allocate", lambda: os.posix_fallocate(os.open("more", os.O_CREAT | os.O_RDWR), 0, 128 << 20))

=== one_large_file_from_bash rows=6 threats=disk stays_inside bash expects=disk,exited,file_size
head -c 134217728 /dev/zero > large
size=$(wc -c < large)
[ "$size" -gt 20971520 ] && breach "wrote $size"
true

=== inode_flood rows=7 threats=inodes stays_inside expects=exited,files wall_s=patient
with suppress(OSError):
    for made in range(2500):
        (os.mkdir, lambda name: fill(name, 0), lambda name: os.symlink("x", name))[made % 3](f"f{made}")
    outlast("made 2,500 files")

=== a_million_small_files rows=7 threats=inodes stays_inside expects=disk,exited,files wall_s=patient
temporary = os.environ.get("TMPDIR", "/tmp")
with suppress(OSError):
    for made in range(20_000):
        folder = f"{temporary}/n{made // 1000}" if made % 2 else f"n{made // 1000}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{made}", "w") as file:
            file.write("x")
    outlast("made 20,000 files")

=== sparse_giant rows=8 threats=disk stays_inside expects=disk,exited then=downloads_within_bounds
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
attempt("1 TB", lambda: open("giant", "wb").truncate(1 << 40))
for number in range(20):
    with suppress(OSError):
        with open(f"sparse{number}", "wb") as file:
            file.truncate(7 << 20)

=== leaves_the_disk_full rows=46,6 threats=disk stays_inside may_lose expects=disk,exited
with suppress(OSError):
    for number in range(100):
        fill(f"fill{number}", 1)

=== unpleasant_names rows=9 stays_inside then=lists_and_downloads
for name in (b"new\nline", b"\xff\xfe invalid", b"n" * 255, b"-rf", b"*", b"$(touch x)", b"a\\..\\b", b" ",
             b"\x1b[31m"):
    with suppress(OSError), open(name, "wb") as file:
        file.write(b"x")
os.mkdir("shut")
open("shut/inner", "w").write("x")
os.chmod("shut/inner", 0)
os.chmod("shut", 0)

=== names_that_are_taken rows=9 stays_inside then=removes_everything
os.makedirs("outer/inner/most")
open("outer/inner/most/file", "w").write("x")
for pid in {1, os.getppid(), os.getpid()}:
    for number in range(1, 20):
        os.makedirs(f".removed-{pid}-{number}/full", exist_ok=True)
os.mkdir("shut")
os.mkdir("shut/in")
os.chmod("shut", 0o500)

=== names_too_long_for_a_frame rows=9 stays_inside then=lists_and_downloads
with suppress(OSError):
    for _ in range(120):
        os.mkdir(b"\xff" * 255)
        os.chdir(b"\xff" * 255)

=== file_that_is_leased rows=9 stays_inside session then=lists_and_downloads
open("leased", "w").write("x")
held = open("leased", "r+")
with suppress(OSError):
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
fcntl.flock(held, fcntl.LOCK_EX)

=== deep_folders rows=9 stays_inside then=lists_and_downloads
with suppress(OSError):
    for _ in range(450):
        os.mkdir("d" * 40)
        os.chdir("d" * 40)

=== destroys_its_workspace rows=46 threats=files may_lose
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
    with suppress(OSError):
        call(here)
""")
