"""Our environments in Gymnasium's vectors, each in its own process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import set_forkserver_preload
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BrokenBarrierError
from typing import Any

import pytest
from gymnasium.vector import AsyncVectorEnv

from agentgym.base.errors import InfrastructureError
from agentgym.core.messages import assistant
from agentgym.core.task import TaskList
from tests.interop.guarantees import DONE, SPLIT, Guarantee, Moves, Seen, hold, read
from tests.interop.peers import by_task
from tests.interop.probe_env import TOGETHER, ProbeEnv
from tests.rows import each_row
from tests.waiting import eventually

# Vectors report the errors of their processes as warnings.
pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:.*ERROR.*:UserWarning")]

CONTEXT = "forkserver"
"""Children of a process that has imported the environment: each would import it again otherwise."""


@dataclass(frozen=True)
class Folder:
    """Where processes meet: each puts a file into it."""

    path: Path

    def wait(self, seconds: float) -> None:
        (self.path / str(os.getpid())).touch()
        if not eventually(lambda: len(list(self.path.iterdir())) >= TOGETHER, seconds):
            raise BrokenBarrierError

    def reset(self) -> None:
        for file in self.path.iterdir():
            file.unlink(missing_ok=True)


def probe(index: int, meeting: Folder) -> ProbeEnv:
    env: Any = ProbeEnv(dialect="native", tasks=TaskList([ProbeEnv.default_tasks().get(SPLIT, index)]))
    env.meeting = meeting
    return env


class Driver:
    """Plays all episodes in one `AsyncVectorEnv`, which begins others when one is over."""

    adapter = package = "gymnasium"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        indices = [index for index in range(len(episodes)) for _ in range(attempts)]
        with TemporaryDirectory() as folder:
            envs = [partial(probe, index, Folder(Path(folder))) for index in indices]
            vector = AsyncVectorEnv(envs, shared_memory=False, context=CONTEXT)
            try:
                results = played(vector, [episodes[i] for i in indices], [seed + i for i in indices])
            finally:
                vector.close()
        return by_task(results, attempts)


def played(vector: AsyncVectorEnv, episodes: Sequence[Moves], seeds: list[int | None]) -> list[Seen]:
    """Play an episode in each place; an error of one leaves the vector, and so is one of all."""
    results = [Seen(turn_rewards=[]) for _ in episodes]
    try:
        observations, _ = vector.reset(seed=seeds, options={"index": 0})
        for result, opening in zip(results, observations, strict=True):
            read(result, opening)
        turn = 0
        while any(result.ending is None for result in results):
            turn_of(vector, episodes, results, turn)
            turn += 1
    except InfrastructureError as error:
        return [Seen(result.texts, error=str(error)) for result in results]
    return results


def turn_of(vector: AsyncVectorEnv, episodes: Sequence[Moves], results: list[Seen], turn: int) -> None:
    """Play a turn in each place; a model that is done says so until its episode is over."""
    actions = [assistant("", [moves[turn]]) if turn < len(moves) else DONE for moves in episodes]
    observations, rewards, terminated, truncated, info = vector.step(tuple(actions))
    for place, result in enumerate(results):
        if result.ending is None:
            read(result, observations[place])
            result.turn_rewards = [*(result.turn_rewards or ()), float(rewards[place])]
            if terminated[place] or truncated[place]:
                result.reward, result.ending = sum(result.turn_rewards), info["ending"][place]


@pytest.fixture(scope="module", autouse=True)
def _imported_once() -> None:
    set_forkserver_preload([__name__])


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)
