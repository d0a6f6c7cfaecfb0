"""Attacks on the upkeep of the workspace: names, depths, permissions and leases that are hard to clean up."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== unpleasant_names rows=9 stays_inside then=lists_and_downloads
for name in (b"new\nline", b"\xff\xfe invalid", b"n" * 255, b"-rf", b"*", b"$(touch x)", b"a\\..\\b", b" ",
             b"\x1b[31m"):
    with suppress(OSError):
        with open(name, "wb") as file:
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
depth, name = 0, b"\xff" * 255
with suppress(OSError):
    for depth in range(120):
        os.mkdir(name)
        os.chdir(name)
print(depth)

=== file_that_is_leased rows=9 stays_inside session then=lists_and_downloads
import fcntl
open("leased", "w").write("x")
held = open("leased", "r+")
with suppress(OSError):
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
fcntl.flock(held, fcntl.LOCK_EX)

=== deep_folders rows=9 stays_inside then=lists_and_downloads
depth = 0
with suppress(OSError):
    for depth in range(450):
        os.mkdir("d" * 40)
        os.chdir("d" * 40)
print(depth)

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
