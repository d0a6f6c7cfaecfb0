"""Files of tasks are read once by a process, off the event loop, however many episodes take tasks from them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentgym.engine.sharing import shared
from agentgym.env import Env
from agentgym.envs.code import CodeEnv
from agentgym.envs.guess import GuessEnv
from agentgym.envs.search import SearchEnv
from agentgym.envs.sql import SQLEnv
from agentgym.errors import InfrastructureError, UsageError
from agentgym.policy import SilentPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.rollout.workers.pool import EnvPool
from agentgym.task import Task, TaskList

DATA = Path(__file__).parent / "data"


class Watched(TaskList):
    """Counts how often it is loaded, and by which thread."""

    loads: list[tuple[str, bool]] = []
    wait = threading.Event()

    def __init__(self, path: Path, **options: Any):
        in_loop = asyncio._get_running_loop() is not None
        self.loads.append((str(path), in_loop))
        if options.get("fails"):
            raise UsageError("cannot be read")
        self.wait.wait(timeout=options.get("slow", 0))
        super().__init__([Task("1", "train", path.read_text() if path.is_file() else "folder")])


LOADER = f"{__name__}:Watched"


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "loads", [])


def written(folder: Path, text: str = "one") -> Path:
    (folder / "tasks").write_text(text)
    return folder / "tasks"


def test_a_source_is_loaded_once_for_the_same_file_and_options(tmp_path: Path):
    file = written(tmp_path)
    first = shared(LOADER, file, {"split": "a"})
    assert shared(LOADER, file, {"split": "a"}) is first
    assert shared(LOADER, file, {"split": "b"}) is not first
    assert len(Watched.loads) == 2


def test_many_threads_that_ask_at_once_wait_for_one_load(tmp_path: Path):
    file = written(tmp_path)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(shared(LOADER, file, {"slow": 0.2}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(Watched.loads), len(set(map(id, found))), len(found)) == (1, 1, 8)


def test_a_file_that_has_changed_is_read_again(tmp_path: Path):
    first = shared(LOADER, written(tmp_path), {})
    second = shared(LOADER, written(tmp_path, "another"), {})
    assert [source.get("train", 0).prompt for source in (first, second)] == ["one", "another"]


def test_a_folder_is_read_again_when_what_is_in_it_changes(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "to nothing").symlink_to(tmp_path / "nothing")
    first = shared(LOADER, tmp_path, {})
    assert shared(LOADER, tmp_path, {}) is first
    (tmp_path / "inner" / "questions.json").write_text("[]")
    assert shared(LOADER, tmp_path, {}) is not first


def test_what_cannot_be_loaded_is_tried_again(tmp_path: Path):
    for _ in range(2):
        with pytest.raises(UsageError, match="cannot be read"):
            shared(LOADER, written(tmp_path), {"fails": True})
    assert len(Watched.loads) == 2


def test_few_sources_are_kept_that_nobody_uses(tmp_path: Path):
    file = written(tmp_path)
    for number in range(40):
        shared(LOADER, file, {"number": number})
    shared(LOADER, file, {"number": 0})
    assert len(Watched.loads) == 41


def test_a_child_process_can_load_while_its_parent_was_loading(tmp_path: Path):
    file = written(tmp_path)
    Watched.wait.clear()
    loading = threading.Thread(target=shared, args=(LOADER, file, {"slow": 30}))
    loading.start()
    while not Watched.loads:
        time.sleep(0.01)
    child = os.fork()
    if not child:
        Watched.wait.set()
        shared(LOADER, file, {"slow": 30})
        os._exit(0)
    Watched.wait.set()
    loading.join()
    Watched.wait.clear()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("kind", "kwargs"),
    [
        (SQLEnv, {"folder": DATA / "spider_style"}),
        (SearchEnv, {"folder": DATA / "search_files" / "squad.json"}),
        (CodeEnv, {"file": "gsm8k.jsonl"}),
    ],
)
def test_environments_on_the_same_files_share_their_tasks(
    kind: type[Env], kwargs: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gsm8k.jsonl").write_text(json.dumps({"question": "How many?", "answer": "#### 1"}))
    first, second = kind(**kwargs), kind(**kwargs)
    assert first.tasks is second.tasks


# In a rollout.


class FromFile(GuessEnv):
    """Takes its tasks from a file."""

    def __init__(self, file: str):
        super().__init__(tasks=shared(LOADER, Path(file), {}))

    def start(self, task: Task) -> str:
        return task.prompt


class Factory(EnvFactory):
    def __call__(self) -> Env:
        return FromFile(**self.kwargs)


def test_64_episodes_at_a_time_read_their_file_once_and_off_the_event_loop(tmp_path: Path):
    factory = Factory("tests/from-file-v0", {"file": str(written(tmp_path))})
    jobs = [Job(Task("1", "train", "one"), seed, seed) for seed in range(64)]
    found = asyncio.run(collect(jobs, SilentPolicy(), factory, Limits(max_in_flight=64)))
    assert len(found) == 64
    assert Watched.loads == [(str(tmp_path / "tasks"), False)]


class Slow(GuessEnv):
    """Takes long to be made."""

    begun, go_on = threading.Event(), threading.Event()
    made: list[Slow] = []

    def __init__(self) -> None:
        self.begun.set()
        self.go_on.wait(timeout=30)
        super().__init__()
        self.closed = threading.Event()
        self.made.append(self)

    @classmethod
    def only_one(cls) -> Slow:
        """Return the one that is made, once it is."""
        while not cls.made:
            time.sleep(0.001)
        (made,) = cls.made
        return made

    @classmethod
    def again(cls) -> None:
        cls.begun.clear()
        cls.go_on.clear()
        cls.made.clear()

    def release(self) -> None:
        self.closed.set()


def test_the_event_loop_runs_while_an_environment_is_made():
    async def play() -> bool:
        taking = asyncio.ensure_future(EnvPool(Slow).take())
        await asyncio.to_thread(Slow.begun.wait, 30)
        Slow.go_on.set()  # only a loop that is free gets here before the environment is made
        return isinstance(await taking, Slow)

    Slow.again()
    assert asyncio.run(play())


class Leisurely(GuessEnv):
    """Takes a while to be made."""

    def __init__(self) -> None:
        time.sleep(0.15)
        super().__init__()


def test_patience_is_for_making_an_environment_and_not_for_waiting_until_others_are_made():
    async def play() -> list[Env]:
        pool = EnvPool(Leisurely)
        return await asyncio.gather(*(pool.take(limit_s=10 * 0.15) for _ in range(20)))

    assert len(asyncio.run(play())) == 20


def test_an_environment_that_is_never_made_is_an_infrastructure_failure():
    async def play() -> None:
        with pytest.raises(InfrastructureError, match=r"making an environment took longer than its limit of 0\.1 s"):
            await EnvPool(Slow).take(limit_s=0.1)
        Slow.go_on.set()

    Slow.again()
    asyncio.run(play())
    assert Slow.only_one().closed.wait(30)


def test_an_environment_that_is_made_for_nobody_is_closed():
    async def play() -> None:
        taking = asyncio.ensure_future(EnvPool(Slow).take())
        await asyncio.to_thread(Slow.begun.wait, 30)
        taking.cancel()
        await asyncio.wait([taking])
        Slow.go_on.set()

    Slow.again()
    asyncio.run(play())
    assert Slow.only_one().closed.wait(30)
