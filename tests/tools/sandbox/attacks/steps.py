"""Actions of the host after an attack's program: reading its files, uploading, running again. Steps yield problems."""

from __future__ import annotations

import contextlib
import math
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.tools.sandbox import Result, Sandbox, SandboxSession, SandboxSpec
from tests.tools.sandbox.attacks.attack import LIMITS
from tests.tools.sandbox.attacks.host import Host, problems_of, resident_mb

Opener = Callable[[SandboxSpec], Sandbox]
SPEC = SandboxSpec(limits=LIMITS)
"""The spec of every sandbox under attack, so that they share one pool."""


@dataclass
class Scene:
    """The surroundings of an attack."""

    sandbox: Sandbox
    host: Host
    facts: dict[str, str]
    open_spec: Opener
    language: str
    result: Result | None = None
    session: SandboxSession | None = None

    def leaks(self, data: bytes | str) -> Iterator[str]:
        """Yield the problems that data from the sandbox reveals."""
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
        return problems_of(text, self.facts, self.host.secret)

    def live(self) -> SandboxSession:
        """Return the attack's session; open it if there is none."""
        if self.session is None:
            self.session = self.sandbox.python() if self.language == "python" else self.sandbox.bash()
        return self.session

    def second(self, source: str) -> Iterator[str]:
        """Yield the problems that a program in a second sandbox reveals; it prints `looked` at its end."""
        for name, value in self.facts.items():
            source = source.replace(f"@{name}@", value)
        with contextlib.closing(self.open_spec(SPEC)) as other:
            try:
                result = other.exec(code=source, limits=LIMITS)
            except InfrastructureError as error:
                yield f"the neighbour is lost: {error}"
                return
        yield from self.leaks(result.stdout)
        if "looked" not in result.out:
            yield f"the neighbour did not look: {result.err[-300:]!r}"


def tries(*calls: Callable[[], object]) -> None:
    """Make calls that may fail, but only with errors for the model."""
    for call in calls:
        with contextlib.suppress(ToolError):
            call()


def refused(what: str, call: Callable[[], object]) -> Iterator[str]:
    """Yield a problem unless a call is rejected as the caller's mistake."""
    try:
        got = call()
    except (ToolError, UsageError):
        pass
    else:
        yield f"{what} was not refused but gave {str(got)[:80]!r}"


def reads_no_symlink(scene: Scene) -> Iterator[str]:
    box = scene.sandbox
    for path in ("link", f"folder/{scene.host.name}", "deep/up", "environ", "loop"):
        yield from refused(f"read({path!r})", lambda path=path: box.read(path))
    trace = f"folder/agentgym-attack-{scene.host.token}"
    tries(
        lambda: box.write("target", b"changed"),
        lambda: box.write(trace, b"x"),
        lambda: box.mkdir(trace),
        lambda: box.remove("folder/writable"),
    )
    for _ in range(2):
        for data in box.download(max_bytes=10_000_000).values():
            yield from scene.leaks(data)
        box.restore(box.snapshot())


def reads_through_the_door(scene: Scene) -> Iterator[str]:
    for number in range(150):
        with contextlib.suppress(ToolError):
            yield from scene.leaks(scene.sandbox.read(f"door/{scene.host.name}"))
        if number % 5 == 0:
            tries(lambda: scene.sandbox.write(f"door/agentgym-attack-{scene.host.token}", b"x"))
            with contextlib.suppress(ToolError):
                for data in scene.sandbox.download("door", max_bytes=1_000_000).values():
                    yield from scene.leaks(data)


def downloads_within_bounds(scene: Scene) -> Iterator[str]:
    before = resident_mb()
    yield from refused("a download of 140 MB", lambda: len(scene.sandbox.download(max_bytes=1_000_000)))
    if (grown := resident_mb() - before) > 20:
        yield f"the driver's memory grew by {grown:.0f} MB"


def lists_and_downloads(scene: Scene) -> Iterator[str]:
    """File operations end, and fail only with errors for the model."""
    box = scene.sandbox
    tries(
        lambda: box.list(depth=200),
        lambda: box.read("leased"),
        lambda: box.write("leased", b"y"),
        lambda: box.download(max_bytes=1_000_000),
        lambda: box.restore(box.snapshot()),
        lambda: box.remove("d" * 40),
        lambda: box.remove("shut"),
    )
    yield from ()  # any other error is a problem


def removes_everything(scene: Scene) -> Iterator[str]:
    for entry in scene.sandbox.list():
        scene.sandbox.remove(entry.path)
    if remaining := scene.sandbox.list():
        yield f"could not remove {[entry.path for entry in remaining]}"


def reads_no_special_file(scene: Scene) -> Iterator[str]:
    box = scene.sandbox
    present = {entry.path for entry in box.list()}
    for name in {"pipe", "socket", "device", "folder"} & present:
        yield from refused(f"read({name!r})", lambda name=name: box.read(name))
    for name in ("pipe", "socket", "device", "folder"):
        tries(lambda name=name: box.write(name, b"x"))
    for path in ("/dev/zero", "/proc/self/environ", "/proc/self/mem", "/proc/kmsg", "..", "../..", "/etc/passwd"):
        yield from refused(f"read({path!r})", lambda path=path: box.read(path))
    box.download(max_bytes=1_000_000)


