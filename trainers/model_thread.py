"""A thread of the model's own, so that its passes wait neither for environments nor for each other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch


def own_thread(name: str) -> ThreadPoolExecutor:
    """Return an executor with one thread on the caller's CUDA device, since the current device belongs to a thread."""
    if not torch.cuda.is_available():
        return ThreadPoolExecutor(1, name)
    return ThreadPoolExecutor(1, name, torch.cuda.set_device, (torch.cuda.current_device(),))
