from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.envs.guess import GuessEnv
from agentgym.messages import user
from agentgym.policy import FunctionPolicy, RandomPolicy, ScriptedPolicy, SilentPolicy
from agentgym.replay import replay
from agentgym.rewards import OUTCOME
from agentgym.rollout import EnvFactory, Job, collect
from agentgym.task import Task
from agentgym.trajectory import Trajectory, Turn

TASK = GuessEnv.default_tasks().get("train", 1)


def recorded(policy: Any, task: Task = TASK, **kwargs: Any) -> Trajectory:
    factory = EnvFactory("agentgym/guess-v0", kwargs)
    return asyncio.run(collect([Job(task, seed=5)], policy, factory))[0]


QUITTER = FunctionPolicy("quitter", lambda conversation: None)


@pytest.mark.parametrize("policy", [ScriptedPolicy(), RandomPolicy(), SilentPolicy(), QUITTER], ids=lambda p: p.name)
def test_what_was_recorded_comes_out_again_also_after_storage(policy: Any):
    trajectory = recorded(policy, max_turns=5)
    stored = Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict())))
    assert replay(stored) is None


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"observation": [user("It is colder.")]}, "observation"),
        ({"rewards": {OUTCOME: 0.5, "format": 1.0}}, "rewards"),
        ({"reward": 0.25}, "reward"),
    ],
)
def test_a_planted_difference_is_found_where_it_is(changed: dict[str, Any], what: str):
    trajectory = recorded(ScriptedPolicy())
    trajectory.turns[1] = replace(trajectory.turns[1], **changed)
    found = replay(trajectory)
    assert found is not None
    assert (found.turn, found.what) == (2, what)
    assert f"turn 2: {what} was" in str(found)


def test_a_changed_opening_is_found():
    trajectory = recorded(ScriptedPolicy())
    trajectory.opening = [user("Find it!")]
    found = replay(trajectory)
    assert found is not None
    assert (found.turn, found.what) == (0, "opening")


def test_a_changed_task_is_found_before_anything_is_played():
    trajectory = recorded(ScriptedPolicy())
    trajectory.task_hash = "0" * 64
    found = replay(trajectory)
    assert found is not None
    assert found.what == "task"


def test_another_ending_is_found():
    trajectory = recorded(ScriptedPolicy())
    trajectory.reason = Reason.ANSWERED
    found = replay(trajectory)
    assert found is not None
    assert (found.what, found.recorded, found.replayed) == ("ending", Reason.ANSWERED, Reason.SOLVED)


def test_an_episode_that_now_ends_earlier_is_a_difference_and_no_crash():
    trajectory = recorded(ScriptedPolicy())
    trajectory.turns.append(Turn("more", [], {}, 0.0))
    found = replay(trajectory)
    assert found is not None
    assert (found.turn, found.what) == (len(trajectory.turns) - 1, "ending")


def test_a_failed_trajectory_is_compared_as_far_as_it_went():
    trajectory = recorded(ScriptedPolicy())
    trajectory.turns.pop()
    trajectory.reason, trajectory.error = Reason.INFRASTRUCTURE, "OSError: disk on fire"
    assert replay(trajectory) is None


def test_a_task_from_elsewhere_can_be_given():
    task = replace(TASK, id="mine/1", gold={"number": 3})
    trajectory = recorded(ScriptedPolicy(), task)
    assert replay(trajectory, task=task) is None


def test_a_given_environment_stays_open():
    class Watched(GuessEnv):
        closed = False

        def release(self) -> None:
            self.closed = True

    env = Watched()
    assert replay(recorded(ScriptedPolicy()), env) is None
    assert not env.closed
