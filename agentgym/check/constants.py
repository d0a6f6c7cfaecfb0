"""The best constant: one action, the same in every task, that solves most tasks. Depends on no check.

A policy that has learned nothing but this action scores as much, so it is the baseline of every other score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product, zip_longest
from typing import Any

from agentgym.check.adversaries import action_text, calls_in, ending_tools
from agentgym.check.honest import is_solved
from agentgym.check.outcomes import Patience
from agentgym.check.play import Broken, CheckedEpisode, assistant_call, canonical, play, then_silence
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import solution_player
from agentgym.core.task import Task
from agentgym.core.toolset import Tool

TASKS = 100
"""Number of tasks to measure a constant on."""

_COMMON = 4
"""Number of the commonest endings, values of an argument, and pieces of gold to try."""

_MOST_CHOICES = 12
"""A tool is tried with all arguments that its schema lists if they are at most this many."""

_TRIAL_TASKS = 12
"""Number of tasks that every constant is tried on ..."""

_WORTH_MORE = 3
"""... before this many of the best are measured on all tasks."""

_MOST_CHARS = 400
"""Longer actions are not tried: a policy would not learn them by chance."""


@dataclass(frozen=True)
class Constant:
    """An action and the number of tasks that it solves when nothing else is done."""

    action: str
    solved: int
    tasks: int

    @property
    def share(self) -> float:
        """The share of the tasks that it solves."""
        return self.solved / max(1, self.tasks)

    def __str__(self) -> str:
        return f"{self.action} solves {self.solved} of {self.tasks} tasks"


def best_constant(env: Env, solutions: Sequence[CheckedEpisode], seconds: float) -> Constant | None:
    """Return the constant that solves most tasks, or `None` if there is none to try or no time to try it.

    Args:
        env: The environment to play in.
        solutions: Episodes of the solution; their tasks are played, and their ends suggest what to try.
        seconds: Time limit. A slow environment is measured on fewer tasks.
    """
    if not solutions:
        return None
    patience = Patience(seconds)
    first = solutions[0]
    env.reset(seed=first.seed, options={"task": first.task})  # the tools may depend on the episode
    actions = list(constants(env, solutions))
    trial = _results(env, actions, solutions[:_TRIAL_TASKS], patience)
    best = sorted(zip(actions, trial, strict=True), key=lambda pair: -sum(pair[1]))[:_WORTH_MORE]
    rest = _results(env, [action for action, _ in best], solutions[_TRIAL_TASKS:], patience)
    totals = [(action, [*solved, *more]) for (action, solved), more in zip(best, rest, strict=True)]
    if not totals or not totals[0][1]:
        return None
    action, solved = max(totals, key=lambda pair: sum(pair[1]))
    return Constant(action_text(env, action), sum(solved), len(solved))


def baseline(env: Env, tasks: Iterable[Task], seconds: float) -> Constant | None:
    """Return the best constant of the first tasks, as many as time allows.

    Raises:
        Broken: A solution is missing or raised an exception.
    """
    patience = Patience(seconds / 2)
    solutions: list[CheckedEpisode] = []
    for task in islice(tasks, TASKS):
        solutions.append(play(env, task, 0, solution_player))
        if patience.is_over:
            break
    return best_constant(env, solutions, seconds / 2)


def _results(
    env: Env, actions: Sequence[Action], episodes: Sequence[CheckedEpisode], patience: Patience
) -> list[list[bool]]:
    """Return for each action whether it solved the tasks, which are the same for all: as many as time allowed."""
    results: list[list[bool]] = [[] for _ in actions]
    for episode in episodes:
        for action, solved in zip(actions, results, strict=True):
            if patience.is_over:
                played = len(results[-1])
                return [solved[:played] for solved in results]
            solved.append(solves_alone(env, episode.task, episode.seed, action))
    return results


def solves_alone(env: Env, task: Task, seed: int, action: Action) -> bool:
    """Return whether an action solves a task when only silence follows. Broken episodes are left to other checks."""
    try:
        return is_solved(play(env, task, seed, then_silence([action])))
    except Broken:
        return False


def constants(env: Env, solutions: Sequence[CheckedEpisode]) -> Iterator[Action]:
    """Yield the actions to try, each once.

    These are calls of every tool without arguments or with the choices of its schema, the commonest ends of solutions,
    ends with the commonest value of each argument, and ends with the commonest pieces of gold.
    """
    seen: set[str] = set()
    for action in (*_choices(env), *_common_ends(env, solutions), *_common_gold(env, solutions)):
        content = _content(env, action)
        if content not in seen and len(content) <= _MOST_CHARS:
            seen.add(content)
            yield action


def _choices(env: Env) -> Iterator[Action]:
    for tool in env.tools:
        yield from (assistant_call(ToolCall(tool.name, arguments)) for arguments in _listed_arguments(tool))


def _listed_arguments(tool: Tool) -> list[dict[str, Any]]:
    """Return all required arguments of a tool if its schema lists their values, else an empty list."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    names = [name for name in tool.parameters.get("required", ()) if name in properties]
    options = [listed_values(properties[name]) for name in names]
    combinations = [dict(zip(names, values, strict=True)) for values in islice(product(*options), _MOST_CHOICES + 1)]
    return combinations if len(combinations) <= _MOST_CHOICES else []


