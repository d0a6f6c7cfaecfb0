"""Attacks on later runs: modules, settings, archives and names left behind."""

from __future__ import annotations

from tests.tools.sandbox.attacks.attack import parse_attacks

ATTACKS = parse_attacks(r"""
=== poisoned_modules rows=44,46 threats=files then=runs_clean_in_both_languages
poison = "import os\nos.write(1, b'BREACH: imported ' + __name__.encode() + b'\\n')\n"
names = '''sitecustomize usercustomize traceback encodings json io socket struct signal select ast linecache tokenize
codecs resource threading subprocess ctypes agentgym builtins warnings tarfile'''.split()
for name in names:
    with open(name + ".py", "w") as file:
        file.write(poison)
homes = {os.environ["HOME"], os.environ.get("TMPDIR", "."), os.getcwd(), "@SECRET_DIR@"}
for home in homes:
    for name in (".bashrc", ".profile", ".bash_profile", ".bash_login", ".bash_env", ".pythonrc"):
        with suppress(OSError):
            with open(os.path.join(home, name), "w") as file:
                file.write("echo BREACH: sourced\n")
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    site = os.path.join(home, f".local/lib/python{version}/site-packages")
    with suppress(OSError):
        os.makedirs(site, exist_ok=True)
        with open(os.path.join(site, "poison.pth"), "w") as file:
            file.write("import os; os.write(1, b'BREACH: pth')\n")
for place in [p for p in sys.path if os.path.isdir(p) and os.path.abspath(p) != os.getcwd()]:
    attempt("beside the library in " + place, lambda: open(place + "/agentgym-attack-@TOKEN@.py", "a").close())

=== poisoned_memory rows=44,46 stays_inside
import builtins
builtins.print = lambda *args, **named: os.write(1, b"BREACH: patched\n")
sys.stdout.write("DONE\n")
sys.stdout.flush()
sys.modules["json"] = sys.modules["os"]
os.environ.clear()
os.environ["PYTHONSTARTUP"] = os.environ["BASH_ENV"] = "poison"
os.umask(0o777)
os.chdir("/")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os._exit(0)

=== trojan_programs rows=45,46 stays_inside bash then=runs_clean_in_both_languages
cd "$TMPDIR" || cd "$HOME"
for name in python python3 bash sh ls cat head sleep; do
  printf '#!/bin/sh\necho BREACH: trojan\n' > "$name"
  chmod +x "$name"
  cp "$name" "$HOME/$name"
  cp "$name" "$OLDPWD/$name"
done 2>/dev/null
export PATH="$PWD:$PATH" BASH_ENV="$PWD/bash" LD_PRELOAD="$PWD/poison.so" PYTHONPATH="$PWD"
hash -r
true

=== process_that_waits_for_the_next_run rows=19,44 threats=daemons stays_inside then=nothing_more_is_written
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        for _ in range(40):
            with suppress(OSError):
                with open("late", "a") as file:
                    file.write("BREACH: still here\n")
            time.sleep(0.25)
    os._exit(0)
os.wait()

=== locks_itself_out rows=46 stays_inside may_lose
open("data", "w").write("x")
os.chmod("data", 0)
os.chmod(".", 0)

=== zip_bomb rows=41 threats=disk stays_inside expects=disk,exited wall_s=patient
import io, zipfile
held = io.BytesIO()
with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
    for number in range(16):
        archive.writestr(f"zeros{number}", bytes(8 << 20))
    archive.writestr("../../../../../../agentgym-attack-@TOKEN@", "x")
with suppress(OSError):
    with zipfile.ZipFile(io.BytesIO(held.getvalue())) as archive:
        for name in archive.namelist():
            with archive.open(name) as source, open(os.path.basename(name), "wb") as file:
                while block := source.read(1 << 20):
                    file.write(block)
    outlast("unpacked 128 MB")

=== archives_of_the_host rows=41 threats=files,disk then=uploads_stay_inside
pass

=== template_with_links rows=3,41 threats=files then=template_links_lead_nowhere
pass

=== hostile_environment rows=12,45 stays_inside then=survives_a_hostile_environment
pass

=== session_survives_errors rows=30,46 stays_inside session exit_code=5 unfinished then=session_still_counts
raise SystemExit(5)
""")
