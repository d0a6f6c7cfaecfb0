"""Play, record and compare episodes for the checks. Depends on no check."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from agentgym.base.errors import NoSolution
from agentgym.check.outcomes import CheckFailed
from agentgym.core.endings import AnyReason
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import Solution, StepResult
from agentgym.core.env import Env
from agentgym.core.foreign import describe, ends_work
from agentgym.core.messages import Message, ToolCall, assistant
from agentgym.core.policy import Move, Script, ScriptedPlayer, as_action
from agentgym.core.task import Task

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SPARE_TURNS = 3
"""Turns to play beyond `max_turns`, to detect episodes that do not end."""


@dataclass
class CheckedEpisode:
    """A recorded episode: the actions taken and their results."""

    task: Task
    seed: int
    opening: list[Message]
    info: dict[str, Any]
    actions: list[Action] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    reason: AnyReason | None = None
    player: str = ""
    """Name of the player, for messages."""
    task_change: str | None = None
    """When and how the environment or its solution changed the task; `None` if it did not."""
    reset_s: float = 0.0
    step_s: list[float] = field(default_factory=list)

    @property
    def turns(self) -> list[dict[str, float]]:
        """Raw reward channels of each turn."""
        return [result.info.get("rewards", {}) for result in self.results]

    @property
    def outcome(self) -> float:
        """Sum of the outcome channel over the episode."""
        return sum(turn.get("outcome", 0.0) for turn in self.turns)

    @property
    def reward(self) -> float:
        """Total reward of the episode."""
        return sum(result.reward for result in self.results)

    @property
    def ended(self) -> bool:
        """Whether the last step ended the episode."""
        return bool(self.results) and is_over(self.results[-1])

    @property
    def seconds(self) -> float:
        """Time that the environment spent in the reset and all steps."""
        return self.reset_s + sum(self.step_s)

    def trace(self) -> list[str]:
        """Return all output of the environment as canonical text: the opening, then each turn."""
        opening = {"observation": self.opening, "info": self.info}
        return [canonical(opening), *(canonical(result._asdict()) for result in self.results)]


class Broken(Exception):
    """An exception (`__cause__`) aborted an episode; `episode` holds the part played before."""

    def __init__(self, episode: CheckedEpisode, error: BaseException):
        turn = f"turn {len(episode.results) + 1}" if episode.opening else "reset"
        super().__init__(f"task {episode.task.id!r}, {turn}: {describe(error)}")
        self.episode = episode


def is_over(result: StepResult) -> bool:
    """Return whether a step ended its episode."""
    return bool(result.terminated or result.truncated)


def canonical(value: Any) -> str:
    """Return text that is equal for equal data, in every process."""
    text = json.dumps(_plain(value), sort_keys=True, default=repr)
    return _ADDRESS.sub("", text)


def _plain(value: Any) -> Any:
    """Convert to plain data; sets are left to `repr`, which keeps the iteration order that an observer would see."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def play(env: Env, task: Task, seed: int, player: ScriptedPlayer, name: str = "") -> CheckedEpisode:
    """Play `task` until the episode ends, the player stops, or the episode outlasts `max_turns`.

    The environment gets a copy of the task, so that changes to it cannot affect other episodes.

    Raises:
        Broken: The environment or the player raised an exception.
    """
    episode = CheckedEpisode(task, seed, [], {}, player=name)
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


def _play_on(env: Env, episode: CheckedEpisode, task: Task, player: ScriptedPlayer) -> None:
    script = Script(player(env, task))
    observation = episode.opening
    for turn in range(1, env.max_turns + _SPARE_TURNS + 1):
        if (move := script.next_move(observation)) is None:
            return
        action = as_action(env, move)
        started = time.perf_counter()
        result = env.step(action)
        episode.step_s.append(time.perf_counter() - started)
        episode.actions.append(action)
        episode.results.append(StepResult(*result))
        _note_change(episode, task, f"turn {turn}")
        observation = result[0]
        if is_over(episode.results[-1]):
            return


def _note_change(episode: CheckedEpisode, played: Task, when: str) -> None:
    """Record the first change to the task being played."""
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


def replayed(env: Env, episode: CheckedEpisode) -> CheckedEpisode:
    """Replay an episode in `env`: the same task, seed and actions."""
    return play(env, episode.task, episode.seed, lambda *_: iter(episode.actions), episode.player)


def let_it_blunder(env: Any) -> None:
    """Keep unreadable actions from ending the episodes of an environment, since resets may be slow."""
    env.max_format_errors = env.max_turns


def assistant_call(call: ToolCall) -> dict[str, Any]:
    """Return a call as an assistant message, which needs no dialect."""
    return dict(assistant("", [call]))


def random_player(env: Env, task: Task) -> Generator[Any, list[Message], None]:
    """Sample actions from the action space, seeded by the task."""
    env.action_space.seed(int(task.hash[:8], 16))
    while True:
        yield env.action_space.sample()


def idle_player(env: Env, task: Task) -> Iterable[Action]:
    """Answer every turn with an empty text."""
    while True:
        yield ""


def helpless_player(env: Env, task: Task) -> Iterable[Action]:
    """Answer every turn with 'I do not know.'"""
    while True:
        yield "I do not know."


def then_silence(actions: Sequence[Action]) -> ScriptedPlayer:
    """Return a player of `actions` that then answers every turn with an empty text."""

    def player(env: Env, task: Task) -> Iterable[Action]:
        yield from (action for action in actions)
        yield from idle_player(env, task)

    return player


def solving_player(env: Env, task: Task) -> Solution:
    """Play the environment's own solution; random actions if it has none, so that everything else can be checked."""
    observation: list[Message] = []
    try:
        script = Script(env.solution(task))
        while (move := script.next_move(observation)) is not None:
            observation = yield move
    except NoSolution:
        yield from random_player(env, task)


def stubborn_player(env: Env, task: Task) -> Iterable[Move]:
    """Repeat the first action of the solution."""
    first = next(iter(solving_player(env, task)))
    while True:
        yield first


def must_equal(expected: Sequence[str], actual: Sequence[str], where: str, advice: str) -> None:
    """Compare two traces. Raises `CheckFailed` with both versions of the first turn that differs."""
    for turn, (left, right) in enumerate(zip(expected, actual, strict=False)):
        if left != right:
            place = "the opening" if turn == 0 else f"turn {turn}"
            raise CheckFailed(f"{where}: {place} differs: {difference(left, right)}. {advice}")
    if len(expected) != len(actual):
        raise CheckFailed(f"{where}: {len(expected) - 1} turns the first time, {len(actual) - 1} the second. {advice}")


def difference(left: str, right: str) -> str:
    """Show two texts from shortly before the first difference."""
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, at - 30)
    return f"{short(left[start:])} became {short(right[start:])}"


def short(value: Any, limit: int = 90) -> str:
    """Return a value as text for a message, truncated to `limit` characters."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"‹{text}›" if isinstance(value, str) else text
