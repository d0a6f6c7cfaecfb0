"""NeMo Gym: any environment as a resources server of its Gymnasium kind, for `gymnasium_agent`.

NeMo Gym starts a server from a file, which is `EnvServer.run_webserver()`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.engine.spaces import finished
from agentgym.core.messages import Message, text_of
from agentgym.core.registry import make
from agentgym.interop.episodes import ReplayedEpisode
from agentgym.interop.openings import episode_named, openings
from agentgym.interop.packages import require_package

require_package("nemo_gym")

from nemo_gym.base_resources_server import BaseResourcesServerConfig  # type: ignore[import-not-found]  # noqa: E402
from resources_servers.gymnasium import GymnasiumServer  # type: ignore[import-not-found]  # noqa: E402


class EnvServerConfig(BaseResourcesServerConfig):
    """The server's settings in its YAML file, in addition to those of NeMo Gym."""

    env: str
    """The environment, as for `agentgym.make`."""
    arguments: dict[str, Any] = {}
    attempts: int = 3
    """Attempts at each turn."""
    idle_s: float = 3600.0
    """Seconds without a step after which a session is closed, since NeMo Gym does not report that an agent gave up."""


@dataclass
class _Session:
    episode: ReplayedEpisode
    used: float = field(default_factory=time.monotonic)


class EnvServer(GymnasiumServer):
    """Serves episodes of one environment, each in a session of NeMo Gym.

    A failed environment is replaced and the episode replayed (`ReplayedEpisode`). If that fails too, the server answers
    with an error instead of a reward.
    """

    config: EnvServerConfig

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> tuple[str | None, dict[str, Any]]:
        """Begin the episode that the row names by `task_id` and `seed`. The row already contains its opening."""
        task_id, seed = episode_named(metadata, f"{__name__}.rows")
        await self._close_idle()
        await self.close_session(session_id)
        settings = {"dialect": "native", **self.config.arguments}
        session = _Session(ReplayedEpisode(partial(make, self.config.env, **settings), attempts=self.config.attempts))
        self.session_state[session_id or ""] = session
        episode = session.episode
        await episode.abegin(seed=seed, options={"task": task_id})
        return None, {"task": episode.info["task"], "difficulty": episode.info["difficulty"]}

    async def step(
        self, action: Any, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, float, bool, bool, dict[str, Any]]:
        """Play the model's response, calls and text, as a turn."""
        session: _Session | None = self.session_state.get(session_id or "")
        if session is None:
            raise UsageError("this session has no episode: reset it first")
        session.used = time.monotonic()
        episode = session.episode
        earned = len(episode.turn_rewards)
        observation = await episode.astep(finished(_message(action), _incomplete(action)))
        reward = sum(episode.turn_rewards[earned:])
        is_terminated = episode.is_over and not episode.is_truncated
        return _text(observation), reward, is_terminated, episode.is_truncated, _info(episode, observation)

    async def close_session(self, session_id: str | None) -> None:
        """Close the environment of a session."""
        session = self.session_state.pop(session_id or "", None)
        if session is not None:
            await session.episode.env.aclose()

    async def _close_idle(self) -> None:
        now = time.monotonic()
        for name, session in list(self.session_state.items()):
            if now - session.used > self.config.idle_s:
                await self.close_session(name)


def rows(env: str, agent: str, *, dialect: str = "native", **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a data set for NeMo Gym (JSON lines).

    Args:
        env: The environment, as for `agentgym.make`.
        agent: The name of the `gymnasium_agent` in NeMo Gym's configuration.
        dialect: The dialect of the server.
        options: Options of `openings`: the tasks, and the environment's other arguments, the same as for the server.
    """
    return [
        {
            "responses_create_params": {"input": opening.prompt, "tools": list(map(_tool, opening.tools))},
            "agent_ref": {"type": "responses_api_agents", "name": agent},
            **opening.named,
        }
        for opening in openings(env, dialect=dialect, **options)
    ]


def _tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's schema in the format of the Responses API."""
    return {"type": "function", **schema["function"], "strict": False}


def _message(response: Any) -> Message:
    """Return a model's response as one assistant message."""
    calls, texts = [], []
    for item in response.output:
        if item.type == "function_call":
            function = {"name": item.name, "arguments": item.arguments}
            calls.append({"type": "function", "id": item.call_id, "function": function})
        elif item.type == "message":
            content = item.content
            texts += [content] if isinstance(content, str) else [part.text for part in content if hasattr(part, "text")]
    message: Message = {"role": "assistant", "content": "".join(texts)}
    if calls:
        message["tool_calls"] = calls
    return message


def _incomplete(response: Any) -> Any:
    """Return why a response is incomplete, such as `max_output_tokens`; `None` if it is complete."""
    return getattr(getattr(response, "incomplete_details", None), "reason", None)


def _text(observation: list[Message]) -> str | None:
    """Return the text of all messages except the results of calls."""
    return "\n\n".join(text_of(message) for message in observation if message.get("role") != "tool") or None


def _info(episode: ReplayedEpisode, observation: list[Message]) -> dict[str, Any]:
    outputs = [
        {"call_id": message.get("tool_call_id", ""), "output": text_of(message)}
        for message in observation
        if message.get("role") == "tool"
    ]
    info = episode.info
    facts = {"rewards": info["rewards"], "ending": info.get("ending"), "is_success": info.get("is_success")}
    return {"tool_outputs": outputs, **facts}
