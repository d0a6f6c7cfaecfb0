"""`load_environment`: an environment as a `MultiTurnEnv` of verifiers (0.3.1).

verifiers queries the model and stores the conversation. Each of the model's messages is a turn, with or without calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import finished
from agentgym.core.env import Env
from agentgym.core.making import closed_after, full_env_id, make_env
from agentgym.core.task import TEST, TRAIN, Task, default_split, iterate
from agentgym.interop.episodes import CalledEpisode, PooledEpisodes
from agentgym.interop.openings import sendable
from agentgym.interop.packages import require_package
from agentgym.rollout.jobs import EnvFactory

try:
    import verifiers.legacy as vf  # pyright: ignore[reportMissingImports]
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from verifiers.legacy.utils.message_utils import normalize_messages  # pyright: ignore[reportMissingImports]
except ImportError as error:
    require_package("verifiers")
    raise UsageError(
        "this verifiers has tasksets instead of environments; "
        "use agentgym.interop.trainers.verifiers_tasks or verifiers==0.3.1"
    ) from error

_EPISODE = "agentgym_episode"
_LIMITS = {
    "prompt_too_long": Reason.CONTEXT,
    "max_total_completion_tokens_reached": Reason.TOKEN_BUDGET,
    "max_turns_reached": Reason.MAX_TURNS,
    "timeout_reached": Reason.TIME,
}
"""The reason for an episode's ending by verifiers' stop condition."""


class EnvironmentFailed(vf.InfraError):
    """Something around the model failed; verifiers retries such a rollout up to `max_retries` times."""


class TaskFailed(vf.Error):
    """The task cannot be played; a retry would not help."""


def load_environment(
    env: str = "sql",
    *,
    split: str = TRAIN,
    eval_split: str | None = None,
    count: int = 100,
    eval_count: int | None = None,
    seed: int = 0,
    **arguments: Any,
) -> AgentGymEnv:
    """Return an environment for trainers and evaluations that accept environments of verifiers.

    The row of a task contains its seed, so every rollout of a row is the same episode: task `index` has `seed + index`.

    Args:
        env: Id of the environment (`"sql"`), or `"module:Class"`.
        split: The split for training.
        eval_split: The split for evaluation: by default `test`, or `validation` if there is no `test`.
        count: Maximum number of training tasks.
        eval_count: Maximum number of evaluation tasks; by default `count`.
        seed: Seed of the first task.
        arguments: Arguments of the environment. With `dialect="native"`, the default, models call tools through their
            endpoint; in any other dialect they write calls as text.

    Raises:
        UsageError: The environment, the split or an argument does not exist.
    """
    factory = EnvFactory(full_env_id(env), {"dialect": "native", **arguments})
    with closed_after(make_env(factory.env_id, factory.kwargs)) as instance:
        held_out = eval_split or default_split(instance.tasks, TEST)
        rows = list(_rows(instance, split, count, seed))
        eval_rows = list(_rows(instance, held_out, eval_count or count, seed))
        tools = instance.tools.schemas if instance.dialect.name == "native" else []
        return AgentGymEnv(factory, rows, eval_rows, tools, list(instance.channels))


class AgentGymEnv(vf.MultiTurnEnv):
    """Our environment as an environment of verifiers.

    `state` has `turn_rewards`, `ending`, `channels` (the sum of each over the turns) and `task_id`.

    Args:
        factory: Makes the environments.
        rows: Tasks for training (`prompt`, `info`).
        eval_rows: Tasks for evaluation.
        tools: Schemas of the tools; none if models write calls as text.
        channels: Names of the reward channels.
    """

    def __init__(
        self,
        factory: EnvFactory,
        rows: Sequence[Mapping[str, Any]],
        eval_rows: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        channels: Sequence[str],
    ):
        self._episodes = PooledEpisodes(factory)
        super().__init__(
            dataset=Dataset.from_list([dict(row) for row in rows]),
            eval_dataset=Dataset.from_list([dict(row) for row in eval_rows]),
            tool_defs=_tool_defs(tools),
            env_id=factory.env_id,
            max_turns=-1,  # the episode has its own limit
        )
        self._has_tools = bool(tools)
        self.rubric = EpisodeRubric(channels)

    async def setup_state(self, state: vf.State) -> vf.State:
        """Begin the row's episode; its opening messages become the prompt."""
        info = state["info"]
        state.update(task_id=info["task_id"], ending=None, turn_rewards=[], channels={})
        with _as_theirs():
            episode = await self._episodes.take()
            state[_EPISODE] = episode
            opening = await episode.abegin(seed=info["seed"], options={"task": info["task_id"]})
        state["prompt"] = normalize_messages(sendable(opening))
        if self._has_tools:
            state["tool_defs"] = self._normalize_tool_defs(_tool_defs(episode.info["tools"]))
        return state

    async def env_response(self, messages: vf.Messages, state: vf.State, **kwargs: Any) -> vf.Messages:
        """Play the model's message as a turn and return the observation."""
        episode: CalledEpisode = state[_EPISODE]
        with _as_theirs():
            action = _action(messages[-1], is_text=not self._has_tools)
            reason = "length" if state["trajectory"][-1].get("is_truncated") else None
            observation = await episode.astep(finished(action, reason))
        reply = normalize_messages(sendable(observation))
        state["trajectory"][-1]["reward"] = episode.turn_rewards[-1]
        _note_turn(state, episode)
        if episode.is_over:
            state["final_env_response"] = reply
        return reply

    @vf.cleanup(priority=50)
    async def end_episode(self, state: vf.State) -> None:
        """Grade an episode that verifiers stopped, and return its environment to the pool."""
        episode: CalledEpisode | None = state.pop(_EPISODE, None)
        if episode is None:
            return
        try:
            if not episode.is_over and state.get("error") is None:
                await episode.aend(_LIMITS.get(state.get("stop_condition") or "", Reason.GAVE_UP))
                _note_turn(state, episode)
        except AgentGymError as error:
            state["error"] = _theirs(error)  # grading failed, so there is no reward
        finally:
            await self._episodes.give_back(episode)

    @vf.teardown
    async def close_environments(self) -> None:
        """Close the environments that are not playing."""
        await self._episodes.close()


