"""Verdicts that this process has given: the same work on the same instance is graded once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agentgym.envs.swe.grading import Grader, Verdict
from agentgym.envs.swe.remembered import Remembered
from agentgym.envs.swe.repository import Repository

_VERDICTS: Remembered[Verdict] = Remembered(512)


def verdict_on(grader: Grader, repository: Repository, worked: Mapping[str, bytes]) -> Verdict:
    """Return the verdict on an agent's work, from memory if it is known."""
    key = repository.key, _digest(repository.files, worked)
    return _VERDICTS.get(key, lambda: grader.grade(repository, worked))


def _digest(before: Mapping[str, bytes], worked: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for path in sorted({*before, *worked}):
        data = worked.get(path)
        if before.get(path) != data:
            size = -1 if data is None else len(data)
            digest.update(f"\0{path}\0{size}\0".encode("utf-8", "surrogateescape") + (data or b""))
    return digest.hexdigest()
