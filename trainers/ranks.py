"""Runs with several processes (`torchrun`, `accelerate launch --multi_gpu`): they meet, wait and share results."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

_T = TypeVar("_T")

_PATIENCE = timedelta(hours=12)
"""How long processes wait for the process that evaluates."""


def world_size() -> int:
    """Return the number of processes that the launcher started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join() -> PartialState:
    """Wait for the other processes; return the place of this process among them."""
    options: dict[str, Any] = {"timeout": _PATIENCE} if world_size() > 1 else {}
    return PartialState(cpu=not torch.cuda.is_available(), **options)


def from_main(found: _T | None) -> _T:
    """Return the value that the main process passes; the other processes wait for it."""
    box = [found]
    broadcast_object_list(box)
    assert box[0] is not None
    return box[0]
