"""The description of a Gymnasium environment for a model: its documentation and the names of its actions."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

MAX_CHARS = 4_000
_LEFT_OUT = re.compile(
    r"^#+ +(Arguments|References|Version History|Versions?|Vectori[sz]ed environment|Information|Credits)"
    r".*?(?=^#+ |\Z)",
    re.M | re.S | re.I,
)

_NAMES: dict[str, tuple[str, ...]] = {
    "Acrobot": ("-1", "0", "+1"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "MountainCar": ("left", "nothing", "right"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
}
"""The actions of Gymnasium's own environments, which name them only in their documentation."""


def described(env: gymnasium.Env[Any, Any]) -> str:
    """Return an environment's documentation, without the sections for programmers."""
    text = inspect.getdoc(type(env.unwrapped)) or ""
    text = re.sub(r"\n{3,}", "\n\n", _LEFT_OUT.sub("", text)).strip()
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS].rsplit("\n", 1)[0]


def action_names(env: gymnasium.Env[Any, Any]) -> Sequence[str] | None:
    """Return the names of a Discrete environment's actions, if it declares them or is one of Gymnasium's."""
    space, inner = env.action_space, env.unwrapped
    if not isinstance(space, spaces.Discrete):
        return None
    meanings = getattr(inner, "get_action_meanings", None)
    if callable(meanings):
        names: Any = meanings()
    elif inspect.isclass(kind := getattr(inner, "actions", None)) and issubclass(kind, enum.Enum):
        names = [member.name.lower() for member in kind]
    else:
        names = _NAMES.get(inner.spec.name if inner.spec is not None else "", ())
    return [str(name) for name in names] if len({*names}) == space.n else None
