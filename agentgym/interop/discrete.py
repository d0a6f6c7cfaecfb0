"""`DiscreteCalls`: an environment with a numbered list of calls as actions and numbers as observations.

So that trainers that know nothing of language, such as Stable-Baselines3, train on it. Pure Gymnasium.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from agentgym.env import Env
from agentgym.errors import UsageError
from agentgym.interop.replayed import ReplayedEpisode
from agentgym.messages import Message, ToolCall, assistant

Observe = Callable[[Sequence[Message]], Any]
"""Maps the messages of the episode so far, the calls included, to a value in the observation space."""


class DiscreteCalls(gymnasium.Env[Any, Any]):
    """Plays a list of calls by their numbers.

    Rewards, `terminated`, `truncated`, seeds and `options` are the environment's; so is `info`. An environment that
    breaks is replaced (`ReplayedEpisode`); if that fails too, the `InfrastructureError` ends the training, for
    Gymnasium knows no episode without a reward.

    Args:
        make: Makes the environment.
        calls: What the actions 0, 1, 2, ... call.
        observe: What the policy sees, given all messages of the episode.
        observation_space: Where `observe` maps to.
        attempts: How often each turn is tried.
    """

    def __init__(
        self,
        make: Callable[[], Env],
        calls: Sequence[ToolCall],
        observe: Observe,
        observation_space: spaces.Space[Any],
        *,
        attempts: int = 3,
    ):
        if not calls:
            raise UsageError("give at least one call as an action")
        self._episode = ReplayedEpisode(make, attempts=attempts)
        for call in calls:
            self._episode.env.tools.get(call.name)
        self._calls, self._observe = tuple(calls), observe
        self.action_space = spaces.Discrete(len(self._calls))
        self.observation_space = observation_space
        self._messages: list[Message] = []

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. Without a seed, this environment's own generator draws one."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        self._messages = list(self._episode.begin(seed=drawn, options=options))
        return self._observe(self._messages), self._episode.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play the call with this number."""
        call = self._calls[int(np.asarray(action).item())]
        turn = assistant("", [call])
        self._messages += [turn, *self._episode.step(turn)]
        episode = self._episode
        is_terminated = episode.is_over and not episode.is_truncated
        seen = self._observe(self._messages)
        return seen, episode.turn_rewards[-1], is_terminated, episode.is_truncated, episode.info

    def close(self) -> None:
        """Close the environment. Safe to call twice."""
        self._episode.close()
