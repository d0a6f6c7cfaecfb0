"""`openenv_app`: an environment on OpenEnv's server (0.10), for every client of OpenEnv.

An action is a call of one tool, in OpenEnv's own type, and is one turn. Each session of the server has its own
environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import getdoc
from typing import Any

from gymnasium.error import ResetNeeded
from pydantic import Field

from agentgym.base.errors import AgentGymError, InfrastructureError, TaskError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action as Move
from agentgym.core.engine.spaces import finished
from agentgym.core.env import Env
from agentgym.core.making import closed_after, full_env_id, make_env
from agentgym.core.messages import Message, ToolCall, assistant, pictures_in, text_of
from agentgym.interop.episodes import CalledEpisode
from agentgym.interop.packages import require_package
from agentgym.rollout.jobs import EnvFactory

try:
    from fastapi import FastAPI
    from openenv.core.env_server.http_server import create_app  # pyright: ignore[reportMissingImports]
    from openenv.core.env_server.interfaces import Environment  # pyright: ignore[reportMissingImports]
    from openenv.core.env_server.mcp_types import (  # pyright: ignore[reportMissingImports]
        CallToolAction,
        CallToolObservation,
        ListToolsAction,
        ListToolsObservation,
        Tool,
    )
    from openenv.core.env_server.types import (  # pyright: ignore[reportMissingImports]
        EnvironmentMetadata,
        Observation,
        State,
    )
except ImportError:
    require_package("openenv")
    raise

ENDLESS = 2**31
"""The reported number of tasks of an endless split, among which seeds choose."""
PREVIEW = 100
"""Number of tasks that `list_tasks` returns."""
SESSIONS = 64
"""Default maximum number of sessions."""


class OpeningObservation(Observation):
    """The opening of an episode."""

    messages: list[dict[str, Any]] = Field(default_factory=list, description="The chat messages to begin with")


class TurnResult(CallToolObservation):
    """The result of a turn: the turn's `reward`, and `metadata` with `ending`, `truncated` and `channels`."""

    messages: list[dict[str, Any]] = Field(default_factory=list, description="The chat messages after the turn")


class EpisodeState(State):
    """The state of an episode."""

    task_id: str | None = Field(default=None, description="The task")
    split: str | None = Field(default=None, description="Its split")
    ending: str | None = Field(default=None, description="Why the episode has ended, if it has")
    truncated: bool = Field(default=False, description="Whether a limit ended it")
    turn_rewards: list[float] = Field(default_factory=list, description="The reward of each turn")


def openenv_app(env: str, *, sessions: int = SESSIONS, **arguments: Any) -> FastAPI:
    """Return OpenEnv's application that serves an environment.

    Args:
        env: Id of the environment (`"sql"`), or `"module:Class"`.
        sessions: Maximum number of sessions; the environment's own limit also applies.
        arguments: Arguments of the environment.

    Raises:
        UsageError: The environment does not exist, or has no such argument.
    """
    factory = EnvFactory(full_env_id(env), {"dialect": "native", **arguments})
    with closed_after(make_env(factory.env_id, factory.kwargs)) as instance:
        max_sessions = sessions if instance.max_concurrent is None else min(sessions, instance.max_concurrent)
    return create_app(
        partial(OpenEnvEnvironment, factory),
        CallToolAction,
        TurnResult,
        env_name=env,
        max_concurrent_envs=max_sessions,
        state_cls=EpisodeState,
        reset_observation_cls=OpeningObservation,
    )


def call(name: str, text: str = "", /, **arguments: Any) -> CallToolAction:
    """Return the action that calls a tool.

    Args:
        name: Name of the tool.
        text: The model's text next to the call.
        arguments: Arguments of the tool.
    """
    return CallToolAction(tool_name=name, arguments=arguments, metadata={"text": text} if text else {})


def say(text: str) -> CallToolAction:
    """Return the action for a text of the model without a call."""
    return CallToolAction(tool_name="", metadata={"text": text})


def stop(reason: str = Reason.GAVE_UP) -> CallToolAction:
    """Return the action that ends and grades the episode, for a model that stopped or reached a limit."""
    return CallToolAction(tool_name="", metadata={"stop": str(reason)})


