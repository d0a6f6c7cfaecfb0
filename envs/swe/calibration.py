"""What is known of an instance's tests from running them on the gold solution: which canaries work, and how to run.

A canary is kept only if it failed there, and left the tests around it alone. Calibrated once per instance and kept in
the cache folder.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from agentgym.caches import cache_folder
from agentgym.envs.swe.canaries import Candidate, candidates
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import PASSING, HiddenTests, Manner, TestRun
from agentgym.envs.swe.remembered import Remembered
from agentgym.envs.swe.repository import Repository
from agentgym.errors import TaskError
from agentgym.tasks.swe.pytest_folder import versions

MAX_CALIBRATED = 60
"""Canaries tried per instance."""
MAX_PLANTED = 24
"""Canaries in one run: those of the tests that decide first."""
MAX_SEARCHES = 40
"""Runs spent on finding the canaries that disturb other tests; what is not cleared by then is not planted."""
_VERSION = 4
_ATTEMPTS = (
    (Manner.RENAMED, True),
    (Manner.NAMED, True),
    (Manner.FILES, True),
    (Manner.NAMED, False),
    (Manner.FILES, False),
)
"""Ways to run the tests, with canaries or without, the safest first."""

Runner = Callable[[HiddenTests, Sequence[Candidate], Manner], TestRun]
"""Runs hidden tests on the gold solution, with each canary planted before and behind the test that it copies."""


@dataclass(frozen=True)
class Calibration:
    """How an instance is graded."""

    manner: Manner
    canaries: tuple[Candidate, ...]
    excused: tuple[str, ...] = ()
    """Tests that should pass before and after, and do not pass on the gold solution: they are not asked for."""

    def drawn(self, decisive: Sequence[str]) -> list[Candidate]:
        """Draw the canaries of one run, those of the functions of `decisive` tests first."""
        rng = random.Random(secrets.token_bytes(16))
        places = {(parts.path, parts.scope, parts.name) for parts in map(NodeId.of, decisive)}
        mixed = rng.sample(self.canaries, len(self.canaries))
        mixed.sort(key=lambda one: (one.path, one.scope, one.name) not in places)
        return mixed[:MAX_PLANTED]


_CALIBRATIONS: Remembered[Calibration] = Remembered(4096)


def calibrated(repository: Repository, run: Runner) -> Calibration:
    """Return the calibration of an instance, from memory, from the cache folder, or made now.

    Raises:
        TaskError: The tests do not pass on the gold solution, so nothing could be graded.
    """
    return _CALIBRATIONS.get(repository.key, lambda: _kept(repository, run))


def _kept(repository: Repository, run: Runner) -> Calibration:
    path = cache_folder() / "swe" / "canaries" / f"{repository.key[:32]}.json"
    stamp = f"{_VERSION} {versions()}"
    with suppress(OSError, ValueError, KeyError, AssertionError):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["stamp"] == stamp:
            canaries = tuple(map(Candidate.from_list, data["canaries"]))
            return Calibration(Manner(data["manner"]), canaries, tuple(data["excused"]))
    made = _calibrate(repository, run)
    canaries = [one.to_list() for one in made.canaries]
    data = {"stamp": stamp, "manner": made.manner.value, "canaries": canaries, "excused": list(made.excused)}
    with suppress(OSError):  # a cache that cannot be written is no reason to stop
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(name, path)
    return made


def _calibrate(repository: Repository, run: Runner) -> Calibration:
    hidden, instance = repository.hidden, repository.instance
    tried = _tried(hidden, instance.fail_to_pass)
    best: Calibration | None = None
    why = ""
    for manner, planted in _ATTEMPTS:
        found = _undisturbed(run, hidden, tried if planted else [], manner)
        lost = [test for test in instance.fail_to_pass if found.statuses.get(test) != PASSING]
        if lost or found.error or found.tampered:
            why = found.error or next(iter(found.uncollected.values()), "") or " ".join([*lost[:1], *found.tampered])
            continue
        excused = tuple(test for test in instance.pass_to_pass if found.statuses.get(test) != PASSING)
        if best is None or len(excused) < len(best.excused):
            best = Calibration(manner, _working(found), excused)
        if not excused:
            break
    if best is None:
        raise TaskError(f"the tests of {instance.id!r} do not pass on its gold patch, so it cannot be graded: {why}")
    return best


def _undisturbed(run: Runner, hidden: HiddenTests, tried: Sequence[Candidate], manner: Manner) -> TestRun:
    """Return a run with those of the canaries that leave the tests around them alone, found by halving.

    A copy that fails half-way may leave the state of a module changed, by which honest work would then be judged.
    """
    searches = iter(range(MAX_SEARCHES))

    def lost(found: TestRun) -> set[str]:
        whole = not (found.error or found.tampered)
        return set(hidden.tests).difference(found.passed(hidden.tests) if whole else ())

    def harmless(some: Sequence[Candidate]) -> list[Candidate]:
        if not some or next(searches, None) is None:
            return []
        if lost(run(hidden, some, manner)) <= anyway:
            return list(some)
        half = len(some) // 2
        return harmless(some[:half]) + harmless(some[half:]) if half else []

    found = run(hidden, tried, manner)
    if not tried or not lost(found):
        return found
    anyway = lost(run(hidden, [], manner))
    if lost(found) <= anyway:
        return found
    half = len(tried) // 2
    return run(hidden, harmless(tried[:half]) + harmless(tried[half:]), manner)


def _tried(hidden: HiddenTests, decisive: Sequence[str]) -> list[Candidate]:
    """Return the canaries to try: all of the functions that decide, then some of the others."""
    first: list[Candidate] = []
    others: list[Candidate] = []
    names = {(parts.path, parts.scope, parts.name) for parts in map(NodeId.of, decisive)}
    for path in hidden.files:
        if path in hidden.modules:
            tests = [test for test in hidden.tests if NodeId.of(test).path == path]
            for one in candidates(path, hidden.modules[path], tests):
                (first if (one.path, one.scope, one.name) in names else others).append(one)
    spread = random.Random(0).sample(others, len(others))
    return [*first, *spread][:MAX_CALIBRATED]


def _working(found: TestRun) -> tuple[Candidate, ...]:
    """Keep the canaries, and the cases of each, that failed on the gold solution."""
    kept = []
    for candidate, statuses in found.canaries.items():
        failed = tuple(NodeId.of(test).case for test, status in statuses.items() if status == "failed")
        if failed:
            kept.append(replace(candidate, cases=failed))
    return tuple(sorted(kept))
