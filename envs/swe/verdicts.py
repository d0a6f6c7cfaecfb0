"""A cache of verdicts in this process: the same work on the same instance is graded once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from agentgym.envs.swe.filtering import filtered
from agentgym.envs.swe.grading import SWEGrader, SWEVerdict
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository

_VERDICTS: BoundedCache[SWEVerdict] = BoundedCache(512)


def verdict_on(grader: SWEGrader, repository: Repository, worked: Mapping[str, bytes]) -> SWEVerdict:
    """Return the verdict on an agent's work, from the cache if it is known."""
    changes = filtered(repository.files, worked, repository.gold_paths)
    digest = hashlib.sha256(repr(sorted(changes.dropped.items())).encode("utf-8", "surrogateescape"))
    for path in changes.changed:
        data = changes.tree.get(path)
        digest.update(f"\0{path}\0{-1 if data is None else len(data)}\0".encode("utf-8", "surrogateescape"))
        digest.update(data or b"")
    return _VERDICTS.get((repository.key, digest.hexdigest()), lambda: grader.judge(repository, changes))
