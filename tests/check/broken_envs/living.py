"""Environments that cannot be made, copied, restored or closed, do not end, or leave something behind."""

from __future__ import annotations

import multiprocessing
import subprocess
import tempfile
import threading
import time
from typing import Any

import gymnasium

from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Snapshot, StepResult
from agentgym.core.messages import user
from agentgym.core.task import Task
from tests.check.sound_envs import Opening, SoundEnv


class Undocumented(SoundEnv):
    pass


class CannotBeMade(SoundEnv):
    """Fails in its constructor."""

    def __init__(self, **kwargs: Any):
        raise FileNotFoundError("boxes.db is missing; run make-boxes")


class OnlyInTheMainProcess(SoundEnv):
    """Cannot live in a worker."""

    def __init__(self, **kwargs: Any):
        if multiprocessing.parent_process() is not None:
            raise RuntimeError("the license is for one process")
        super().__init__(**kwargs)


class WrongSpace(SoundEnv):
    """Declares the wrong observation space."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.observation_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]


class FourValues(SoundEnv):
    """Uses Gym's old protocol."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class BreaksAtReset(SoundEnv):
    """Does not accept options."""

    def reset(self, *, seed: int | None = None) -> Opening:  # type: ignore[override]
        return super().reset(seed=seed)


class StepsBeforeReset(SoundEnv):
    """Starts an episode in `step`."""

    def step(self, action: Any) -> StepResult:
        try:
            return super().step(action)
        except gymnasium.error.ResetNeeded:
            self.reset(seed=0)
            return super().step(action)


class AcceptsStepsAfterTheEnd(SoundEnv):
    """Continues after its episode has ended."""

    def step(self, action: Any) -> StepResult:
        if self.reason is not None:
            return StepResult([user("More?")], 0.0, False, False, {"rewards": dict.fromkeys(self.channels, 0.0)})
        return super().step(action)


class RefusesInItsOwnWords(SoundEnv):
    """Raises its own error for a missing reset."""

    def step(self, action: Any) -> StepResult:
        try:
            return super().step(action)
        except gymnasium.error.ResetNeeded as error:
            raise RuntimeError("reset me") from error


class DoesNotPickle(SoundEnv):
    """Holds a lock."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.lock = threading.Lock()


class HoldsALocalFunction(SoundEnv):
    """Has a function that no other process can import."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.twice = lambda number: 2 * number


class KnowsItIsACopy(SoundEnv):
    """Plays differently after unpickling."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self.is_copy = True

    def start(self, task: Task) -> str:
        return f"{super().start(task)}{' I was copied.' if getattr(self, 'is_copy', False) else ''}"


class RestoresHalf(SoundEnv):
    """Does not replay the actions."""

    def restore(self, snapshot: Any) -> None:
        self.reset(seed=snapshot.seed, options={"task": snapshot.task})


class RestoresOnlyItself(SoundEnv):
    """Stores its snapshots on the instance."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.snapshots: list[Snapshot] = []

    def snapshot(self) -> Any:
        self.snapshots.append(super().snapshot())
        return len(self.snapshots) - 1

    def restore(self, snapshot: Any) -> None:
        if snapshot < len(self.snapshots):
            super().restore(self.snapshots[snapshot])
        else:
            self.reset(seed=0)


class CleansUpAtTheEnd(SoundEnv):
    """Clears its state at the end of an episode instead of the start."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.looked = []

    def start(self, task: Task) -> str:
        return f"Room {self.np_random.integers(1000)}. {task.prompt}"

    def grade(self) -> None:
        self.looked = []


class ClosesOnce(SoundEnv):
    """Cannot be released twice: always, after a look, or after the end."""

    def __init__(self, when: str = "always", **kwargs: Any):
        super().__init__(**kwargs)
        self.when, self.releases = when, 0

    def release(self) -> None:
        if {"always": True, "look": getattr(self, "looked", ()), "end": self.reason}[self.when]:
            self.releases += 1
        assert self.releases < 2, "released twice"


class LeavesEverything(SoundEnv):
    """Leaks a process, a thread and a folder per episode."""

    def start(self, task: Task) -> str:
        self.helper = subprocess.Popen(["sleep", "20"])
        self.helper.returncode = 0  # quiet: no warning that it still runs
        threading.Thread(target=time.sleep, args=(120,), daemon=True).start()
        self.folder = tempfile.mkdtemp(prefix="boxes-")
        return super().start(task)


class NeverEnds(SoundEnv):
    """Has no turn limit."""

    def _limit_reached(self) -> Reason | None:
        return None


class TakesOneTurnMore(SoundEnv):
    """Plays one turn more than its argument allows."""

    def __init__(self, max_turns: int | None = None, **kwargs: Any):
        super().__init__(max_turns=None if max_turns is None else max_turns + 1, **kwargs)


class EndsBothWays(SoundEnv):
    """Sets both flags at the end."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(truncated=result.terminated or result.truncated)


class Says(SoundEnv):
    """Adds `pays` to the rewards in `info`, and to `info` itself `at_end` in the last turn and `before` in others."""

    def __init__(self, pays: Any = None, at_end: Any = None, before: Any = None, **kwargs: Any):
        self.pays, self.at_end, self.before = pays or {}, at_end or {}, before or {}
        super().__init__(**kwargs)

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        more = self.at_end if result.terminated or result.truncated else self.before
        rewards = {**result.info["rewards"], **self.pays}
        return result._replace(info={**result.info, "rewards": rewards, **more})


class EndsForNoReason(Says):
    """Ends with an undeclared reason."""

    @property
    def reason(self) -> Any:
        return None if super().reason is None else "bored"


class EndsWithTheOtherFlag(SoundEnv):
    """Swaps the two flags."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(terminated=result.truncated, truncated=result.terminated)
