"""Lets FSDP 2 shard a model on CPUs; as a program, runs `agentgym` in this way.

Accelerate shards on accelerators only; on CPUs, it silently uses DDP.

    torchrun --nproc_per_node 2 -m benchmarks._shard_on_cpu train ...
"""

from __future__ import annotations

import os
from typing import Any

from accelerate.state import AcceleratorState, DistributedType, PartialState

SHARDED = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "FSDP_OFFLOAD_PARAMS": "false",
}
"""The variables that `accelerate launch` sets for `accelerate-fsdp.yaml`."""


def shard_on_cpus() -> None:
    """Make accelerate shard in this process while its variables ask for FSDP."""
    begin: Any = AcceleratorState.__init__

    def begun(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        begin(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None:
            PartialState._shared_state["distributed_type"] = self.distributed_type = DistributedType.FSDP
            self.fsdp_plugin = fsdp_plugin

    AcceleratorState.__init__ = begun


def choose(kind: str) -> None:
    """Let the next trainer of this process use `DDP` or `FSDP2`; needs `shard_on_cpus`."""
    for name in SHARDED:
        os.environ.pop(name, None)
    if kind == "FSDP2":
        os.environ.update(SHARDED)
    AcceleratorState._reset_state()
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_CPU


if __name__ == "__main__":
    from agentgym.cli.app import main

    shard_on_cpus()
    main()