def listed_values(schema: Mapping[str, Any]) -> list[Any]:
    """Return the values of an argument that its schema lists."""
    if "const" in schema:
        return [schema["const"]]
    return list(schema.get("enum", ())) or ([True, False] if schema.get("type") == "boolean" else [])


def _common_ends(env: Env, solutions: Sequence[CheckedEpisode]) -> Iterator[Action]:
    ends = [episode.actions[-1] for episode in solutions if episode.actions]
    by_content = {_content(env, end): end for end in ends}
    common = Counter(_content(env, end) for end in ends).most_common(_COMMON)
    yield from (by_content[content] for content, _ in common)
    last_calls = [calls[-1] for end in ends if (calls := calls_in(env, end))]
    for name in dict.fromkeys(call.name for call in last_calls):
        values = _common_values([call.arguments for call in last_calls if call.name == name])
        for row in islice(zip_longest(*values.values()), _COMMON):
            pairs = zip(values.items(), row, strict=True)
            arguments = {key: own[0] if value is None else value for (key, own), value in pairs}
            yield assistant_call(ToolCall(name, arguments))


def _content(env: Env, action: Action) -> str:
    """Return the content of an action as text, without the ids of its calls."""
    return canonical([(call.name, call.arguments) for call in calls_in(env, action)] or action)


def _common_values(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the commonest values of each argument, the commonest first."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: most_common([row[name] for row in rows if name in row]) for name in names}


def most_common(values: Sequence[Any], count: int = _COMMON) -> list[Any]:
    """Return the commonest values, the commonest first."""
    by_text = {canonical(value): value for value in values}
    return [by_text[text] for text, _ in Counter(map(canonical, values)).most_common(count)]


def _common_gold(env: Env, solutions: Sequence[CheckedEpisode]) -> Iterator[Action]:
    pieces = most_common([piece for episode in solutions for _, piece in scalars(episode.task.gold)])
    for name in ending_tools(env, solutions):
        parameters = env.tools.get(name).parameters
        required = parameters.get("required", ())
        if len(required) == 1:
            is_text = parameters.get("properties", {}).get(required[0], {}).get("type") == "string"
            values = [str(piece) if is_text else piece for piece in pieces]
            yield from (assistant_call(ToolCall(name, {required[0]: value})) for value in values)
    if not len(env.tools):
        yield from map(str, pieces)


def scalars(value: Any, name: str = "") -> Iterator[tuple[str, str | int | float | bool]]:
    """Yield the texts, numbers and booleans in plain data, each with its place, such as `['city'][0]`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from scalars(item, f"{name}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from scalars(item, f"{name}[{number}]")
    elif isinstance(value, str | int | float):
        yield name, value
