"""Runs with several processes (`torchrun`, `accelerate launch`): they meet, wait and share results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

from agentgym.trainers.watch import Watch

_T = TypeVar("_T")

_watches: list[Watch] = []
"""This process's view of the others, if there are others."""


def world_size() -> int:
    """Return the number of processes that the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join(patience_s: float) -> PartialState:
    """Wait for the other processes; return the state of this process.

    Args:
        patience_s: Seconds without progress of a process, after which those that wait for it give up.
    """
    options: dict[str, Any] = {"timeout": timedelta(seconds=patience_s)} if world_size() > 1 else {}
    state = PartialState(cpu=not torch.cuda.is_available(), **options)
    if state.num_processes > 1 and not _watches:
        _watches.append(Watch(_store(state), state.process_index, state.num_processes, patience_s))
    return state


def _store(state: PartialState) -> TCPStore:
    """Return a store that all processes share; the main process holds it."""
    host = os.environ.get("MASTER_ADDR", "localhost")
    box: list[Any] = [None]
    held = TCPStore(host, 0, is_master=True, wait_for_workers=False) if state.is_main_process else None
    if held is not None:
        box = [held.port]
    broadcast_object_list(box)
    return held or TCPStore(host, box[0], is_master=False, wait_for_workers=False)


def report(phase: str) -> None:
    """Report to the other processes what this one is doing, and that it makes progress."""
    for watch in _watches:
        watch.report(phase)


def meet() -> None:
    """Wait for the other processes. Raises `InfrastructureError` naming one that makes no progress."""
    for watch in _watches:
        watch.meet()


def leave() -> None:
    """End the work with the other processes."""
    while _watches:
        _watches.pop().leave()


def to_main(items: Iterable[_T]) -> Iterator[_T]:
    """Yield the items of all processes on the main process as they come, and none on the others (`Watch.to_main`)."""
    return _watches[0].to_main(items) if _watches else iter(items)


def from_main(value: _T | None) -> _T:
    """Return the value that the main process passes; the other processes wait for it."""
    meet()
    box = [value]
    broadcast_object_list(box)
    assert box[0] is not None
    return box[0]


def gather(items: Sequence[_T]) -> list[_T]:
    """Return the items of all processes, in the order of the processes, to each of them."""
    meet()
    return gather_object(list(items))


def gather_on_main(items: Sequence[_T]) -> list[_T]:
    """Return the items of all processes to the main process, and none to the others."""
    state = PartialState()
    if state.num_processes == 1:
        return list(items)
    meet()
    parts: list[Any] | None = [None] * state.num_processes if state.is_main_process else None
    torch.distributed.gather_object(list(items), parts, dst=0)
    return [item for part in parts or () for item in part]
