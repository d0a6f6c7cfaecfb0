"""Play a few tasks of an environment for its card: the solution, and players that do no useful work."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import gymnasium

from agentgym.base.components import CATALOG_ON_FILES
from agentgym.base.errors import UsageError
from agentgym.base.loading import load_named
from agentgym.check.cards.markdown import block, code, folded, number
from agentgym.check.play import (
    Broken,
    CheckedEpisode,
    helpless_player,
    idle_player,
    play,
    random_player,
    stubborn_player,
)
from agentgym.core.display import plain
from agentgym.core.engine.steps import StepResult
from agentgym.core.env import Env
from agentgym.core.messages import text_of
from agentgym.core.policy import ScriptedPlayer, solution_player
from agentgym.core.registration import common_beginning
from agentgym.core.registry import class_of, is_class_path, list_environments, make, resolve
from agentgym.core.rewards import SOLVED_AT, Scheme
from agentgym.core.task import TEST, Task, default_split, iterate

SOLUTION = "its solution"
PLAYERS: Mapping[str, ScriptedPlayer] = {
    SOLUTION: solution_player,
    "silence": idle_player,
    "“I do not know.”": helpless_player,
    "random calls": random_player,
    "its solution's first call, repeated": stubborn_player,
}
"""Players by their name in the table."""
_TRIED = 100
"""Maximum number of tasks to look at for ones with a solution."""


@dataclass(frozen=True)
class Score:
    """The results of one player."""

    episodes: Sequence[CheckedEpisode]

    @property
    def solved(self) -> str:
        """The number of solved tasks: `3 of 10`."""
        return f"{sum(episode.outcome >= SOLVED_AT for episode in self.episodes)} of {len(self.episodes)}"

    @property
    def unsolved(self) -> str:
        """How the other episodes ended: `1 ended as max_turns`."""
        reasons = Counter(str(episode.reason) for episode in self.episodes if episode.outcome < SOLVED_AT)
        return ", ".join(f"{count} ended as {reason}" for reason, count in reasons.items())

    @property
    def turns(self) -> float:
        """Mean number of turns."""
        return statistics.fmean(len(episode.turns) for episode in self.episodes)

    def pay(self, scheme: Scheme) -> float:
        """Return the mean reward under a scheme."""
        return statistics.fmean(sum(scheme.turn_rewards(episode.turns)) for episode in self.episodes)


def test_tasks(env: Env, limit: int) -> list[Task]:
    """Return the first tasks of the split `test`, or of the nearest split to it."""
    split = default_split(env.tasks, TEST)
    return list(iterate(env.tasks, split, limit))


def solved_episodes(env: Env, count: int) -> list[CheckedEpisode]:
    """Return episodes of the solution on the first test tasks that have one."""
    return list(islice(_solved(env), count))


def _solved(env: Env) -> Iterator[CheckedEpisode]:
    for task in test_tasks(env, _TRIED):
        try:
            yield play(env, task, 0, solution_player)
        except Broken as broken:
            if not isinstance(broken.__cause__, UsageError):
                raise


def scores(env: Env, solved: Sequence[CheckedEpisode]) -> dict[str, Score]:
    """Return the score of each player on the tasks of `solved`, episodes of the solution."""
    tasks = [episode.task for episode in solved]
    others = {name: player for name, player in PLAYERS.items() if name != SOLUTION}
    other_scores = {name: Score([play(env, task, 0, player) for task in tasks]) for name, player in others.items()}
    return {SOLUTION: Score(solved), **other_scores}


_OURS = "agentgym/"


@dataclass(frozen=True)
class CardSubject:
    """One environment, or a family: several ids of one class, such as the pages of MiniWoB++."""

    name: str
    """Short and valid in a file name: `sql`, `miniwob`, `acme-tickets`."""
    kind: type[Env]
    ids: tuple[str, ...]
    """Registered ids, or one path `module:Class`."""

    @property
    def is_family(self) -> bool:
        """Whether several ids share the class."""
        return len(self.ids) > 1

    @property
    def has_tasks(self) -> bool:
        """Whether it has tasks without files or packages that a user must provide."""
        return not set(self.ids) & set(load_named(CATALOG_ON_FILES, "a catalog", lambda value: isinstance(value, dict)))

    @property
    def members(self) -> tuple[str, ...]:
        """The distinctive parts of a family's ids: `click-button` of `agentgym/miniwob-click-button-v0`."""
        beginning = len(common_beginning(self.ids))
        return tuple(_unversioned(env_id)[beginning:] for env_id in self.ids)

    @property
    def path(self) -> str:
        """Import path of the class: `agentgym.envs.sql:SQLEnv`."""
        path = self.ids[0] if is_class_path(self.ids[0]) else gymnasium.spec(self.ids[0]).entry_point
        return path if isinstance(path, str) else f"{self.kind.__module__}:{self.kind.__qualname__}"

    def make(self) -> Env:
        """Make the environment. For a family, it has the tasks of all members, the default of the class."""
        return self.kind() if self.is_family else make(self.ids[0])


