"""Any Gymnasium environment is one of ours: its spaces, seeds, endings and rewards, and what it cannot keep."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.messages import ToolCall, assistant, text_of
from agentgym.core.policy import steps
from agentgym.interop.envs.gym import GymEnv
from agentgym.interop.envs.gym_actions import Arguments, form_of
from tests.interop.theirs import failed_checks, hold_caveats, named_checks
from tests.rows import each_row

TARGET = "agentgym.interop.envs.gym:GymEnv"


class Dice(gymnasium.Env[Any, Any]):
    """Throw a die six times, with the process's own generator."""

    observation_space = spaces.Discrete(7)
    action_space = spaces.Discrete(2)
    breaks = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 6
        return random.randint(1, 6), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        if action == 1 and self.breaks:
            raise OSError("the table is gone")
        return int(np.random.randint(1, 7)), 0.0, False, self.left == 0, {}


class Broken(Dice):
    breaks = True


def act(action: Any) -> Any:
    return assistant("", [ToolCall("act", {"action": action})])


def played(env: GymEnv, count: int = 5, seed: int = 0) -> list[str]:
    opening, _ = env.reset(seed=seed, options={"split": "train", "index": 3})
    return [text_of(opening[-1]), *(text_of(env.step(act(0)).observation[-1]) for _ in range(count))]


@pytest.mark.real
@pytest.mark.timeout(600)
@each_row("id, failing", [("FrozenLake-v1", set()), ("Blackjack-v1", {"solution-solves"})])
def test_failing_checks_are_named_beforehand(id: str, failing: set[str]):
    assert failed_checks(TARGET, {"id": id}) == failing == named_checks(GymEnv(id))


@each_row("id", ["Blackjack-v1", "CartPole-v1", "FrozenLake-v1"])
def test_the_page_says_what_is_named(id: str):
    hold_caveats("gymnasium", id, GymEnv(id))


def test_a_solution_is_found_where_a_search_can_find_one():
    env = GymEnv("Taxi-v4", solved_at="terminated", max_turns=100)
    task = env.tasks.get("test", 0)
    env.reset(seed=0, options={"task": task})
    *_, last = steps(env, env.solution(task))
    assert (last.terminated, last.info["is_success"]) == (True, True)


def test_environments_on_global_generators_do_not_disturb_each_other():
    alone = played(GymEnv(Dice))
    first, other = GymEnv(Dice), GymEnv(Dice)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[union-attr]
    opening, _ = first.reset(seed=0, options={"split": "train", "index": 3})
    disturbed = [text_of(opening[-1])]
    for _ in range(5):
        other.reset(seed=9)
        other.step(act(1))
        disturbed.append(text_of(first.step(act(0)).observation[-1]))
    assert disturbed == alone
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[union-attr]


def test_an_error_inside_is_an_infrastructure_error():
    env = GymEnv(Broken)
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match=r"Broken: step: OSError: the table is gone \(test_gym.py"):
        env.step(act(1))
    assert env.reason == "infrastructure"


def test_rewards_of_turns_are_a_channel_and_the_scheme_own_pays_them():
    env = GymEnv("CliffWalking-v1", solved_at="terminated", scheme="own")
    env.reset(seed=0)
    result = env.step(act("up"))
    assert result.reward == -1.0
    assert result.info["rewards"] == {"outcome": 0.0, "reward": -1.0}


@each_row(
    "space, value, expected",
    [
        (spaces.Discrete(3, start=5), {"action": 6}, 6),
        (spaces.MultiDiscrete([2, 3]), {"action": [1, 2]}, [1, 2]),
        (spaces.Box(-1, 1, (2,)), {"action": [0.5, -1]}, [0.5, -1.0]),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Text(3)), {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(9)]), {"action_1": 1, "action_2": 8}, (1, 8)),
    ],
)
def test_actions_of_every_space_are_read_from_their_schema(space: spaces.Space[Any], value: Any, expected: Any):
    from jsonschema import validate

    arguments = Arguments(space)
    validate(value, arguments.schema)
    action = arguments.read(value)
    assert space.contains(action)
    assert (action.tolist() if isinstance(action, np.ndarray) else action) == expected


def test_a_space_that_no_model_could_write_is_refused_by_name():
    with pytest.raises(UsageError, match="100800 numbers"):
        form_of(spaces.Box(0, 255, (210, 160, 3), np.uint8), "action")


class Odd(gymnasium.Env[Any, Any]):
    """Return what a test wants."""

    observation_space = spaces.Discrete(9)

    def __init__(self, goes_on: Any = (1, 1.0, True, False, {}), action_space: Any = None):
        self.goes_on, self.action_space = goes_on, action_space or spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        return self.goes_on


@each_row(
    "goes_on",
    [(1, 1.0, True, {}), (1, 1.0, "False", False, {}), (1, None, True, False, {}), (1, math.nan, True, False, {})],
)
def test_a_step_of_another_form_is_no_reward(goes_on: Any):
    env = GymEnv(partial(Odd, goes_on=goes_on))
    env.reset(seed=0)
    with pytest.raises(InfrastructureError):
        env.step(act(0))


@each_row(
    "space, arguments",
    [
        (spaces.Box(-np.inf, np.inf, (2,), np.float32), [0, -(10**60)]),
        (spaces.Box(0, 255, (), np.uint8), -1),
        (spaces.Text(3, charset="ab"), "abc"),
        (spaces.Discrete(2), "jump"),
    ],
)
def test_an_action_that_a_space_cannot_hold_is_the_models_mistake(space: spaces.Space[Any], arguments: Any):
    env = GymEnv(partial(Odd, action_space=space), dialect="native")
    env.reset(seed=0)
    assert text_of(env.step(act(arguments)).observation[-1]).startswith("Error: ")
