"""Policies that can play but often take a wrong step. Like a model, they see only messages."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from agentgym.core.engine.spaces import Action
from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.policy import Past, Player, Seat

NAMES = re.compile(r"In town: (.*?)\. Take the parcel of (\w+)")


class Move(Protocol):
    """Chooses the next call.

    Args:
        observations: The text of each observation, the opening first.
        actions: The calls so far.
        dice: Decides whether this step is wrong, and how.
        noise: Probability of a wrong step.
    """

    def __call__(
        self, observations: Sequence[str], actions: Sequence[str], dice: random.Random, noise: float
    ) -> ToolCall: ...


def guess(observations: Sequence[str], actions: Sequence[str], dice: random.Random, noise: float) -> ToolCall:
    """Halve the range of numbers; a wrong step is a random number in the range."""
    match = re.search(r"from 1 to (\d+)", observations[0])
    assert match is not None
    low, high = 1, int(match[1])
    for text, call in zip(observations[1:], actions, strict=True):
        number = int(re.findall(r"-?\d+", call)[-1])
        low, high = (number + 1, high) if "higher" in text else (low, number - 1) if "lower" in text else (low, high)
    return ToolCall("guess", {"number": dice.randint(low, high) if dice.random() < noise else (low + high) // 2})


def errand(observations: Sequence[str], actions: Sequence[str], dice: random.Random, noise: float) -> ToolCall:
    """Fetch the parcel and deliver it; a wrong step is someone else's parcel or house."""
    names = NAMES.search(observations[0])
    assert names is not None
    if address := re.search(r"It goes to (\w+) House", observations[-1]):
        wrong = dice.choice(("Hill", "Mill", "Lake", "Park", "Rose", "Ford"))
        return ToolCall("deliver", {"house": wrong if dice.random() < noise else address[1]})
    wrong = dice.choice(names[1].split(", "))
    return ToolCall("fetch", {"name": wrong if dice.random() < noise else names[2]})


MOVES: Mapping[str, Move] = {"guess": guess, "errand": errand}


class NoisyPolicy:
    """Plays an environment with wrong steps.

    Args:
        env: `guess` or `errand`.
        noise: Probability of a wrong step in each turn.
    """

    def __init__(self, env: str, noise: float):
        self.env, self.noise = env, noise
        self.name = f"noisy {env} {noise:g}"

    def player(self, seat: Seat) -> Player:
        """Return a player."""
        return _Noisy(self, seat, ())

    def resume(self, seat: Seat, past: Past) -> Player:
        """Return a player that continues from the middle of an episode."""
        return _Noisy(self, seat, past)


class _Noisy:
    def __init__(self, policy: NoisyPolicy, seat: Seat, past: Past):
        self._policy, self._seat, self._dice = policy, seat, random.Random(seat.seed)
        self._observations = [_text(observation) for observation, _ in past]
        self._actions = [str(action) for _, action in past]

    async def act(self, observation: list[Message]) -> Action:
        self._observations.append(_text(observation))
        call = MOVES[self._policy.env](self._observations, self._actions, self._dice, self._policy.noise)
        action = self._seat.dialect.render("", [call], self._seat.tools)
        self._actions.append(str(action))
        return action


def _text(observation: Sequence[Message]) -> str:
    return text_of(observation[-1])
