"""Programs that attack a sandbox, and what it takes to judge whether it held. Data; the tests are elsewhere."""

from __future__ import annotations

from tests.tools.sandbox.attacks import (
    endings,
    files,
    forgery,
    idleness,
    kernel,
    leftovers,
    memory,
    neighbours,
    network,
    output,
    processes,
    quotas,
    shares,
    spying,
    upkeep,
)
from tests.tools.sandbox.attacks.attack import Attack

ATTACKS: tuple[Attack, ...] = (
    *files.ATTACKS,
    *quotas.ATTACKS,
    *upkeep.ATTACKS,
    *spying.ATTACKS,
    *neighbours.ATTACKS,
    *processes.ATTACKS,
    *endings.ATTACKS,
    *memory.ATTACKS,
    *output.ATTACKS,
    *network.ATTACKS,
    *kernel.ATTACKS,
    *leftovers.ATTACKS,
    *forgery.ATTACKS,
    *idleness.ATTACKS,
    *shares.ATTACKS,
)
