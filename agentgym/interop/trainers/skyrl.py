"""SkyRL-Gym: any environment as a `BaseTextEnv`, for SkyRL's generator. See `docs/interop/skyrl.md` for an example."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.messages import Message, pictures_in, text_of
from agentgym.core.registry import make
from agentgym.interop.episodes import ReplayedEpisode
from agentgym.interop.openings import episode_named, openings
from agentgym.interop.packages import require_package

require_package("skyrl_gym")

import skyrl_gym  # type: ignore[import-not-found]  # noqa: E402
from skyrl_gym.envs.base_text_env import BaseTextEnv  # type: ignore[import-not-found]  # noqa: E402

DIALECT = "hermes"
"""The default dialect of calls. SkyRL does not pass tools to the model, so the prompt describes them."""


class SkyRLEnv(BaseTextEnv):
    """One episode for SkyRL: `init`, then `step` with the model's text until `done`, then `close`.

    A failed environment is replaced and the episode replayed (`ReplayedEpisode`). If that fails too, the
    `InfrastructureError` is raised, since SkyRL has no reward that excludes an episode.

    Args:
        env_config: SkyRL's settings of the environment; not used.
        extras: The other columns of the row: `task_id` and `seed`, and SkyRL's `max_turns`.
        env: The environment, as for `agentgym.make`.
        arguments: The environment's arguments.
        attempts: Attempts at each turn.
        role: The role of observations; `"tool"` for chat templates that support it.
    """

    def __init__(
        self,
        env_config: Any = None,
        extras: Mapping[str, Any] | None = None,
        *,
        env: str,
        arguments: Mapping[str, Any] | None = None,
        attempts: int = 3,
        role: str = "user",
    ):
        super().__init__()
        self._row, self._role = dict(extras or {}), role
        env_arguments = {"dialect": DIALECT, **(arguments or {})}
        if "max_turns" in self._row:
            env_arguments.setdefault("max_turns", int(self._row["max_turns"]))
        self._episode = ReplayedEpisode(lambda: make(env, **env_arguments), attempts=attempts)
        self.max_turns = self._episode.env.max_turns
        self._closing = weakref.finalize(self, self._episode.close)

    def init(self, prompt: list[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Begin the row's episode and return its opening messages, which replace the equal `prompt`."""
        task_id, seed = episode_named(self._row, f"{__name__}.rows")
        self.turns = 0
        with self._closed_if_broken():
            opening = self._episode.begin(seed=seed, options={"task": task_id})
        info = {"task": self._episode.info["task"], "difficulty": self._episode.info["difficulty"]}
        return [{"role": message.get("role"), "content": _text(message)} for message in opening], info

    def step(self, action: str) -> Any:
        """Play a turn with the model's text and return the turn's reward."""
        self.turns += 1
        earned = len(self._episode.turn_rewards)
        with self._closed_if_broken():
            observation = self._episode.step(action)
        info = self._episode.info
        return {
            "observations": [{"role": self._role, "content": _text(message)} for message in observation],
            "reward": sum(self._episode.turn_rewards[earned:]),
            "done": self._episode.is_over,
            "metadata": {"rewards": info["rewards"], "ending": info.get("ending")},
        }

    def get_metrics(self) -> dict[str, Any]:
        """Return metrics of the episode, which SkyRL averages: turns, reward, whether it ended and was solved."""
        info, earned = self._episode.info, {} if self._episode.has_failed else {"reward": self._episode.reward}
        return {
            "turns": self.turns,
            **earned,
            "is_over": float(self._episode.is_over),
            "is_success": float(bool(info.get("is_success"))),
        }

    @contextmanager
    def _closed_if_broken(self) -> Iterator[None]:
        """Close the environment after an error, since SkyRL does not."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the environment. Safe to call twice."""
        self._closing()


def register(env_id: str, env: str, *, attempts: int = 3, role: str = "user", **arguments: Any) -> None:
    """Register an environment with SkyRL-Gym. Call it in the process that runs SkyRL's generator.

    Args:
        env_id: The name for the rows' `env_class`.
        env: The environment, as for `agentgym.make`.
        attempts: Attempts at each turn.
        role: The role of observations; `"tool"` for chat templates that support it.
        arguments: The environment's arguments.
    """
    settings = {"env": env, "arguments": arguments, "attempts": attempts, "role": role}
    skyrl_gym.register(id=env_id, entry_point=f"{__name__}:SkyRLEnv", kwargs=settings)


def rows(env_id: str, env: str, *, dialect: str = DIALECT, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a data set for SkyRL (one dict each, as Parquet or JSON lines).

    Args:
        env_id: The registered name of the environment.
        env: The environment, as for `agentgym.make`.
        dialect: The registered dialect.
        options: Options of `openings`: the tasks, and the environment's other arguments, the same as registered.
    """
    return [
        {
            "prompt": opening.prompt,
            "env_class": env_id,
            # The environment grades, so SkyRL's own rules are not used.
            "reward_spec": {"method": "rule", "ground_truth": ""},
            "data_source": f"{env}/{opening.task.split}",
            **opening.named,
        }
        for opening in openings(env, dialect=dialect, **options)
    ]


def _text(message: Message) -> str:
    """Return a message's text. Raises `UsageError` if it has pictures."""
    if pictures_in(message):
        raise UsageError("SkyRL-Gym's BaseTextEnv supports only text, but the environment shows pictures")
    return text_of(message)
