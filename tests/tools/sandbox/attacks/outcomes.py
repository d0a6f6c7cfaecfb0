"""Steps that check the result of a run: its numbers, its output, the files it left behind."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

from agentgym.base.errors import ToolError
from tests.tools.sandbox.attacks.attack import LIMITS
from tests.tools.sandbox.attacks.steps import Scene


def runs_or_says_why_not(scene: Scene) -> Iterator[str]:
    """A run in a full process table may fail, but only with errors for the model."""
    with contextlib.suppress(ToolError):
        scene.sandbox.exec(["bash", "-c", "true"], limits=LIMITS.but(wall_s=2.0))
    with contextlib.suppress(ToolError):
        scene.sandbox.exec(code="print(1)", limits=LIMITS.but(wall_s=2.0))
    yield from ()  # any other error is a problem


def numbers_are_sane(scene: Scene) -> Iterator[str]:
    results = [scene.result] if scene.result else []
    for _ in range(4):
        with contextlib.suppress(ToolError):
            assert scene.session is not None
            results.append(scene.session.run("1", limits=LIMITS.but(wall_s=2.0)))
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
