"""Episodes as the checks play and compare them. Knows no check."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from agentgym.checks.catalog import CheckFailed
from agentgym.endings import AnyReason
from agentgym.env import Env
from agentgym.foreign import describe, ends_work
from agentgym.messages import Message, ToolCall, assistant
from agentgym.spaces import Action
from agentgym.steps import StepResult
from agentgym.task import Task

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SPARE_TURNS = 3
"""How long after `max_turns` a player keeps waiting for the end."""


@dataclass
class Episode:
    """What was done and what came of it."""

    task: Task
    seed: int
    opening: list[Message]
    info: dict[str, Any]
    actions: list[Action] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    reason: AnyReason | None = None
    player: str = ""
    """Who played it, for messages."""
    task_change: str | None = None
    """When the environment or its solution changed the task, and how."""
    reset_s: float = 0.0
    step_s: list[float] = field(default_factory=list)

    @property
    def turns(self) -> list[dict[str, float]]:
        """Raw reward channels, turn by turn."""
        return [result.info.get("rewards", {}) for result in self.results]

    @property
    def outcome(self) -> float:
        """The episode's outcome channel."""
        return sum(turn.get("outcome", 0.0) for turn in self.turns)

    @property
    def reward(self) -> float:
        """What the environment paid over the whole episode."""
        return sum(result.reward for result in self.results)

    @property
    def ended(self) -> bool:
        """Whether the last step said that the episode has ended."""
        return bool(self.results) and is_over(self.results[-1])

    @property
    def seconds(self) -> float:
        """What the environment took for it."""
        return self.reset_s + sum(self.step_s)

    def trace(self) -> list[str]:
        """Return everything that came out of the environment as canonical text: the opening, then each turn."""
        opening = {"observation": self.opening, "info": self.info}
        return [canonical(opening), *(canonical(result._asdict()) for result in self.results)]


class Broken(Exception):
    """An episode could not be played on; the cause is what was raised, `episode` what had been played."""

    def __init__(self, episode: Episode, error: BaseException):
        turn = f"turn {len(episode.results) + 1}" if episode.opening else "reset"
        super().__init__(f"task {episode.task.id!r}, {turn}: {describe(error)}")
        self.episode = episode


Player = Callable[[Env, Task], Iterable[Action]]
"""Yields actions until it has no more; a generator is sent each observation."""


def is_over(result: StepResult) -> bool:
    """Whether a step ended its episode."""
    return bool(result.terminated or result.truncated)


def canonical(value: Any) -> str:
    """Return text that is equal for equal data, in every process."""
    text = json.dumps(_plain(value), sort_keys=True, default=repr)
    return _ADDRESS.sub("", text)


def _plain(value: Any) -> Any:
    """Give sets a text form that keeps their order of iteration, which is what an observer would see."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def play(env: Env, task: Task, seed: int, player: Player, name: str = "") -> Episode:
    """Play `task` until it ends, the player stops, or it is clear that the episode never ends.

    The environment gets a copy of the task, so that one that changes it spoils no other episode.
    """
    episode = Episode(task, seed, [], {}, player=name)
    own = deepcopy(task)
    try:
        started = time.perf_counter()
        episode.opening, episode.info = env.reset(seed=seed, options={"task": own})
        episode.reset_s = time.perf_counter() - started
        _note_change(episode, own, "the opening")
        _play_on(env, episode, own, player)
    except BaseException as error:
        if ends_work(error, None):
            raise
        raise Broken(episode, error) from error
    episode.reason = env.reason
    return episode


def _play_on(env: Env, episode: Episode, task: Task, player: Player) -> None:
    moves = iter(player(env, task))
    send = getattr(moves, "send", None)
    observation: list[Message] | None = None
    try:
        for turn in range(1, env.max_turns + _SPARE_TURNS + 1):
            action = next(moves) if send is None or observation is None else send(observation)
            started = time.perf_counter()
            result = env.step(action)
            episode.step_s.append(time.perf_counter() - started)
            episode.actions.append(action)
            episode.results.append(StepResult(*result))
            _note_change(episode, task, f"turn {turn}")
            observation = result[0]
            if is_over(episode.results[-1]):
                break
    except StopIteration:
        return


def _note_change(episode: Episode, played: Task, when: str) -> None:
    """Note the first change of the task that is played."""
    if episode.task_change is not None or played == episode.task:
        return
    for name in ("data", "gold"):
        before, after = getattr(episode.task, name), getattr(played, name)
        for key in [*before, *(key for key in after if key not in before)]:
            was, now = before.get(key), after.get(key)
            if was != now:
                episode.task_change = f"{when} changed task.{name}[{key!r}]: {difference(repr(was), repr(now))}"
                return
    episode.task_change = f"{when} changed the task"


def replayed(env: Env, episode: Episode) -> Episode:
    """Play the same task with the same seed and actions again, in `env`."""
    return play(env, episode.task, episode.seed, lambda *_: iter(episode.actions), episode.player)


def solution_player(env: Env, task: Task) -> Iterable[Action]:
    """Play the environment's own solution, written in its dialect where the dialect can express it."""
    moves = env.solution(task)
    observation: list[Message] | None = None
    while True:
        try:
            move = next(moves) if observation is None else moves.send(observation)
        except StopIteration:
            return
        observation = yield _written(env, move)


def _written(env: Env, move: ToolCall | str) -> Action:
    if isinstance(move, str):
        return move
    try:
        return env.dialect.render("", [move], env.tools)
    except ValueError:
        return assistant_call(move)


def assistant_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as an assistant message, which no dialect needs to read."""
    return dict(assistant("", [call]))


def random_player(env: Env, task: Task) -> Iterable[Action]:
    """Sample from the action space, seeded by the task."""
    env.action_space.seed(int(task.hash[:8], 16))
    while True:
        yield env.action_space.sample()


def idle_player(env: Env, task: Task) -> Iterable[Action]:
    """Say nothing, ever."""
    while True:
        yield ""


def helpless_player(env: Env, task: Task) -> Iterable[Action]:
    """Say that nothing can be done, ever."""
    while True:
        yield "I do not know."


def stubborn_player(env: Env, task: Task) -> Iterable[Action]:
    """Do what the solution does first, again and again."""
    first = next(iter(solution_player(env, task)))
    while True:
        yield first


def must_equal(expected: Sequence[str], found: Sequence[str], where: str, advice: str) -> None:
    """Compare two traces; raise `CheckFailed` naming the first turn that differs, with both sides."""
    for turn, (left, right) in enumerate(zip(expected, found, strict=False)):
        if left != right:
            place = "the opening" if turn == 0 else f"turn {turn}"
            raise CheckFailed(f"{where}: {place} differs: {difference(left, right)}. {advice}")
    if len(expected) != len(found):
        raise CheckFailed(f"{where}: {len(expected) - 1} turns the first time, {len(found) - 1} the second. {advice}")


def difference(left: str, right: str) -> str:
    """Show two texts from shortly before the place where they part."""
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, at - 30)
    return f"{short(left[start:])} became {short(right[start:])}"


def short(value: Any, limit: int = 90) -> str:
    """Return the value as text for a message, cut if long."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"‹{text}›" if isinstance(value, str) else text
