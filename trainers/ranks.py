"""Several processes in one run (`torchrun`, `accelerate launch --multi_gpu`): who writes, who waits, what all know."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

_T = TypeVar("_T")

_PATIENCE = timedelta(hours=12)
"""How long processes wait for the one that evaluates."""


def world_size() -> int:
    """Return the number of processes that the launcher has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def join() -> PartialState:
    """Return this process's place among all of them, after having met the others."""
    options: dict[str, Any] = {"timeout": _PATIENCE} if world_size() > 1 else {}
    return PartialState(cpu=not torch.cuda.is_available(), **options)


def from_main(found: _T | None) -> _T:
    """Return what the main process passes; the others wait for it."""
    box = [found]
    broadcast_object_list(box)
    assert box[0] is not None
    return box[0]
