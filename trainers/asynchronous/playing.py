"""The process that plays the groups of an asynchronous run. It has no GPU and imports nothing of TRL."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.foreign import describe
from agentgym.core.making import closed_after, make_env
from agentgym.rollout import EnvFactory, Failures, Group, Limits, PlayedGroup, RolloutEngine
from agentgym.trainers.batches import LearningPolicy, TaskRow
from agentgym.trainers.credit import Credit, group_numbers

_log = logging.getLogger(__name__)

_ALIVE_EVERY_S = 2.0
OF_THE_TRAINER = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK"),
    *("ROLE_RANK", "ROLE_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
)
"""Environment variables that would make libraries join the trainer's processes."""


@dataclass(frozen=True)
class GroupPlayer:
    """Plays groups in another process; picklable."""

    factory: EnvFactory
    policy: LearningPolicy
    credit: Credit
    group_size: int
    limits: Limits = field(default_factory=Limits)
    workers: str = "threads"
    failures: Failures = field(default_factory=Failures)


@dataclass(frozen=True)
class Start:
    """Asks for a group."""

    number: int
    row: TaskRow
    step: int
    """Number of completed steps."""


@dataclass(frozen=True)
class Played:
    """A finished group."""

    number: int
    group: PlayedGroup
    advantages: list[list[float]]
    """One for each turn of the model, of each trajectory."""
    trained: list[list[bool]]
    """Whether the turns count in the loss."""


@dataclass(frozen=True)
class CannotPlay:
    """The process cannot go on."""

    text: str
    is_usage: bool
    """Whether the caller asked for something impossible."""

    @property
    def error(self) -> Exception:
        """The error to raise in the trainer."""
        return (UsageError if self.is_usage else InfrastructureError)(self.text)


def play_groups(connection: Connection, player: GroupPlayer, version: int) -> None:
    """Play the groups that come through a connection, and send them back.

    A number is the new version of the weights, and `None` the end, as is a closed connection; `None` comes back every
    few seconds.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trainer decides when to stop
    for name in OF_THE_TRAINER:
        os.environ.pop(name, None)
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = ""
    asyncio.run(_Playing(connection, player, version).run())


class _Playing:
    def __init__(self, connection: Connection, player: GroupPlayer, version: int):
        self._connection, self._player = connection, player
        player.policy.updated(version)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Play until the connection closes, or something breaks."""
        player = self._player
        self._loop = asyncio.get_running_loop()
        try:
            with closed_after(make_env(player.factory.env_id, player.factory.kwargs)) as env:
                self._source = env.tasks
            self._engine = RolloutEngine(
                player.factory, player.policy, player.limits, workers=player.workers, failures=player.failures
            )
        except Exception as error:  # an environment may raise anything
            return self._break(error)
        with self._engine:
            threading.Thread(target=self._listen, name="orders", daemon=True).start()
            alive = asyncio.create_task(self._tell())
            await self._ended.wait()
            for task in (alive, *self._tasks):
                task.cancel()
            await asyncio.gather(alive, *self._tasks, return_exceptions=True)

    def _listen(self) -> None:
        """Read orders, in a thread of its own."""
        try:
            while (order := self._connection.recv()) is not None:
                self._loop.call_soon_threadsafe(self._obey, order)
        except (EOFError, OSError):
            _log.warning("the trainer has died")
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._ended.set)

    def _obey(self, order: Start | int) -> None:
        if isinstance(order, int):
            self._player.policy.updated(order)
            return
        task = self._loop.create_task(self._play(order))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        while True:
            self._send(None)
            await asyncio.sleep(_ALIVE_EVERY_S)

    async def _play(self, start: Start) -> None:
        size = self._player.group_size
        try:
            task = self._source.get("train", start.row.index)
            # No two groups of a run share an attempt number, so that their trajectories have different names.
            group = Group(task, start.row.seed, size, start.number * size, start.step)
            stream: Any = self._engine.stream([group])
            async with aclosing(stream):
                async for played in stream:
                    self._send(self._credited(start.number, played))
        except Exception as error:
            self._break(error)

    def _credited(self, number: int, played: PlayedGroup) -> Played:
        credit, trajectories = self._player.credit, played.trajectories
        groups = group_numbers(trajectories)
        advantages, trained = credit.advantages(trajectories, groups), credit.trained_turns(trajectories, groups)
        return Played(number, played, advantages, trained)

    def _break(self, error: Exception) -> None:
        text = str(error) if isinstance(error, (UsageError, InfrastructureError)) else describe(error)
        self._send(CannotPlay(text, isinstance(error, UsageError)))
        self._ended.set()

    def _send(self, message: Played | CannotPlay | None) -> None:
        try:
            self._connection.send(message)
        except OSError:  # the trainer has died
            self._ended.set()
