"""`DiscreteCalls`: an environment with a numbered list of calls as actions and numbers as observations.

It lets trainers without language models, such as Stable-Baselines3, train on an environment. Needs only Gymnasium.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from agentgym.base.errors import UsageError
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, assistant
from agentgym.interop.episodes import ReplayedEpisode

Observe = Callable[[Sequence[Message]], Any]
"""Maps the messages of the episode so far, including calls, to a value in the observation space."""


class DiscreteCalls(gymnasium.Env[Any, Any]):
    """Plays calls by their numbers.

    Rewards, `terminated`, `truncated`, `info`, seeds and `options` are the environment's. A failed environment is
    replaced (`ReplayedEpisode`). If that fails too, the `InfrastructureError` ends the training, since Gymnasium has no
    episodes without a reward.

    Args:
        make: Makes the environment.
        calls: The calls of the actions 0, 1, 2, ...
        observe: Maps all messages of the episode to the observation.
        observation_space: The space of `observe`'s values.
        attempts: Attempts at each turn.
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
            raise UsageError("calls must contain at least one call")
        self._episode = ReplayedEpisode(make, attempts=attempts)
        for call in calls:
            self._episode.env.tools.get(call.name)
        self._calls, self._observe = tuple(calls), observe
        self.action_space = spaces.Discrete(len(self._calls))
        self.observation_space = observation_space
        self._messages: list[Message] = []

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. Without a seed, this environment's generator chooses one."""
        super().reset(seed=seed)
        episode_seed = int(self.np_random.integers(2**31)) if seed is None else seed
        self._messages = list(self._episode.begin(seed=episode_seed, options=options))
        return self._observe(self._messages), self._episode.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play the call with this number."""
        call = self._calls[int(np.asarray(action).item())]
        turn = assistant("", [call])
        self._messages += [turn, *self._episode.step(turn)]
        episode = self._episode
        is_terminated = episode.is_over and not episode.is_truncated
        view = self._observe(self._messages)
        return view, episode.turn_rewards[-1], is_terminated, episode.is_truncated, episode.info

    def close(self) -> None:
        """Close the environment. Safe to call twice."""
        self._episode.close()
