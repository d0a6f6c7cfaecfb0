"""Attacks on files outside the workspace."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== read_host_files rows=1 threats=files
for path in ("@SECRET_FILE@", "/etc/shadow", "/root/.ssh/id_rsa", "/proc/kcore", "/dev/mem"):
    with suppress(OSError):
        print(open(path, "rb").read(4096))
        breach("read", path)
with suppress(OSError):
    print(os.listdir("@SECRET_DIR@"))
    breach("listed the host's folder")

=== walk_to_host_files rows=1 threats=files
import itertools
seen = 0
for root in ("/tmp", "/var/tmp", "/home", "/root", "/mnt", "/media", "/srv", "/opt", "/run", "/dev/shm"):
    for folder, folders, files in itertools.islice(os.walk(root), 2000):
        seen += 1
        for name in folders + files:
            if "@SECRET_NAME_A@" + "@SECRET_NAME_B@" in name:
                breach("found", folder, name)
        folders[:] = folders[:50]

=== change_host_file rows=2 threats=files
def write(path, flags):
    os.write(os.open(path, flags), b"changed")
path = "@WRITABLE_FILE@"
attempt("append", write, path, os.O_WRONLY | os.O_APPEND)
attempt("write", write, path, os.O_RDWR)
attempt("truncating open", write, path, os.O_WRONLY | os.O_TRUNC)
attempt("truncate", os.truncate, path, 0)
attempt("rename", os.rename, path, path + ".gone")
attempt("unlink", os.unlink, path)
attempt("rename over", lambda: (open("mine", "w").close(), os.rename("mine", path)))
attempt("make", os.mkdir, "@SECRET_DIR@/agentgym-attack-@TOKEN@")

=== change_host_attributes rows=2 threats=files edge
path = "@WRITABLE_FILE@"
attempt("chmod", os.chmod, path, 0o600)
attempt("chown", os.chown, path, os.getuid(), os.getgid())
attempt("utime", os.utime, path, (1, 1))
attempt("touch", os.utime, path)
attempt("setxattr", os.setxattr, path, "user.attack", b"1")

=== write_everywhere rows=2 threats=files
places = ["/", "/etc", "/usr", "/usr/lib", "/bin", "/var", "/var/tmp", "/run", "/opt", "/srv", "/mnt",
          "/dev", "/dev/shm", "/dev/mqueue", "/tmp", "/run/lock", "/run/user", "/sys/fs/cgroup", "@SECRET_DIR@"]
for place in places + [p for p in sys.path if p]:
    with suppress(OSError):
        with open(os.path.join(place, "agentgym-attack-@TOKEN@"), "w") as file:
            file.write("x")
        print("wrote in", place)

=== symlinks_out rows=3 threats=files then=reads_no_symlink
os.symlink("@SECRET_FILE@", "link")
os.symlink("@SECRET_DIR@", "folder")
os.symlink("@WRITABLE_FILE@", "target")
os.symlink("/proc/self/environ", "environ")
os.symlink("loop", "loop")
os.makedirs("deep")
os.symlink("../" * 12 + "@SECRET_FILE@".lstrip("/"), "deep/up")
for path in ("link", "folder/@SECRET_BASE@", "deep/up"):
    with suppress(OSError):
        print(open(path).read())
        breach("followed", path)
with suppress(OSError):
    open("target", "w").write("changed")

=== symlink_swapped_while_read rows=3 threats=files session then=reads_through_the_door
os.makedirs("real", exist_ok=True)
open("real/@SECRET_BASE@", "w").write("harmless")
os.symlink("@SECRET_DIR@", "away")
os.symlink("real", "door")
def swap():
    while True:
        for target in ("away", "real"):
            with suppress(OSError):
                os.rename("door", "door2")
                os.rename(target, "door")
                os.rename("door", target)
                os.rename("door2", "door")
threading.Thread(target=swap, daemon=True).start()

=== hard_links_and_dots rows=4 threats=files
attempt("hard link", os.link, "@SECRET_FILE@", "hard")
attempt("hard link to writable", os.link, "@WRITABLE_FILE@", "hard2")
up = "../" * 20
for path in (up + "@SECRET_FILE@".lstrip("/"), "/proc/self/root@SECRET_FILE@", "/proc/1/root@SECRET_FILE@",
             "/proc/self/cwd/" + up + "@SECRET_FILE@".lstrip("/"), "/proc/thread-self/root/proc/1/cwd@SECRET_FILE@"):
    attempt(path, lambda: open(path).read())
def out_of_chroot():
    os.mkdir("jail")
    here = os.open(".", os.O_RDONLY)
    os.chroot("jail")
    os.fchdir(here)
    for _ in range(30):
        os.chdir("..")
    os.chroot(".")
    return open("@SECRET_FILE@").read()
attempt("chroot", out_of_chroot)

=== devices_and_setuid rows=5 threats=privilege
for name, kind, major, minor in (("c", stat.S_IFCHR, 1, 1), ("b", stat.S_IFBLK, 254, 0), ("k", stat.S_IFCHR, 1, 11)):
    with suppress(OSError):
        os.mknod(name, kind | 0o666, os.makedev(major, minor))
        attempt(f"device {major}:{minor}", lambda: os.close(os.open(name, os.O_RDONLY | os.O_NONBLOCK)))
before = (os.getuid(), os.geteuid(), os.getgid())
for call, args in ((os.setuid, (0,)), (os.setgid, (0,)), (os.setgroups, ([0],)), (os.setresuid, (0, 0, 0))):
    with suppress(OSError):
        call(*args)
if 0 in (os.geteuid(), os.getegid()) and before[1]:
    breach("became root", os.geteuid(), os.getegid())
for command in (["su", "-c", "id -u"], ["sudo", "-n", "id", "-u"], ["mount", "-t", "tmpfs", "none", "."],
                ["newuidmap", str(os.getpid()), "0", "0", "1"]):
    attempt(command, lambda: subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=3))

=== things_that_are_no_files rows=10 threats=files then=reads_no_special_file
for name in ("pipe", "socket", "device", "folder"):
    with suppress(OSError):
        if name == "pipe":
            os.mkfifo(name)
        elif name == "socket":
            socket.socket(socket.AF_UNIX).bind(name)
        elif name == "device":
            os.symlink("/dev/zero", name)
        else:
            os.mkdir(name)
""")
