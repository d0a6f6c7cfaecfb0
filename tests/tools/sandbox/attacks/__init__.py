"""Programs that attack a sandbox, as data, and the means to judge whether it held."""

from __future__ import annotations

from importlib import import_module

from tests.tools.sandbox.attacks.attack import Attack

_TOPICS = ("files", "quotas", "spying", "processes", "memory", "output", "network", "kernel", "leftovers")
_TOPICS += ("forgery", "shares")

BY_TOPIC: dict[str, tuple[Attack, ...]] = {name: import_module(f"{__name__}.{name}").ATTACKS for name in _TOPICS}

ATTACKS: tuple[Attack, ...] = tuple(attack for attacks in BY_TOPIC.values() for attack in attacks)