class EpisodeRubric(vf.Rubric):
    """The reward of the episode; the metrics are the sums of its channels, its turns and whether it was truncated.

    An episode that failed around the model has the reward NaN, not 0, and no metrics. It does not affect the advantages
    of its group.

    Args:
        channels: Names of the reward channels.
    """

    def __init__(self, channels: Sequence[str]):
        super().__init__(funcs=[_reward], weights=[1.0])
        self._channels = channels

    async def score_rollout(self, state: vf.State) -> None:
        """Set the reward and the metrics of a rollout."""
        failed = state.get("error") is not None
        state["reward"] = math.nan if failed else _reward(state)
        state["metrics"] = {} if failed else self._metrics(state)

    async def score_group(self, states: list[vf.State]) -> None:
        """Set rewards, metrics and advantages of rollouts of one task."""
        for state in states:
            await self.score_rollout(state)
        real = [state["reward"] for state in states if not math.isnan(state["reward"])]
        mean = sum(real) / len(real) if real else 0.0
        for state in states:
            state["advantage"] = 0.0 if math.isnan(state["reward"]) else state["reward"] - mean
            for step in state["trajectory"]:
                step["advantage"] = state["advantage"]

    def _metrics(self, state: vf.State) -> dict[str, float]:
        sums = {name: state["channels"].get(name, 0.0) for name in self._channels}
        return {**sums, "num_turns": float(len(state["trajectory"])), "truncated": float(state["is_truncated"])}


def _reward(state: vf.State) -> float:
    return sum(state["turn_rewards"])


def _rows(env: Env, split: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    for index, task in enumerate(iterate(env.tasks, split, count)):
        yield _row(task, seed + index)


def _row(task: Task, seed: int) -> dict[str, Any]:
    # A placeholder: `setup_state` replaces it with the episode's opening.
    prompt = [{"role": "user", "content": task.prompt}]
    return {"prompt": prompt, "info": {"task_id": task.id, "split": task.split, "seed": seed}}


def _tool_defs(schemas: Sequence[Mapping[str, Any]]) -> list[vf.Tool]:
    return [vf.Tool(**{key: schema["function"][key] for key in ("name", "description", "parameters")})
            for schema in schemas]  # fmt: skip


def _action(message: Any, *, is_text: bool) -> Any:
    """Return the model's message as an action of ours."""
    content = message.content
    text = content if isinstance(content, str) else "".join(part.get("text") or "" for part in content or ())
    if is_text:
        return text
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls or ()
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def _note_turn(state: vf.State, episode: CalledEpisode) -> None:
    state["turn_rewards"] = list(episode.turn_rewards)
    state["channels"] = episode.channels
    state["ending"] = episode.ending
    state["is_truncated"] = episode.is_truncated


@contextmanager
def _as_theirs() -> Iterator[None]:
    """Turn our errors into errors of verifiers."""
    try:
        yield
    except AgentGymError as error:
        raise _theirs(error) from error


def _theirs(error: AgentGymError) -> vf.Error:
    kind = EnvironmentFailed if isinstance(error, InfrastructureError) else TaskFailed
    return kind(str(error))
