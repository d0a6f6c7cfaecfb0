"""Attacks on whoever looks after the workspace: names, depths, permissions and leases that are hard to clean up."""

from __future__ import annotations

from agentgym.tools.sandbox.protection import Threat
from agentgym.tools.sandbox.result import Ended
from tests.tools.sandbox.attacks.attack import Attack, Way

_QUOTA = frozenset({Ended.EXITED, Ended.DISK})
_COUNT = frozenset({Ended.EXITED, Ended.FILES})

ATTACKS = (
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
)
