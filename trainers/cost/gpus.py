"""GPUs: memory, and the speeds that their makers state for dense bfloat16."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentgym.base.choices import named

GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU."""

    pattern: str
    """Found in the name that the driver reports."""
    memory: float
    """Usable bytes."""
    flops: float
    """Peak of dense bfloat16 operations per second."""
    bandwidth: float
    """Bytes of memory per second."""


GPUS = {
    "b200": Gpu("B200", 178 * GIB, 2.25e15, 8.0e12),
    "h200": Gpu("H200", 139 * GIB, 989e12, 4.8e12),
    "h100": Gpu("H100(?! (NVL|PCIe))", 79 * GIB, 989e12, 3.35e12),
    "h100-pcie": Gpu("H100 PCIe", 79 * GIB, 756e12, 2.0e12),
    "h100-nvl": Gpu("H100 NVL", 93 * GIB, 835e12, 3.9e12),
    "a100-80": Gpu("A100.*80", 79 * GIB, 312e12, 2.0e12),
    "a100-40": Gpu("A100(?!.*80)", 39 * GIB, 312e12, 1.55e12),
    "l40s": Gpu("L40S", 44 * GIB, 362e12, 0.864e12),
    "a10g": Gpu("A10G", 22 * GIB, 125e12, 0.6e12),
    "l4": Gpu("L4(?!0)", 22 * GIB, 121e12, 0.3e12),
}


def gpu_named(name: str) -> Gpu:
    """Return a kind of GPU by its name in `GPUS`. Raises `UsageError` if it is not known."""
    return named("GPU", name.lower(), GPUS)


def gpu_of(device: str) -> Gpu | None:
    """Return the kind of a GPU, given the name that its driver reports; `None` if it is not known."""
    return next((gpu for gpu in GPUS.values() if re.search(rf"\b{gpu.pattern}", device)), None)
