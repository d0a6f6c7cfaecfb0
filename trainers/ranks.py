"""Runs with several processes (`torchrun`, `accelerate launch --multi_gpu`): they meet, wait and share results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

_T = TypeVar("_T")

_PATIENCE = timedelta(hours=12)
"""How long processes wait for the process that evaluates."""


def world_size() -> int:
    """Return the number of processes that the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join() -> PartialState:
    """Wait for the other processes; return the state of this process."""
    options: dict[str, Any] = {"timeout": _PATIENCE} if world_size() > 1 else {}
    return PartialState(cpu=not torch.cuda.is_available(), **options)


def from_main(value: _T | None) -> _T:
    """Return the value that the main process passes; the other processes wait for it."""
    box = [value]
    broadcast_object_list(box)
    assert box[0] is not None
    return box[0]


def gather(items: Sequence[_T]) -> list[_T]:
    """Return the items of all processes, in the order of the processes, to each of them."""
    return gather_object(list(items))


def gather_on_main(items: Sequence[_T]) -> list[_T]:
    """Return the items of all processes to the main process, and none to the others."""
    state = PartialState()
    if state.num_processes == 1:
        return list(items)
    parts: list[Any] | None = [None] * state.num_processes if state.is_main_process else None
    torch.distributed.gather_object(list(items), parts, dst=0)
    return [item for part in parts or () for item in part]
