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

_TOPICS = (
    files,
    quotas,
    upkeep,
    spying,
    neighbours,
    processes,
    endings,
    memory,
    output,
    network,
    kernel,
    leftovers,
    forgery,
    idleness,
    shares,
)

BY_TOPIC: dict[str, tuple[Attack, ...]] = {topic.__name__.rpartition(".")[2]: topic.ATTACKS for topic in _TOPICS}

ATTACKS: tuple[Attack, ...] = tuple(attack for attacks in BY_TOPIC.values() for attack in attacks)
