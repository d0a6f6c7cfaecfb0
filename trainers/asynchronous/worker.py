"""`EngineWorker`: the trainer's side of the process that plays groups. Implements TRL's `RolloutWorkerProtocol`."""

from __future__ import annotations

import logging
import multiprocessing
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import Empty, Queue
from typing import Any

from agentgym.base.errors import InfrastructureError
from agentgym.trainers.asynchronous.admission import Admission
from agentgym.trainers.asynchronous.playing import CannotPlay, GroupPlayer, Played, Start, play_groups
from agentgym.trainers.batches import TaskRow

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_STOP_S = 20.0
_DEATHS = 3
"""Deaths of the process in a row, without a finished group in between, that stop the run."""


class EngineWorker:
    """Has groups played in a process of its own, ahead of the trainer, as far as `Admission` allows.

    The groups that were taken before an update count as trained once it is announced (`update_model_version`). If the
    process dies, another one plays its unfinished groups.

    Args:
        player: Plays the groups; pickled by `start`.
        row_of: Returns the task of a group, by its number.
        admission: The groups of the run.
        samples_of: Turns a group into what the trainer learns from, given the version of the weights, for
            `rollout_buffer`.
        stale_after_s: Seconds without a sign of life after which the process counts as hung.
    """

    def __init__(
        self,
        player: GroupPlayer,
        row_of: Callable[[int], TaskRow],
        admission: Admission,
        *,
        samples_of: Callable[[Played, int], list[Any]],
        stale_after_s: float = 300.0,
    ):
        self._player, self._row_of, self._admission = player, row_of, admission
        self._stale_after_s = stale_after_s
        self._version = 0
        self._changed = threading.Condition(threading.RLock())
        self._ready: dict[int, Played] = {}
        self._taken: list[int] = []
        """Groups of the step that is being trained."""
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._error: Exception | None = None
        self._deaths = 0
        self._alive_at = time.monotonic()
        self.rollout_buffer = SampleBuffer(self, samples_of)
        self.metrics_queue: Queue[dict[str, float]] = Queue()

    @property
    def version(self) -> int:
        """The version of the weights."""
        return self._version

    @property
    def pid(self) -> int | None:
        """The id of the process, while there is one."""
        return None if self._process is None else self._process.pid

    @property
    def state(self) -> dict[str, Any]:
        """The groups of the run, for a checkpoint (`Admission`)."""
        with self._changed:
            return {"next": self._admission.next, "open": list(self._admission.open)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue with the groups of a checkpoint. Open ones are played again."""
        self._admission.next, self._admission.open = state["next"], list(state["open"])

    def start(self) -> None:
        """Begin to play."""
        with self._changed:
            self._admission.admit()
            self._begin()

    def stop(self) -> None:
        """End the process. Safe to call twice."""
        with self._changed:
            process, connection = self._process, self._connection
            self._process = self._connection = None
        if process is None or connection is None:
            return
        with suppress(OSError):  # it has died
            connection.send(None)
        process.join(_STOP_S)
        if process.is_alive():
            process.kill()
            process.join()
        connection.close()

    def update_model_version(self, model_version: int) -> None:
        """Announce an update: the groups taken so far are trained, turns from now on are sampled with new weights."""
        with self._changed:
            self._version = model_version
            self._admission.trained(self._taken)
            self._taken.clear()
            if self._process is not None:
                self._send(model_version)
                self._order(self._admission.admit())

    def pass_over(self, numbers: Iterable[int]) -> None:
        """Close groups that were taken but teach nothing, so that others may start before the update."""
        with self._changed:
            for number in numbers:
                self._taken.remove(number)
                self._admission.trained([number])
            self._order(self._admission.admit())

    def check_health(self, stale_after_s: float | None = None) -> None:
        """Raise the error that broke the process, or `InfrastructureError` if it shows no sign of life."""
        if self._error is not None:
            raise self._error
        silence = time.monotonic() - self._alive_at
        if silence > (stale_after_s or self._stale_after_s):
            raise InfrastructureError(f"the process that plays the episodes has been silent for {silence:.0f} s")

    def take(self, count: int) -> list[Played]:
        """Wait until `count` groups are finished, and return the oldest of them."""
        with self._changed:
            while len(self._ready) < count:
                self.check_health()
                self._changed.wait(_LOOK_EVERY_S)
            return self._take(count)

    def take_one(self, limit_s: float) -> Played | None:
        """Return a finished group, or `None` if there is none for `limit_s` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready, limit_s)
            return self._take(1)[0] if self._ready else None

    def _take(self, count: int) -> list[Played]:
        numbers = sorted(self._ready)[:count]
        self._taken += numbers
        return [self._ready.pop(number) for number in numbers]

    def _begin(self) -> None:
        """Start a process on the groups that nobody plays."""
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=play_groups, args=(theirs, self._player, self._version), name="agentgym-episodes"
        )
        process.start()
        theirs.close()
        self._process, self._connection, self._alive_at = process, ours, time.monotonic()
        threading.Thread(target=self._listen, args=(process, ours), name="episodes", daemon=True).start()
        done = {*self._ready, *self._taken}
        self._order([number for number in self._admission.open if number not in done])

    def _order(self, numbers: list[int]) -> None:
        for number in numbers:
            self._send(Start(number, self._row_of(number), self._version))

    def _send(self, order: Start | int) -> None:
        with suppress(OSError):  # it has died, and its successor gets all open groups
            if self._connection is not None:
                self._connection.send(order)

    def _listen(self, process: BaseProcess, connection: Connection) -> None:
        """Receive groups, in a thread of its own, until the process ends."""
        try:
            while True:
                self._receive(connection.recv())
        except (EOFError, OSError):
            process.join()
        with self._changed:
            if self._process is not process or self._error is not None:
                return  # it was stopped, or has said why
            self._deaths += 1
            _log.warning("the process that plays the episodes died (exit code %s)", process.exitcode)
            self.metrics_queue.put({"rollout/restarts_total": 1.0})
            if self._deaths > _DEATHS:
                self._break(InfrastructureError(f"the process that plays the episodes died {self._deaths} times"))
            else:
                self._begin()

    def _receive(self, message: Played | CannotPlay | None) -> None:
        with self._changed:
            self._alive_at = time.monotonic()
            if isinstance(message, CannotPlay):
                self._break(message.error)
            elif message is not None:
                self._deaths = 0
                self._ready[message.number] = message
                self._changed.notify_all()

    def _break(self, error: Exception) -> None:
        self._error = error
        self._changed.notify_all()


class SampleBuffer:
    """The finished groups as a queue of samples, as TRL reads them."""

    def __init__(self, worker: EngineWorker, samples_of: Callable[[Played, int], list[Any]]):
        self._worker, self._samples_of = worker, samples_of
        self._samples: deque[Any] = deque()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the next sample. Raises `queue.Empty` if there is none in time."""
        ends = time.monotonic() + (timeout or 0.0)
        while not self._samples:
            self._worker.check_health()
            left = ends - time.monotonic()
            played = self._worker.take_one(max(0.0, min(left, _LOOK_EVERY_S)) if timeout is not None else _LOOK_EVERY_S)
            if played is not None:
                self._samples += self._samples_of(played, self._worker.version)
            elif timeout is not None and left <= 0:
                raise Empty
        return self._samples.popleft()

    def qsize(self) -> int:
        """Return the number of samples in reserve, without those of groups that were not begun."""
        return len(self._samples)
