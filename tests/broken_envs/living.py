"""Environments that cannot be made, copied, restored or closed, leave something behind, or do not end."""

from __future__ import annotations

import multiprocessing
import subprocess
import tempfile
import threading
import time
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.steps import StepResult
from agentgym.task import Task
from tests.sound_envs import SoundEnv


class CannotBeMade(SoundEnv):
    """Fails at once."""

    def __init__(self, **kwargs: Any):
        raise FileNotFoundError("boxes.db is missing; run make-boxes")


class OnlyInTheMainProcess(SoundEnv):
    """Cannot live in a worker."""

    def __init__(self, **kwargs: Any):
        if multiprocessing.parent_process() is not None:
            raise RuntimeError("the license is for one process")
        super().__init__(**kwargs)


class DoesNotPickle(SoundEnv):
    """Holds a lock from the beginning."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.lock = threading.Lock()


class HoldsALocalFunction(SoundEnv):
    """Has a function that no other process can import."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.twice = lambda number: 2 * number


class RestoresHalf(SoundEnv):
    """Forgets to play the actions again."""

    def restore(self, snapshot: Any) -> None:
        self.reset(seed=snapshot.seed, options={"task": snapshot.task})


class ClosesOnce(SoundEnv):
    """Frees what is no longer there."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.held: list[str] | None = ["something"]

    def release(self) -> None:
        assert self.held is not None, "released twice"
        self.held = None


class LeavesProcess(SoundEnv):
    """Starts a helper for each episode and forgets it."""

    def start(self, task: Task) -> str:
        self.helper = subprocess.Popen(["sleep", "20"])
        self.helper.returncode = 0  # quiet: no warning that it still runs
        return super().start(task)


class LeavesThread(SoundEnv):
    """Starts a watcher and never tells it to stop."""

    def start(self, task: Task) -> str:
        threading.Thread(target=time.sleep, args=(120,), daemon=True).start()
        return super().start(task)


class LeavesFiles(SoundEnv):
    """Makes a folder for each episode and never removes it."""

    def start(self, task: Task) -> str:
        self.folder = tempfile.mkdtemp(prefix="boxes-")
        return super().start(task)


class NeverEnds(SoundEnv):
    """Switches the limits off."""

    def _limit_reached(self) -> Reason | None:
        return None


class EndsBothWays(SoundEnv):
    """Sets both flags at the end."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(truncated=result.terminated or result.truncated)
