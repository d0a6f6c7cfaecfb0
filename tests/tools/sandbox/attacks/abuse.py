"""Steps that misuse the driver's functions: strange programs, arguments, names and folders."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agentgym.base.errors import ToolError, UsageError
from agentgym.tools.sandbox import SandboxSpec
from tests.tools.sandbox.attacks.attack import LIMITS
from tests.tools.sandbox.attacks.steps import Scene, refused

_PROGRAMS: tuple[str | bytes, ...] = (
    *("", "a\0b", "print('\ud800')", "'\ud800'.x", "\ufeffprint(1)", "\tx\n  y\n z", b"\xff\xfe\xfa", "return 1"),
    *("x = '" + "a" * 300_000 + "'", "(" * 5_000, "-" * 100_000 + "1", "1+" * 30_000 + "1"),
    *("# -*- coding: rot13 -*-\nprint(1)", "from __future__ import braces", "while True:\n    break\nelse:\n    ("),
    *("raise BaseException", "raise KeyboardInterrupt", "raise GeneratorExit", "raise SystemExit('text')"),
    *("raise SystemExit(10 ** 30)", "class E(Exception):\n    def __str__(self): 1/0\nraise E"),
    *("import os; os.kill(os.getpid(), 9)", "import sys; sys.exit(256)", "del __builtins__; print(1)"),
)


def _survives(what: str, call: Callable[[], object]) -> Iterator[str]:
    """Yield a problem if a call neither returns nor rejects its arguments."""
    try:
        call()
    except (ToolError, UsageError):
        pass
    except Exception as error:
        yield f"{what} raised {type(error).__name__}: {error}"[:300]


def survives_strange_programs(scene: Scene) -> Iterator[str]:
    limits = LIMITS.but(wall_s=2.0)
    for program in _PROGRAMS:
        yield from _survives(repr(program[:40]), lambda code=program: scene.sandbox.exec(code=code, limits=limits))
    with contextlib.closing(scene.sandbox.python()) as session:
        for program in _PROGRAMS:
            yield from _survives(f"cell {program[:40]!r}", lambda code=program: session.run(code, limits=limits))
    with contextlib.closing(scene.sandbox.bash()) as session:
        for text in ("'", '"', "<<END", "$(", "a\0b", "\ud800", "if true", "}", "# x", "\\", "cat", "read x", "set -n"):
            yield from _survives(f"shell {text!r}", lambda code=text: session.run(code, limits=LIMITS.but(wall_s=0.5)))


def survives_huge_arguments(scene: Scene) -> Iterator[str]:
    box = scene.sandbox
    calls: dict[str, dict[str, Any]] = {
        "a long argument": {"argv": ["true", "x" * 300_000]},
        "many arguments": {"argv": ["true", *["x"] * 100_000]},
        "no such program": {"argv": ["agentgym-no-such-program"]},
        "an empty program": {"argv": [""]},
        "no arguments": {"argv": []},
        "a NUL": {"argv": ["true", "a\0b"]},
        "a surrogate": {"argv": ["true", "\ud800"]},
        "a folder above": {"argv": ["true"], "cwd": "../.."},
        "no such folder": {"argv": ["true"], "cwd": "nowhere"},
        "much input": {"argv": ["true"], "stdin": bytes(5_000_000)},
        "a folder as program": {"argv": ["."]},
    }
    for what, named in calls.items():
        yield from _survives(what, lambda named=named: box.exec(limits=LIMITS.but(wall_s=3.0), **named))


def uploads_stay_inside(scene: Scene) -> Iterator[str]:
    box, name = scene.sandbox, f"agentgym-attack-{scene.host.token}"
    for path in (f"../{name}", f"/tmp/{name}", f"a/../../{name}", f"/{name}", f"{'../' * 20}tmp/{name}", "", "a\0b"):
        yield from refused(f"upload to {path!r}", lambda path=path: box.upload({path: b"x"}))
        yield from refused(f"write to {path!r}", lambda path=path: box.write(path, b"x"))
    for path in ("../x", "/", "/usr", "..", ""):
        yield from refused(f"remove({path!r})", lambda path=path: box.remove(path))
        yield from refused(f"download({path!r})", lambda path=path: box.download(path)) if path else ()
    with tempfile.TemporaryDirectory() as folder:
        _hostile_folder(Path(folder), scene)
        os.mkfifo(Path(folder, "pipe"))
        with contextlib.suppress(ToolError, UsageError):
            box.upload(Path(folder), "from-host")
    for data in box.download(max_bytes=10_000_000).values():
        yield from scene.leaks(data)
    yield from refused("an upload of 40 MB", lambda: box.upload({f"big{n}": os.urandom(1 << 22) for n in range(10)}))
    yield from refused("an upload of 3,000 files", lambda: box.upload({f"many/{n}": b"" for n in range(3_000)}))
    for path in ("many", *(f"big{number}" for number in range(10))):
        with contextlib.suppress(ToolError):
            box.remove(path)


def _hostile_folder(folder: Path, scene: Scene) -> None:
    folder.chmod(0o755)
    (folder / "good").write_text("good")
    (folder / "link").symlink_to(scene.host.secret_file)
    (folder / "folder").symlink_to(scene.host.folder)


def template_links_lead_nowhere(scene: Scene) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _hostile_folder(folder, scene)
        try:
            box = scene.open_spec(SandboxSpec(limits=LIMITS, template=folder))
        except UsageError:
            return
        with contextlib.closing(box):
            yield from scene.leaks(box.exec(["bash", "-c", "cat good link folder/* 2>&1"]).stdout)
            for data in box.download(max_bytes=1_000_000).values():
                yield from scene.leaks(data)
            box.write("good", b"changed")
            box.exec(["bash", "-c", "echo changed > good; rm -f link"])
        if (folder / "good").read_text() != "good" or not (folder / "link").is_symlink():
            yield "changed its template"


def survives_a_hostile_environment(scene: Scene) -> Iterator[str]:
    env = {"LD_PRELOAD": "/no/such.so", "PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere", "BASH_ENV": "/dev/stdin"}
    env |= {"PATH": "", "AGENTGYM_REPLY_FD": "0", "LC_ALL": "xx", "TZ": ":/etc/shadow", "IFS": "x"}
    limits = LIMITS.but(wall_s=2.0)
    yield from _survives("python", lambda: scene.sandbox.exec(code="print(1)", env=env, limits=limits))
    yield from _survives("bash", lambda: scene.sandbox.exec(["bash", "-c", "echo"], env=env, limits=limits))
    for name, value in (("A\0", "x"), ("A=B", "x"), ("", "x"), ("A", "\0"), ("A", "\ud800"), ("A", "x" * 300_000)):
        yield from _survives(
            f"{name!r}", lambda pair=(name, value): scene.sandbox.exec(["true"], env=dict([pair]), limits=limits)
        )