_NEIGHBOUR = """
import os, socket
from contextlib import suppress
def breach(*what): print("BREACH:", *what)
for place in "@PLACES@".split(":"):
    with suppress(OSError):
        if "@MARK_A@" + "@MARK_B@" in open(place + "/agentgym-attack-@TOKEN@").read():
            breach("reads the neighbour's file in", place)
with suppress(OSError), socket.socket(socket.AF_UNIX) as one:
    one.connect("\\0ag-@TOKEN@")
    breach("connects to the neighbour")
pids = []
with suppress(OSError):
    pids = [entry for entry in os.listdir("/proc") if entry.isdigit()]
for pid in pids:
    with suppress(OSError):
        if "@TOKEN@" in open(f"/proc/{pid}/comm").read():
            breach("sees the neighbour", pid)
print("looked")
"""


def neighbours_are_apart(scene: Scene) -> Iterator[str]:
    output = scene.result.out if scene.result else ""
    return scene.second(_NEIGHBOUR.replace("@PLACES@", output.partition("PLACES ")[2].split("\n")[0]))


def nobody_listens(scene: Scene) -> Iterator[str]:
    for address in {"127.0.0.1", scene.facts["ADDRESS"]}:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((address, int(scene.facts["FREE"])), 0.5) as connection,
        ):
            connection.settimeout(0.5)
            yield f"the sandbox serves the host: {connection.recv(100)!r}"


def still_answers(scene: Scene) -> Iterator[str]:
    """The sandbox answers correctly, or reports that it is lost."""
    try:
        with contextlib.closing(scene.sandbox.python()) as session:
            output = session.run("print(6*7)").out
    except InfrastructureError:
        return
    if output != "42\n" and scene.sandbox.health():
        yield f"a new session says {output!r}"


def session_still_counts(scene: Scene) -> Iterator[str]:
    cells = {"bash": "echo $((6*7))", "python": "print(6*7)"}
    with contextlib.suppress(ToolError):
        yield from scene.leaks(scene.live().run(cells[scene.language]).out)
    for language, cell in cells.items():
        opener = scene.sandbox.bash if language == "bash" else scene.sandbox.python
        with contextlib.closing(opener()) as session:
            if (output := session.run(cell).out) != "42\n":
                yield f"a new {language} session says {output!r}"


def nothing_more_is_written(scene: Scene) -> Iterator[str]:
    def written() -> bytes:
        try:
            return scene.sandbox.read("late")
        except ToolError:
            return b""

    time.sleep(0.3)
    first = written()
    time.sleep(0.6)
    if written() != first:
        yield "a process of an earlier run still writes"


def runs_clean_in_both_languages(scene: Scene) -> Iterator[str]:
    box = scene.sandbox
    results = {
        "python": box.exec(code="print(6*7)"),
        "error": box.exec(code="print(42)\n1/0"),
        "bash": box.exec(["bash", "-c", "echo 42"]),
    }
    with contextlib.closing(box.python()) as session:
        results["python session"] = session.run("print(6*7)")
    with contextlib.closing(box.bash()) as session:
        results["bash session"] = session.run("echo 42")
    for how, result in results.items():
        if result.stdout != b"42\n":
            yield f"{how} says {result.stdout[:100]!r} {result.stderr[-200:]!r}"
        yield from scene.leaks(result.stderr)


def runs_or_says_why_not(scene: Scene) -> Iterator[str]:
    """A run in a full process table may fail, but only with errors for the model."""
    limits = LIMITS.but(wall_s=2.0)
    tries(lambda: scene.sandbox.exec(["bash", "-c", "true"], limits=limits))
    tries(lambda: scene.sandbox.exec(code="print(1)", limits=limits))
    yield from ()  # any other error is a problem


def numbers_are_sane(scene: Scene) -> Iterator[str]:
    results = [scene.result] if scene.result else []
    for _ in range(4):
        with contextlib.suppress(ToolError):
            results.append(scene.live().run("1", limits=LIMITS.but(wall_s=2.0)))
    for result in results:
        numbers = (result.duration_s, result.usage.cpu_s, result.usage.peak_memory_mb, result.exit_code or 0)
        if not all(math.isfinite(number) and 0 <= number < 100_000 for number in numbers):
            yield f"says {numbers}"[:200]


def no_core_file(scene: Scene) -> Iterator[str]:
    if cores := [entry.path for entry in scene.sandbox.list() if "core" in entry.path]:
        yield f"left {cores}"


def was_quick(scene: Scene) -> Iterator[str]:
    if scene.result is not None and scene.result.duration_s > 25:
        yield f"waited {scene.result.duration_s:.1f} s for a child"


def kept_both_ends(scene: Scene) -> Iterator[str]:
    assert scene.result is not None
    if not scene.result.stdout.startswith(b"0" * 100) or not scene.result.stdout.endswith(b"DONE\n"):
        yield "the output lost its beginning or its end"
    if scene.result.cut[0] < 900_000:
        yield f"cut says {scene.result.cut}"


def bytes_came_through(scene: Scene) -> Iterator[str]:
    assert scene.result is not None
    if bytes(range(256)) not in scene.result.stdout or b"\xc3\x28\x00" not in scene.result.stderr:
        yield "bytes were changed"
