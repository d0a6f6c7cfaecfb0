"""Values and verdicts are made once, also for several threads, and the cache is bounded."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.envs.swe.env import verdict_on
from agentgym.envs.swe.filtering import FilteredTree
from agentgym.envs.swe.grading import SWEGrader, SWEVerdict
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from tests.swe_cases import FILES, INSTANCE, MENDED


def test_cache_drops_the_least_recently_used_value():
    misses: list[str] = []
    cache = BoundedCache[str](2)
    for key in "aabac" + "acb":  # `b` is the least recently used key when `c` comes
        assert cache.get(key, lambda key=key: misses.append(key) or key) == key
    assert misses == ["a", "b", "c", "b"]


def test_concurrent_threads_make_a_value_once():
    cache, calls, barrier = BoundedCache[int](2), [], threading.Barrier(4)

    def make() -> int:
        calls.append(1)
        return len(calls)

    def get(_: int) -> int:
        barrier.wait()
        return cache.get("a", make)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(get, range(4))) == [1] * 4


def test_failed_value_is_made_again():
    cache = BoundedCache[float](2)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert cache.get("a", lambda: 2.0) == 2.0


class CountingGrader(SWEGrader):
    """A grader that counts its calls."""

    def __init__(self):
        super().__init__(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))
        self.calls = 0

    def judge(self, repository: Repository, changes: FilteredTree) -> SWEVerdict:
        self.calls += 1
        return SWEVerdict(mended=float(self.calls))


def gradings(*works: Mapping[str, bytes]) -> int:
    """Return the number of gradings of pieces of work on a new instance."""
    grader = CountingGrader()
    repository = Repository(INSTANCE, {**FILES, "README.md": repr(sorted(works[0].items())).encode()})
    for worked in works:
        verdict_on(grader, repository, {**worked, "README.md": repository.files["README.md"]})
    return grader.calls


def test_only_equal_work_shares_a_verdict():
    words = MENDED["textkit/words.py"]
    gone = {path: data for path, data in MENDED.items() if path != "textkit/errors.py"}
    assert gradings(MENDED, dict(MENDED)) == 1
    assert gradings(MENDED | {"a.py": b""}, MENDED | {"b.py": b""}) == 2
    assert gradings(MENDED | {"textkit/words.py": words + b"#"}, MENDED | {"textkit/words.py": words + b"##"}) == 2
    assert gradings(gone, {**gone, "textkit/errors.py": b""}) == 2
    assert gradings(MENDED | {"a.py": b"1", "b.py": b""}, MENDED | {"a.py": b"", "b.py": b"1"}) == 2
    assert gradings({**MENDED, "conftest.py": b""}, {**MENDED, "pytest.ini": b""}) == 2
    assert gradings({**MENDED, "conftest.py": b"1"}, {**MENDED, "conftest.py": b"2"}) == 1
    grader = CountingGrader()
    for files in (FILES, {**FILES, "README.md": b"another"}):
        verdict_on(grader, Repository(INSTANCE, files), {**files, "textkit/words.py": b"# of its own"})
    assert grader.calls == 2, "verdicts belong to one instance"
