"""Carries out an attack in a sandbox and judges the outcome."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.tools.sandbox import Ended, Result, Sandbox
from tests.tools.sandbox.attacks import abuse, sequels, steps
from tests.tools.sandbox.attacks.attack import ENDS, Attack
from tests.tools.sandbox.attacks.host import Host, problems_of, resident_mb
from tests.tools.sandbox.attacks.steps import SPEC, Opener, Scene

RSS_MB = 100.0
"""Permitted growth of the driver's memory during one attack."""
_FRESH = "import os; print(6 * 7, sorted(os.listdir('.')), sorted(os.listdir(os.environ.get('TMPDIR', '/tmp'))))"


@dataclass(frozen=True)
class Verdict:
    """The outcome of an attack. The sandbox held if there are no problems."""

    ended: str
    seconds: float
    problems: tuple[str, ...]


def strike(
    attack: Attack, host: Host, sandbox: Sandbox, open_spec: Opener, fresh: str, *, holds_files: bool
) -> tuple[Verdict, Sandbox | None]:
    """Carry out an attack; return the verdict and a fresh sandbox for the next attack.

    `fresh` is the result of `look` before any attack, `holds_files` whether the files of this machine are protected.
    """
    if not (holds_files or attack.stays_inside):
        raise UsageError(f"{attack.name} is not run where the files of this machine are within its reach")
    host.renew()
    rss, started = resident_mb(), time.monotonic()
    problems: list[str] = []
    with contextlib.closing(sandbox):
        ended = _run(attack, Scene(sandbox, host, host.facts(), open_spec, attack.language), problems)
    if alive := host.survivors():
        problems.append(f"{len(alive)} processes outlived the sandbox")
    problems += host.harm()
    if (grown := resident_mb() - rss) > RSS_MB:
        problems.append(f"the driver's memory grew by {grown:.0f} MB")
    following = open_spec(SPEC)
    if (view := look(following)) != fresh:
        following.close()
        problems.append(f"a fresh sandbox differs: {view!r}, not {fresh!r}")
    seconds = round(time.monotonic() - started, 2)
    return Verdict(ended, seconds, tuple(problems)), None if view != fresh else following


def can_write(sandbox: Sandbox, host: Host) -> bool:
    """Whether a program can open the host's writable canary for writing. Writes nothing."""
    return sandbox.exec(code=f"import os\nos.close(os.open({str(host.writable)!r}, os.O_WRONLY))").ok


def look(sandbox: Sandbox) -> str:
    """Return a program's view of a sandbox."""
    result = sandbox.exec(code=_FRESH)
    return result.out or f"{result.ended} {result.err}"


def _run(attack: Attack, scene: Scene, problems: list[str]) -> str:
    """Run the program and the steps after it, add their problems, and return how the run ended."""
    ended = "lost"
    try:
        scene.result = _execute(attack, scene)
    except InfrastructureError as error:
        if not _may_lose(attack):
            problems.append(f"the sandbox was lost: {error}")
    except ToolError as error:
        problems.append(f"refused with {type(error).__name__}: {error}")
    else:
        ended = str(scene.result.ended)
        problems += _judged(attack, scene, scene.result)
        if attack.then:
            problems += _step(attack, scene)
        if attack.in_session and scene.session is not None:
            scene.session.close()
    if alive := scene.host.survivors():
        problems.append(f"{len(alive)} processes outlived the run")
    problems += _next_run(attack, scene)
    return ended


def _may_lose(attack: Attack) -> bool:
    return attack.may_lose or Ended.KILLED in attack.expects


def _step(attack: Attack, scene: Scene) -> Iterator[str]:
    module = next(module for module in (steps, abuse, sequels) if hasattr(module, attack.then))
    try:
        yield from getattr(module, attack.then)(scene)
    except (InfrastructureError, ToolError) as error:
        yield f"{attack.then}: {type(error).__name__}: {error}"


def _execute(attack: Attack, scene: Scene) -> Result:
    source = attack.source(scene.facts)
    if attack.in_session:
        return scene.live().run(source, limits=attack.limits)
    if attack.language == "python":
        return scene.sandbox.exec(code=source, limits=attack.limits)
    return scene.sandbox.exec(["bash", "-c", source], limits=attack.limits)


def _judged(attack: Attack, scene: Scene, result: Result) -> Iterator[str]:
    text = (result.stdout + result.stderr + result.reply).decode("utf-8", "replace")
    yield from problems_of(text, scene.facts, scene.host.secret)
    if result.ended not in attack.expects:
        yield f"ended {result.ended}, not {'/'.join(sorted(attack.expects))}; {result.err[-300:]!r}"
    elif result.ended is Ended.EXITED:
        if attack.finishes and b"DONE" not in result.stdout:
            yield f"the program did not come to its end: {result.err[-300:]!r}"
        if attack.expects == ENDS and attack.exit_code >= 0 and result.exit_code != attack.exit_code:
            yield f"exit code {result.exit_code}, not {attack.exit_code}; {result.err[-300:]!r}"
    most = attack.limits.output_bytes + 1_000
    if max(len(result.stdout), len(result.stderr)) > most or len(result.reply) > attack.limits.reply_bytes:
        yield f"kept {len(result.stdout)}, {len(result.stderr)} and {len(result.reply)} bytes"


def _next_run(attack: Attack, scene: Scene) -> Iterator[str]:
    """Check that the next run in the same sandbox is clean, or that the sandbox reports its loss."""
    try:
        result = scene.sandbox.exec(code="print(6*7)")
    except (InfrastructureError, ToolError) as error:
        if not _may_lose(attack):
            yield f"the next run failed: {type(error).__name__}: {error}"
        return
    if result.ok and result.stdout == b"42\n" and not result.stderr:
        return
    still_full = scene.result is not None and result.ended is scene.result.ended
    if result.ended in (Ended.DISK, Ended.FILES) and still_full:
        return  # without a quota, a workspace stays too full until something is removed
    if not (_may_lose(attack) and (result.ended is Ended.KILLED or not scene.sandbox.health())):
        yield f"the next run gave {result.ended} {result.stdout[-200:]!r} {result.stderr[-300:]!r}"
