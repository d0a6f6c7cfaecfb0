"""A process reads a file of tasks once, and neither this nor making environments blocks the event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.policy import SilentPolicy
from agentgym.core.task import Task, TaskList
from agentgym.core.task_files import shared
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import Job, Limits
from agentgym.rollout.streams import play_jobs
from agentgym.rollout.workers.pool import EnvPool
from tests.rollout_cases import Factory
from tests.waiting import HANG_S, eventually


class Watched(TaskList):
    """Records each load and whether it is on an event loop; may wait until `go_on` is set."""

    loads: list[tuple[str, bool]] = []
    started, go_on = threading.Event(), threading.Event()

    def __init__(self, path: Path, **options: Any):
        self.loads.append((str(path), asyncio._get_running_loop() is not None))
        if options.get("fails"):
            raise UsageError("cannot be read")
        self.started.set()
        assert not options.get("slow") or self.go_on.wait(HANG_S)
        super().__init__([Task("1", "train", path.read_text() if path.is_file() else "folder")])


LOADER = f"{__name__}:Watched"


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "loads", [])
    monkeypatch.setattr(Watched, "started", threading.Event())
    monkeypatch.setattr(Watched, "go_on", threading.Event())


def write_tasks(folder: Path, text: str = "one") -> Path:
    (folder / "tasks").write_text(text)
    return folder / "tasks"


def test_a_source_is_loaded_once_for_the_same_file_and_options(tmp_path: Path):
    file = write_tasks(tmp_path)
    first = shared(LOADER, file, {"split": "a"})
    assert shared(LOADER, file, {"split": "a"}) is first
    assert shared(LOADER, file, {"split": "b"}) is not first
    assert len(Watched.loads) == 2


def test_many_threads_that_ask_at_once_wait_for_one_load(tmp_path: Path):
    file = write_tasks(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        pending = [pool.submit(shared, LOADER, file, {"slow": True}) for _ in range(8)]
        assert Watched.started.wait(HANG_S)
        Watched.go_on.set()
        sources = [load.result() for load in pending]
    assert (len(Watched.loads), len(set(map(id, sources)))) == (1, 1)


def test_a_file_or_folder_that_has_changed_is_read_again(tmp_path: Path):
    first = shared(LOADER, write_tasks(tmp_path), {})
    second = shared(LOADER, write_tasks(tmp_path, "another"), {})
    assert [source.get("train", 0).prompt for source in (first, second)] == ["one", "another"]
    (tmp_path / "inner").mkdir()
    (tmp_path / "to nothing").symlink_to(tmp_path / "nothing")
    first = shared(LOADER, tmp_path, {})
    assert shared(LOADER, tmp_path, {}) is first
    (tmp_path / "inner" / "questions.json").write_text("[]")
    assert shared(LOADER, tmp_path, {}) is not first


# In a rollout.


class FromFile(GuessEnv):
    """Takes its tasks from a file."""

    def __init__(self, file: str):
        super().__init__(tasks=shared(LOADER, Path(file), {}))

    def start(self, task: Task) -> str:
        return task.prompt


def test_64_episodes_at_a_time_read_their_file_once_and_off_the_event_loop(tmp_path: Path):
    factory = Factory("tests/from-file-v0", {"file": str(write_tasks(tmp_path))}, FromFile)
    jobs = [Job(Task("1", "train", "one"), seed, seed) for seed in range(64)]
    assert len(asyncio.run(play_jobs(jobs, SilentPolicy(), factory, Limits(max_in_flight=64)))) == 64
    assert Watched.loads == [(str(tmp_path / "tasks"), False)]


class Slow(GuessEnv):
    """Its constructor waits until `go_on` is set."""

    started, go_on = threading.Event(), threading.Event()
    instances: list[Slow] = []

    def __init__(self) -> None:
        self.started.set()
        assert self.go_on.wait(HANG_S)
        super().__init__()
        self.closed = threading.Event()
        self.instances.append(self)

    def release(self) -> None:
        self.closed.set()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> type[Slow]:
    for name, value in (("started", threading.Event()), ("go_on", threading.Event()), ("instances", [])):
        monkeypatch.setattr(Slow, name, value)
    return Slow


def test_the_limit_of_making_an_environment_excludes_waiting_for_others(slow: type[Slow]):
    async def play() -> None:
        pool = EnvPool(slow)
        first = asyncio.ensure_future(pool.take())
        await asyncio.to_thread(slow.started.wait, 60)
        second = asyncio.ensure_future(pool.take(limit_s=0.01))
        await asyncio.sleep(0.05)
        assert not second.done()
        slow.go_on.set()
        await asyncio.wait([first, second])

    asyncio.run(play())


def test_an_abandoned_environment_is_closed_in_the_end(slow: type[Slow]):
    async def too_late() -> None:
        with pytest.raises(InfrastructureError, match=r"making an environment took longer than its limit of 0\.1 s"):
            await EnvPool(slow).take(limit_s=0.1)

    async def for_nobody() -> None:
        taking = asyncio.ensure_future(EnvPool(slow).take())
        await asyncio.to_thread(slow.started.wait, 60)
        taking.cancel()
        await asyncio.wait([taking])

    for play in (too_late, for_nobody):
        slow.go_on.clear()
        slow.started.clear()
        slow.instances.clear()

        async def and_go_on(play: Any = play) -> None:
            await play()
            slow.go_on.set()

        asyncio.run(and_go_on())
        assert eventually(lambda: len(slow.instances) == 1 and slow.instances[0].closed.is_set())