class OpenEnvEnvironment(Environment[Any, Any, EpisodeState]):
    """An environment for OpenEnv's server.

    A failure around the model is raised, so that the client gets no observation but an error that begins with
    `InfrastructureError`.

    Args:
        factory: Makes the environment.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, factory: EnvFactory):
        super().__init__()
        self._name = factory.env_id
        self._episode = CalledEpisode(make_env(factory.env_id, factory.kwargs))
        self._episode_id: str | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        task: str | None = None,
        **unknown: Any,
    ) -> OpeningObservation:
        """Begin an episode. The same seed and task give the same episode.

        Args:
            seed: Seeds the episode, and selects the task if nothing else does.
            episode_id: The client's name for the episode.
            split: The split of the task.
            index: The index of the task in its split.
            task: The id of the task.
            unknown: Refused.
        """
        with _named_errors():
            if unknown:
                raise UsageError(f"reset takes seed, episode_id, split, index and task, not {sorted(unknown)[0]!r}")
            selection = {"split": split, "index": index, "task": task}
            options = {name: value for name, value in selection.items() if value is not None}
            opening = self._episode.begin(seed=seed, options=options)
        self._episode_id = episode_id
        about = {name: self._episode.info[name] for name in ("task", "split", "difficulty")}
        return OpeningObservation(messages=_data(opening), metadata=about)

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Play a turn, or list the tools.

        Raises:
            RuntimeError: Something around the model failed, or no episode runs. The message names our error class.
        """
        if isinstance(action, ListToolsAction):
            return ListToolsObservation(tools=self._tools())
        episode = self._episode
        was_over = episode.is_over
        with _named_errors():
            if (reason := action.metadata.get("stop")) is not None and not was_over:
                episode.end(_reason(reason))
                messages = []
            else:
                messages = episode.step(_move(action))
        return self._turn_result(action.tool_name, messages, was_over)

    def _turn_result(self, tool: str, messages: list[Message], was_over: bool) -> TurnResult:
        episode = self._episode
        channels = {} if was_over else episode.info["rewards"]
        about = {"ending": episode.ending, "truncated": episode.is_truncated, "channels": channels}
        return TurnResult(
            tool_name=tool,
            result=_content(messages),
            messages=_data(messages),
            reward=0.0 if was_over else episode.turn_rewards[-1],
            done=episode.is_over,
            metadata=about,
        )

    @property
    def state(self) -> EpisodeState:
        """The state of the episode."""
        episode = self._episode
        has_begun = bool(episode.opening)
        return EpisodeState(
            episode_id=self._episode_id,
            step_count=len(episode.turn_rewards),
            task_id=episode.env.task.id if has_begun else None,
            split=episode.env.task.split if has_begun else None,
            ending=episode.ending,
            truncated=episode.is_truncated,
            turn_rewards=episode.turn_rewards,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """Describe the environment."""
        name, _, number = self._name.rpartition("-v")
        version = number if name else None
        return EnvironmentMetadata(name=self._name, description=getdoc(type(self._env)) or "", version=version)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    @property
    def _env(self) -> Env:
        return self._episode.env

    def _tools(self) -> list[Tool]:
        schemas = self._episode.info.get("tools") or self._env.tools.schemas
        return [_tool(schema["function"]) for schema in schemas]

    # OpenEnv's optional interface for tasks. It exposes only what a policy may know: no gold and no prompt.

    def list_splits(self) -> list[str]:
        """Return the names of the splits."""
        return list(self._env.tasks.splits)

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks in a split; `ENDLESS` if it is endless."""
        size = self._env.tasks.size(split)
        return ENDLESS if size is None else size

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        """Return the first tasks of a split."""
        return self.get_task_range(split, 0, PREVIEW)

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return a task. Raises `IndexError` if it does not exist."""
        try:
            task = self._env.tasks.get(split, index)
        except TaskError as error:
            raise IndexError(str(error)) from error
        return {"id": task.id, "index": index, "difficulty": task.difficulty, "tags": list(task.tags)}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """Return the tasks from `start` up to `stop`."""
        first, last, _ = slice(start, stop).indices(self.num_tasks(split))
        return [self.get_task(split, index) for index in range(first, last)]


def _move(action: CallToolAction) -> Move:
    """Return an action as ours: a call with its text, or only text, and why the model stopped if the client says so."""
    text = str(action.metadata.get("text", ""))
    move = assistant(text, [ToolCall(action.tool_name, action.arguments)] if action.tool_name else [])
    return finished(move, action.metadata.get("finish_reason"))


_STOPS = {
    reason.value: reason
    for reason in (Reason.GAVE_UP, Reason.TOKEN_BUDGET, Reason.CONTEXT, Reason.TIME, Reason.GENERATION_TIME)
}


def _reason(name: str) -> Reason:
    if name not in _STOPS:
        raise UsageError(f"an episode is stopped for one of: {', '.join(_STOPS)}; not {name!r}")
    return _STOPS[name]


@contextmanager
def _named_errors() -> Iterator[None]:
    """Prefix the messages of our errors with their class, since OpenEnv sends only the message."""
    try:
        yield
    except (AgentGymError, ResetNeeded) as error:
        raise RuntimeError(f"{_kind(error)}: {error}") from error


def _kind(error: Exception) -> str:
    """Return the name of the base class that clients handle, or of the error's own class."""
    kinds = (InfrastructureError, UsageError, TaskError)
    return next((kind.__name__ for kind in kinds if isinstance(error, kind)), type(error).__name__)


def _content(messages: Sequence[Message]) -> str | list[dict[str, Any]]:
    """Return messages as text, or as content blocks if there are pictures."""
    if not any(map(pictures_in, messages)):
        return "\n\n".join(map(text_of, messages))
    return [block for message in messages for block in _blocks(message)]


def _blocks(message: Message) -> list[dict[str, Any]]:
    content = message.get("content") or ""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _data(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [dict(message) for message in messages]


def _tool(function: Mapping[str, Any]) -> Tool:
    return Tool(name=function["name"], description=function["description"], input_schema=function["parameters"])
