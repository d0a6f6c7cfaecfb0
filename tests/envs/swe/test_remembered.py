"""What a process remembers: made once, also for several threads, and no more than it may keep."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentgym.envs.swe.filtering import FilteredTree
from agentgym.envs.swe.grading import SWEGrader, SWEVerdict
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.envs.swe.verdicts import verdict_on
from tests.swe_cases import FILES, INSTANCE, MENDED, REPOSITORY


def test_a_value_is_made_once():
    made, memory = [], BoundedCache[int](2)
    for _ in range(3):
        assert memory.get("a", lambda: made.append("a") or 5) == 5
    assert made == ["a"]


def test_the_values_asked_for_last_are_kept_and_no_more_than_may_be():
    made: list[str] = []
    memory = BoundedCache[str](2)

    def ask(key: str) -> None:
        memory.get(key, lambda: made.append(key) or key)

    for key in "abac":  # `b` was asked for longest ago
        ask(key)
    made.clear()
    for key in "acb":
        ask(key)
    assert made == ["b"]


def test_threads_that_ask_for_the_same_wait_for_the_one_that_makes_it():
    memory, made, begun = BoundedCache[int](2), [], threading.Event()

    def make() -> int:
        made.append(1)
        begun.wait(0.2)
        return len(made)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: memory.get("a", make), range(4))) == [1] * 4


def test_a_value_that_could_not_be_made_is_tried_again():
    memory = BoundedCache[float](2)
    with pytest.raises(ZeroDivisionError):
        memory.get("a", lambda: 1 / 0)
    assert memory.get("a", lambda: 2.0) == 2.0


class Counting(SWEGrader):
    """A grader that counts what it is asked to grade."""

    def __init__(self):
        super().__init__(Sandboxes("auto", False, WORK_LIMITS, WORK_LIMITS))
        self.asked: list[FilteredTree] = []

    def judge(self, repository: Repository, changes: FilteredTree) -> SWEVerdict:
        self.asked.append(changes)
        return SWEVerdict(mended=float(len(self.asked)))


def asked(*works: Mapping[str, bytes]) -> int:
    """How many of some pieces of work are graded, on an instance of its own."""
    grader = Counting()
    repository = Repository(INSTANCE, {**FILES, "README.md": repr(sorted(works[0].items())).encode()})
    for worked in works:
        verdict_on(grader, repository, {**worked, "README.md": repository.files["README.md"]})
    return len(grader.asked)


def test_the_same_work_is_graded_once_and_other_work_for_itself():
    words = MENDED["textkit/words.py"]
    gone = {path: data for path, data in MENDED.items() if path != "textkit/errors.py"}
    assert asked(MENDED, dict(MENDED)) == 1
    assert asked(MENDED | {"a.py": b""}, MENDED | {"b.py": b""}) == 2
    assert asked({**MENDED, "textkit/words.py": words + b"#"}, {**MENDED, "textkit/words.py": words + b"##"}) == 2
    assert asked(gone, {**gone, "textkit/errors.py": b""}) == 2
    assert asked(MENDED | {"a.py": b"1", "b.py": b""}, MENDED | {"a.py": b"", "b.py": b"1"}) == 2


def test_work_of_which_something_else_was_left_out_is_graded_for_itself():
    assert asked({**MENDED, "conftest.py": b""}, {**MENDED, "pytest.ini": b""}) == 2
    assert asked({**MENDED, "conftest.py": b"1"}, {**MENDED, "conftest.py": b"2"}) == 1


def test_a_verdict_is_that_on_its_own_instance():
    grader = Counting()
    for files in (FILES, {**FILES, "README.md": b"another"}):
        verdict_on(grader, Repository(REPOSITORY.instance, files), {**files, "textkit/words.py": b"# of its own"})
    assert len(grader.asked) == 2