def subjects(names: Sequence[str] = ()) -> list[CardSubject]:
    """Return the environments of these names (ids, `module:Class`, families such as `miniwob`).

    Without names, return all that have tasks of their own.

    Raises:
        UsageError: A name is unknown.
    """
    every = _registered()
    if names:
        return [every[name] if name in every else _named(name) for name in names]
    return [subject for subject in every.values() if subject.has_tasks]


def _registered() -> dict[str, CardSubject]:
    classes: dict[object, list[str]] = {}
    for env_id in list_environments():
        classes.setdefault(gymnasium.spec(env_id).entry_point, []).append(env_id)
    all_subjects = [CardSubject(_name_of(ids), class_of(ids[0]), tuple(ids)) for ids in classes.values()]
    return {subject.name: subject for subject in all_subjects}


def _named(name: str) -> CardSubject:
    if is_class_path(name):
        return CardSubject(name.partition(":")[2], class_of(name), (name,))
    env_id = resolve(name)
    return CardSubject(_name_of([env_id]), class_of(env_id), (env_id,))


def _name_of(ids: Sequence[str]) -> str:
    return _unversioned(common_beginning(ids)).removeprefix(_OURS).strip("-").replace("/", "-")


def _unversioned(env_id: str) -> str:
    head, dash, version = env_id.rpartition("-v")
    return head if dash and version.isdecimal() else env_id


_MOST_CHARS = {"system": 20_000}
"""Maximum characters of a message, by role; others get `_OTHER_CHARS`."""
_OTHER_CHARS = 1500
_MOST_TURNS = 8
_FOLDED = "System message: instructions and tools"


def opening(episode: CheckedEpisode) -> str:
    """Return the opening messages of an episode, with the system message folded."""
    instructions = [message for message in episode.opening if message.get("role") == "system"]
    others = [message for message in episode.opening if message not in instructions]
    rest = [_messages(others)] if others else []
    return "\n\n".join([*(folded(_FOLDED, _messages([message])) for message in instructions), *rest])


def turns(episode: CheckedEpisode) -> str:
    """Return the turns of an episode, each with its channels and its reward."""
    pairs = list(zip(episode.actions, episode.results, strict=True))
    parts = [_turn(number, action, result) for number, (action, result) in enumerate(pairs[:_MOST_TURNS], 1)]
    if len(pairs) > _MOST_TURNS:
        parts.append(f"… and {len(pairs) - _MOST_TURNS} more turns.")
    parts.append(f"The episode ended as {code(episode.reason)} and was paid {number(episode.reward, 3)}.")
    return "\n\n".join(parts)


def _turn(place: int, action: Any, result: StepResult) -> str:
    message: Mapping[str, Any] = {"role": "assistant", "content": action} if isinstance(action, str) else action
    earned = {name: value for name, value in result.info["rewards"].items() if value}
    channels = "".join(f", {code(name)} {number(value, 3)}" for name, value in earned.items())
    return f"**Turn {place}**: paid {number(result.reward, 3)}{channels}\n\n{_messages([message, *result.observation])}"


def _messages(messages: Iterable[Mapping[str, Any]]) -> str:
    return block("\n\n".join(f"[{message.get('role')}]\n{_content(message)}" for message in messages))


def _content(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls") or ()
    written = [json.dumps(call.get("function", call), ensure_ascii=False) for call in calls]
    return "\n".join(
        [plain(text_of(message), _MOST_CHARS.get(str(message.get("role")), _OTHER_CHARS)), *written]
    ).strip()
