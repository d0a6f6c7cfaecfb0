"""`Watch`: processes that train together report what they do, so that those that wait can name the one that hangs.

A collective operation of torch says at best that it took too long, not who is missing, nor where that process is.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage]

from agentgym.base.errors import InfrastructureError

_T = TypeVar("_T")

_PART = 4 * 2**20
"""Bytes of a part of a message; torch's `TCPStore` allows 8 MiB."""
_PAUSES_S = (0.001, 0.2)
"""Seconds between two looks at the store: at first, and at most."""


class Watch:
    """One process's view of all processes of a run. They share a store (`torch.distributed.TCPStore`).

    Args:
        store: The store.
        rank: The number of this process.
        size: Number of processes.
        patience_s: Seconds without a new report of a process, after which those that wait for it give up.
        clock: Returns the time in seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._store, self._rank, self._size = store, rank, size
        self._patience_s, self._clock, self._sleep = patience_s, clock, sleep
        self._own = _Report()
        self._sent = 0
        self._received = dict.fromkeys(range(1, size), 0)
        """Number of parts of messages from each process that the main process has read."""
        self.report("starting")

    def report(self, phase: str) -> None:
        """Report what this process is doing. Each call shows that it makes progress."""
        self._come_to(self._own.meetings, phase)

    def meet(self) -> None:
        """Wait until each process has called this as often as this one.

        Raises:
            InfrastructureError: A process that is missing has reported nothing for too long, or has ended.
        """
        self._come_to(self._own.meetings + 1, self._own.phase)
        self._await_others()

    def leave(self) -> None:
        """Report the end of this process; the main process, which holds the store, waits for that of the others."""
        self._come_to(math.inf, "ended")
        if not self._rank:
            self._await_others()

    def to_main(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items of all processes on the main process as they come; on the others, send theirs to it.

        Items must be picklable. All processes must exhaust the iterator.

        Raises:
            InfrastructureError: As for `meet`.
        """
        if self._rank:
            for item in items:
                self._send(pickle.dumps(item))
            self._send(b"")
            return
        sending = set(self._received)
        for item in items:
            yield item
            yield from self._arrived(sending)
        for _ in self._looks(sending):
            yield from self._arrived(sending)
            if not sending:
                return

    def _come_to(self, meetings: float, phase: str) -> None:
        self._publish(_Report(self._own.number + 1, meetings, phase))

    def _await_others(self) -> None:
        """Wait until the others have come to as many meetings as this process."""
        missing = set(range(self._size)) - {self._rank}
        for _ in self._looks(missing):
            missing -= {r for r, report in self._reports(missing).items() if report.meetings >= self._own.meetings}
            if not missing:
                return

    def _arrived(self, sending: set[int]) -> Iterator[Any]:
        """Yield the items that have come; remove processes that have sent all from `sending`."""
        for rank in sorted(sending):
            for message in self._messages(rank):
                if message:
                    yield pickle.loads(message)
                else:
                    sending.discard(rank)

    def _messages(self, rank: int) -> Iterator[bytes]:
        """Yield the messages of a process that are complete."""
        parts: list[bytes] = []
        with _explained():
            while self._store.check([key := f"mail/{rank}/{self._received[rank] + len(parts)}"]):
                parts.append(self._store.get(key))
                if parts[-1][:1] == b"1":  # more of this message follows
                    continue
                for _ in parts:
                    self._store.delete_key(f"mail/{rank}/{self._received[rank]}")
                    self._received[rank] += 1
                yield b"".join(part[1:] for part in parts)
                parts = []

    def _send(self, message: bytes) -> None:
        starts = range(0, max(1, len(message)), _PART)
        with _explained():
            for start in starts:
                more = b"0" if start == starts[-1] else b"1"
                self._set(f"mail/{self._rank}/{self._sent}", more + message[start : start + _PART])
                self._sent += 1

    def _looks(self, others: Collection[int]) -> Iterator[None]:
        """Yield at intervals; raise `InfrastructureError` once one of `others` has reported nothing for too long."""
        last: dict[int, tuple[_Report, float]] = {}
        pause, longest = _PAUSES_S
        while True:
            yield
            now = self._clock()
            for rank, report in self._reports(others).items():
                if rank not in last or last[rank][0] != report:
                    last[rank] = (report, now)
                elif (silent := now - last[rank][1]) >= self._patience_s:
                    time_text = f"{silent:.0f} s" if silent < 120 else f"{silent / 60:.0f} min"
                    raise InfrastructureError(
                        f"process {rank} has been in {report.phase!r} without progress for {time_text} while "
                        f"process {self._rank} waits for it. See its output and its stack (py-spy dump); if it only "
                        "needs longer, raise rank_timeout_s"
                    )
            self._sleep(pause)
            pause = min(2 * pause, longest)

    def _publish(self, report: _Report) -> None:
        self._own = report
        with _explained():
            self._set(f"report/{self._rank}", pickle.dumps(report))

    def _set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)  # type: ignore[arg-type] # its stubs lack bytes

    def _reports(self, ranks: Collection[int]) -> Mapping[int, _Report]:
        """Return the last reports of some processes."""
        with _explained():
            keys = {rank: f"report/{rank}" for rank in ranks}
            begun = {rank for rank, key in keys.items() if self._store.check([key])}
            return {r: pickle.loads(self._store.get(keys[r])) if r in begun else _Report() for r in ranks}


@dataclass(frozen=True)
class _Report:
    """The work of a process."""

    number: int = 0
    """Of this report."""
    meetings: float = 0
    """Number of meetings that the process has come to; infinite after its end."""
    phase: str = "starting"


@contextmanager
def _explained() -> Iterator[None]:
    """Explain the loss of the store, which the main process holds."""
    try:
        yield
    except InfrastructureError:
        raise
    except RuntimeError as error:
        raise InfrastructureError(
            f"the main process (rank 0) has ended, or cannot be reached; see its output ({str(error).splitlines()[0]})"
        ) from error
