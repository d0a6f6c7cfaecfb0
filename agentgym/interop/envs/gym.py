"""`GymEnv`: a `gymnasium.Env` as an environment with the tool `act`."""

from __future__ import annotations

import copy
import enum
import inspect
import logging
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Unpack

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator

from agentgym.base.errors import InfrastructureError, NoSolution, ToolError, UsageError
from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.engine.steps import Solution
from agentgym.core.foreign import as_usage_error
from agentgym.core.messages import Pictured, ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.schema_tool import SchemaTool
from agentgym.core.task import Task
from agentgym.core.toolset import MAX_RESULT_CHARS, Toolset, bounded
from agentgym.interop.envs.gym_actions import Arguments, is_picture, plain_text, png_of, text_of_value
from agentgym.interop.wrapper import Caveat, Wrapped, chance_caveats, seed_caveats, seed_tasks, unpacked

MAX_CHARS = 4_000
_LEFT_OUT = re.compile(
    r"^#+ +(Arguments|References|Version History|Versions?|Vectori[sz]ed environment|Information|Credits)"
    r".*?(?=^#+ |\Z)",
    re.M | re.S | re.I,
)

_NAMES: dict[str, tuple[str, ...]] = {
    "Acrobot": ("-1", "0", "+1"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "MountainCar": ("left", "nothing", "right"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
}
"""The actions of Gymnasium's own environments, which name them only in their documentation."""


def described(env: gymnasium.Env[Any, Any]) -> str:
    """Return an environment's documentation, without the sections for programmers."""
    text = inspect.getdoc(type(env.unwrapped)) or ""
    text = re.sub(r"\n{3,}", "\n\n", _LEFT_OUT.sub("", text)).strip()
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS].rsplit("\n", 1)[0]


def action_names(env: gymnasium.Env[Any, Any]) -> Sequence[str] | None:
    """Return the names of a Discrete environment's actions, if it declares them or is one of Gymnasium's."""
    space, inner = env.action_space, env.unwrapped
    if not isinstance(space, spaces.Discrete):
        return None
    meanings = getattr(inner, "get_action_meanings", None)
    if callable(meanings):
        names: Any = meanings()
    elif inspect.isclass(kind := getattr(inner, "actions", None)) and issubclass(kind, enum.Enum):
        names = [member.name.lower() for member in kind]
    else:
        names = _NAMES.get(inner.spec.name if inner.spec is not None else "", ())
    return [str(name) for name in names] if len({*names}) == space.n else None


_MOST_CHOICES = 32
_MOST_STEPS = 5_000
"""Maximum steps of the environment, for each of the two ways to distinguish states."""


def choices(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all arguments that a schema allows; an empty list if there are too many."""
    options = {name: _values(part) for name, part in schema["properties"].items()}
    count = 1
    for values in options.values():
        count *= len(values)
    if count > _MOST_CHOICES:
        return []
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def _values(schema: Mapping[str, Any]) -> Sequence[Any]:
    if "enum" in schema:
        return schema["enum"]
    length = schema.get("minItems")
    if "items" not in schema or length is None or length != schema.get("maxItems"):
        return ()
    inner = _values(schema["items"])
    return [list(values) for values in product(inner, repeat=length)] if len(inner) ** length <= _MOST_CHOICES else ()


@dataclass
class _Search:
    """A breadth-first search. It replays the episode up to each state, since foreign objects may not be copyable."""

    begin: Callable[[int], Any]
    advance: Callable[[Any], tuple[Any, float, bool, bool, bool]]
    actions: Sequence[Any]
    seed: int
    by_depth: bool
    """Whether the same observation at another depth counts as another state, because of randomness."""
    steps: int = 0

    def run(self) -> list[int] | None:
        """Return the indices of the actions that solve the episode."""
        queue: deque[list[int]] = deque([[]])
        visited = {self._key(self.begin(self.seed), 0)}
        while queue and self.steps < _MOST_STEPS:
            path = queue.popleft()
            for place in range(len(self.actions)):
                observation, over, solved = self._after([*path, place])
                if solved:
                    return [*path, place]
                if not over and (key := self._key(observation, len(path) + 1)) not in visited:
                    visited.add(key)
                    queue.append([*path, place])
        return None

    def _after(self, path: Sequence[int]) -> tuple[Any, bool, bool]:
        self.begin(self.seed)
        self.steps += len(path)
        observation, over, solved = None, False, False
        for place in path:
            observation, _, terminated, truncated, solved = self.advance(self.actions[place])
            if over := terminated or truncated:
                break
        return observation, over, solved

    def _key(self, observation: Any, depth: int) -> tuple[str, int]:
        return text_of_value(observation), depth if self.by_depth else 0


_CACHED = 512


class Plans:
    """A cache of plans, since a search takes much longer than playing its result."""

    def __init__(self) -> None:
        self._cache: OrderedDict[Hashable, list[int] | None] = OrderedDict()

    def get(self, key: Hashable, find: Callable[[], list[int] | None]) -> list[int] | None:
        """Return the cached plan of a key, or call `find` and cache its result."""
        if key not in self._cache:
            self._cache[key] = find()
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return self._cache[key]


def find_plan(
    begin: Callable[[int], Any],
    advance: Callable[[Any], tuple[Any, float, bool, bool, bool]],
    actions: Sequence[Any],
    seed: int,
) -> list[int] | None:
    """Return the indices in `actions` of a solution of the seed's episode; `None` if the search found no solution.

    Args:
        begin: Resets the environment with a seed and returns the observation.
        advance: Steps it; returns observation, reward, terminated, truncated and whether it is solved.
        actions: The actions to choose from.
        seed: The seed.
    """
    if not actions:
        return None
    for by_depth in (False, True):
        if (plan := _Search(begin, advance, actions, seed, by_depth).run()) is not None:
            return plan
    return None


_log = logging.getLogger(__name__)
_TURNS = 100
_UNLIMITED = float("inf")

_plans = Plans()


class GymEnv(Wrapped):
    """Play a Gymnasium environment by calling `act`.

    Task: one seed of the environment; no seed is in two splits.
    Tools: `act`, whose arguments follow from the action space.
    Observation: the environment's rendering as text or a picture, else its observation in numbers.
    Reward: `outcome` 1 if it was solved; `reward`, the environment's reward, which only the scheme `own` passes on.
    Episode end: the environment terminates (`solved` or `over`) or truncates (`cut_off`), or `max_turns` have passed.

    Args:
        id: An id of Gymnasium's registry, or a function or class that makes the environment.
        settings: Its constructor arguments.
        actions: Names of the actions of a Discrete space; by default the environment's own names.
        prompt: The task for the model; by default the environment's documentation.
        solved_at: The sum of rewards from which an episode counts as solved, or `"terminated"` if every termination
            does. By default `info["is_success"]` decides, else the registered `reward_threshold`, else any sum above 0.
        pictures: Show the environment's rendering as a picture (`rgb_array`).
    """

    channels = {
        OUTCOME: Channel("1 if the environment was solved"),
        "reward": Channel("what the environment pays for the turn", -_UNLIMITED, _UNLIMITED, per_turn=True),
    }
    schemes: ClassVar[Mapping[str, Scheme]] = {"own": Scheme({"reward": 1.0}, allow_unsound=True)}
    reasons: ClassVar[Mapping[str, Ending]] = {"over": Ending.TERMINATED, "cut_off": Ending.TRUNCATED}
    states_turns = True

    def __init__(
        self,
        id: str | Callable[..., gymnasium.Env[Any, Any]],
        settings: Mapping[str, Any] | None = None,
        *,
        actions: Sequence[str] | None = None,
        prompt: str | None = None,
        solved_at: float | str | None = None,
        pictures: bool = False,
        **kwargs: Unpack[EnvArguments],
    ):
        self.name = id if isinstance(id, str) else unpacked(id).__name__
        self._inner = inner = _make_env(id, settings or {}, pictures)
        self._solved_at = _threshold(inner, solved_at)
        self._shows_picture = pictures or is_picture(inner.observation_space)
        self._arguments = Arguments(inner.action_space, actions or action_names(inner))
        schema = {"name": "act", "description": "Take one action.", "parameters": self._arguments.schema}
        self.tools = Toolset([SchemaTool(schema, self._act)])
        limit = inner.spec.max_episode_steps if inner.spec is not None else None
        kwargs["max_turns"] = kwargs.get("max_turns") or limit or _TURNS
        task_prompt = f"{prompt or described(inner)}\n\nCall `act` in every turn."
        super().__init__(tasks=seed_tasks(self.name, task_prompt), **kwargs)

    def start(self, task: Task) -> Any:
        """Reset the environment with the task's seed and show it."""
        observation = self.begin(task.data["seed"])
        view = self._view(observation)
        if isinstance(view, Pictured):
            return Pictured(f"{task.prompt}\n\n{view.text}".strip(), view.pictures)
        return f"{task.prompt}\n\n{view}"

    def begin(self, seed: int) -> Any:
        """Reset the wrapped environment; return its observation."""
        self._randomness.seed(seed)
        self._total = 0.0
        with self._foreign(f"{self.name}: reset"):
            match self._inner.reset(seed=seed):
                case (observation, Mapping()):
                    return observation
                case other:
                    raise TypeError(f"it must return an observation and a dict, not {other!r:.100}")

    def advance(self, action: Any) -> tuple[Any, float, bool, bool, bool]:
        """Step the wrapped environment; return observation, reward, terminated, truncated, and whether it is solved."""
        with self._foreign(f"{self.name}: step"):
            observation, paid, *ended, info = self._inner.step(action)
            reward = float(paid)
            terminated, truncated = map(_is_true, ended)
            self._total += reward
            solved = (terminated or truncated) and self._is_solved(terminated, info)
        return observation, reward, terminated, truncated, solved

    def _is_solved(self, terminated: bool, info: Mapping[str, Any]) -> bool:
        if self._solved_at == "terminated":
            return terminated
        if isinstance(self._solved_at, float):
            return self._total >= self._solved_at
        flag = info.get("is_success", info.get("success"))
        return self._total > 0 if flag is None else bool(flag)

    def _act(self, arguments: dict[str, Any]) -> Any:
        """Run the tool."""
        action = self._action(arguments)
        observation, reward, terminated, truncated, solved = self.advance(action)
        self.reward("reward", reward)
        if solved:
            self.reward(OUTCOME, 1.0)
        if terminated:
            self.finish(Reason.SOLVED if solved else "over")
        elif truncated:
            self.finish("cut_off")
        return self._view(observation)

    def _action(self, arguments: Mapping[str, Any]) -> Any:
        space = self._inner.action_space
        try:
            action = self._arguments.read(arguments)
        except OverflowError as error:
            raise ToolError(f"A number is too large for the actions: {space}.") from error
        if not space.contains(action):
            raise ToolError(f"{text_of_value(action)} is not one of the actions: {space}.")
        return action

    def _view(self, observation: Any) -> Any:
        """Return an observation as text or `Pictured`."""
        space, mode = self._inner.observation_space, self._inner.render_mode
        text = "" if is_picture(space) else bounded(text_of_value(observation), MAX_RESULT_CHARS)
        if mode == "ansi" and not isinstance(space, spaces.Text):
            text = f"{plain_text(str(self._render()))}\nObservation: {text}"
        if not self._shows_picture:
            return text
        return Pictured(text, (png_of(self._render() if mode == "rgb_array" else observation),))

    def _render(self) -> Any:
        with self._foreign(f"{self.name}: render"):
            return self._inner.render()

    def solution(self, task: Task) -> Solution:
        """Play a solution found by a search through replays of the episode.

        Raises:
            NoSolution: The search, which is bounded in time and number of actions, found no solution.
        """
        options, seed = choices(self._arguments.schema), task.data["seed"]
        key = type(self), repr(self._made_with), seed
        plan = _plans.get(key, lambda: self._plan(options, seed))
        if plan is None:
            raise NoSolution(f"no way to solve {task.id!r} was found by trying; override solution()")
        for place in plan:
            yield ToolCall("act", options[place])

    def _plan(self, options: Sequence[Mapping[str, Any]], seed: int) -> list[int] | None:
        planner = copy.copy(self)
        try:
            actions = [planner._action(option) for option in options]
            with planner._randomness.swapped_in():  # once, since a swap takes longer than most steps
                return find_plan(planner.begin, planner.advance, actions, seed)
        finally:
            planner.close()

    def caveats(self) -> tuple[Caveat, ...]:
        """Test whether seeds matter and repeat, and whether a solution can be found."""
        caveats = seed_caveats(
            self._opening,
            ignored="seeds are ignored: two resets with one seed begin differently",
            alike="all seeds begin alike, so splits differ by chance during the episode at most",
        )
        if not any(caveat.check for caveat in caveats):
            caveats += chance_caveats(self)
        try:
            next(self.solution(self.tasks.get(self.tasks.splits[0], 0)))
        except NoSolution as error:
            caveats.append(Caveat("solution-solves", str(error)))
        return tuple(caveats)

    def _opening(self, seed: int) -> str:
        fresh = copy.copy(self)
        try:
            return text_of_value(fresh.begin(seed))
        finally:
            fresh.close()

    def release(self) -> None:
        """Close the wrapped environment. Errors are only logged, since the episodes are over."""
        try:
            with self._foreign(f"{self.name}: close"):
                self._inner.close()
        except InfrastructureError as error:
            _log.warning("%s", error)


def _is_true(flag: Any) -> bool:
    """Return a flag of `step`. Raises `TypeError` if it is not a boolean."""
    if not isinstance(flag, bool | np.bool_):
        raise TypeError(f"terminated and truncated must be True or False, not {flag!r:.100}")
    return bool(flag)


def _make_env(
    make: str | Callable[..., gymnasium.Env[Any, Any]], settings: Mapping[str, Any], pictures: bool
) -> gymnasium.Env[Any, Any]:
    """Make the wrapped environment, rendering pictures if requested, else text if possible."""
    name = make if isinstance(make, str) else unpacked(make).__name__
    with as_usage_error(f"the Gymnasium environment {name!r} cannot be made"):
        modes: Sequence[str] = _entry_point(make).metadata.get("render_modes", ())
        mode = "rgb_array" if pictures else "ansi" if "ansi" in modes else None
        if mode is not None:
            settings = {"render_mode": mode, **settings}
        if isinstance(make, str):
            return gymnasium.make(make, disable_env_checker=True, **settings)
        return make(**settings)


def _entry_point(make: str | Callable[..., gymnasium.Env[Any, Any]]) -> Any:
    """Return the environment's class, or `gymnasium.Env` if a function makes it."""
    creator: Any = gymnasium.spec(make).entry_point if isinstance(make, str) else make
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    return creator if isinstance(creator, type) and issubclass(creator, gymnasium.Env) else gymnasium.Env


def _threshold(env: gymnasium.Env[Any, Any], solved_at: float | str | None) -> float | str | None:
    if isinstance(solved_at, str) and solved_at != "terminated":
        raise UsageError(f"solved_at is a sum of rewards or 'terminated', not {solved_at!r}")
    if solved_at is None:
        solved_at = env.spec.reward_threshold if env.spec is not None else None
    return float(solved_at) if isinstance(solved_at, int | float) else solved_at
