"""Players that do no useful work and fit any environment: some stall, others submit junk.

They know the tools and one legal call, the first of the solution. Other modules compare their pay with that of an
honest attempt (`honest`). Depends on no check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from agentgym.check.play import CheckedEpisode, assistant_call, helpless_player, idle_player, short
from agentgym.core.engine.spaces import Action, ActionSpace
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, calls_of, text_of
from agentgym.core.policy import ScriptedPlayer
from agentgym.core.task import Task
from agentgym.core.toolset import Tool

KINDS = ("empty", "zero", "word", "prompt", "pasted")
"""Kinds of junk: nothing, zeros, a word, the task's prompt, or the last observation."""

PLAYERS = {"idle": "idle", "helpless": "helpless", "one call, repeated": "stubborn"}
"""Adversaries that play as one of the players does whose episodes are recorded: its name by the adversary's."""

_WORD = "something"


def adversaries(env: Env, task: Task, first: Action, endings: Sequence[str]) -> dict[str, ScriptedPlayer]:
    """Return the adversaries of a task by name.

    Args:
        env: Provides the tools.
        task: Selects the kind of junk where playing every kind would take too long.
        first: A legal action: the first one of the solution.
        endings: Names of the tools that end an episode; empty for an environment without tools.
    """
    players: dict[str, ScriptedPlayer] = {
        "idle": idle_player,
        "helpless": helpless_player,
        "one call, repeated": _repeating(first),
        "stalling": _stalling(first, endings),
    }
    kind_of_task = KINDS[Random(task.id).randrange(len(KINDS) - 1)]
    for name in endings or ("",):
        label = f"{name}: " if len(endings) > 1 else ""
        for kind in KINDS[:-1]:
            players[f"junk at once ({label}{kind})"] = _junk(name, kind, None)
        for kind in (kind_of_task, "pasted"):
            players[f"one call, then junk ({label}{kind})"] = _junk(name, kind, first)
    return players


def ending_tools(env: Env, episodes: Iterable[CheckedEpisode]) -> tuple[str, ...]:
    """Return the names of the tools whose calls ended any of the episodes, in toolset order."""
    last = [episode.actions[-1] for episode in episodes if episode.results and episode.results[-1].terminated]
    names = {call.name for action in last for call in calls_in(env, action)}
    return tuple(name for name in env.tools.names if name in names)


def calls_in(env: Env, action: Action) -> Sequence[ToolCall]:
    """Return the calls in an action, given as text or as a message."""
    return env.dialect.parse(action, env.tools).calls if isinstance(action, str) else calls_of(action)


def action_text(env: Env, action: Action) -> str:
    """Format an action for a message: its calls, or its text if it has none."""
    calls = calls_in(env, action)
    if not calls:
        return short(text_of(action) if not isinstance(action, str) else action)
    return ", ".join(f"{call.name}({_arguments_text(call)})" for call in calls)


def _arguments_text(call: ToolCall) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return text if len(text) <= 60 else f"{text[:59]}…"


def junk_arguments(tool: Tool, kind: str, prompt: str, last_observation: str) -> dict[str, Any]:
    """Return arguments that have the right types but no useful content."""
    text = {"empty": "", "zero": "0", "word": _WORD, "prompt": prompt, "pasted": last_observation}[kind]
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    needed = tool.parameters.get("required", ())
    return {name: _junk_value(properties[name], kind, text) for name in properties if name in needed}


def _junk_value(schema: Mapping[str, Any], kind: str, text: str) -> Any:
    if "enum" in schema:
        return schema["enum"][0 if kind == "empty" else -1]
    if "anyOf" in schema:
        return _junk_value(schema["anyOf"][0], kind, text)
    nothing = kind in ("empty", "zero")
    match schema.get("type"):
        case "integer":
            return 0 if nothing else 1
        case "number":
            return 0.0 if nothing else 1.0
        case "boolean":
            return not nothing
        case "array":
            return [] if kind == "empty" else [_junk_value(schema.get("items", {}), kind, text)]
        case "object":
            return {}
        case _:
            return text


def _repeating(action: Action) -> ScriptedPlayer:
    def player(env: Env, task: Task) -> Iterable[Action]:
        while True:
            yield action

    return player


def _stalling(first: Action, endings: Sequence[str]) -> ScriptedPlayer:
    """Alternate between a legal call and sampled calls of all tools that do not end the episode."""

    def player(env: Env, task: Task) -> Iterable[Action]:
        tools = [tool for tool in env.tools if tool.name not in endings]
        legal = not any(call.name in endings for call in calls_in(env, first))
        samples = ActionSpace(env.tools, env.dialect, seed=int(task.hash[:8], 16))
        while True:
            if legal or not tools:
                yield first if legal else ""
            for tool in tools:
                yield assistant_call(ToolCall(tool.name, samples.sample_arguments(tool)))

    return player


def _junk(tool: str, kind: str, first: Action | None) -> ScriptedPlayer:
    """Submit junk until the episode ends, after one legal action if `first` is given."""

    def player(env: Env, task: Task) -> Iterable[Action]:
        observation = [] if first is None else (yield first)
        last_observation = text_of(observation[-1]) if observation else task.prompt
        if tool:
            action = assistant_call(
                ToolCall(tool, junk_arguments(env.tools.get(tool), kind, task.prompt, last_observation))
            )
        else:
            action = {"empty": "", "zero": "0", "word": _WORD, "prompt": task.prompt, "pasted": last_observation}[kind]
        while True:
            yield action

    return player
