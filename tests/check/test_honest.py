"""Honest attempts that fail: spoiled solutions, or an environment's own failing attempt."""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from agentgym.check.honest import contest, failing_attempts, spoiled_values
from agentgym.check.play import CheckedEpisode, assistant_call, play
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution, StepResult
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import as_action, solution_player
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import Task
from tests.check.sound_envs import SoundEnv, SoundFailingEnv, boxes_task
from tests.refusals import differing

TASK = boxes_task("train", 0)


def test_an_environments_own_failing_attempt_replaces_spoiled_solutions():
    env = SoundFailingEnv()
    [attempt] = failing_attempts(env, solved(env), [])
    calls = [ToolCall("look", {"box": TASK.gold["box"]}), ToolCall("answer", {"text": "it was too dark to see"})]
    assert attempt.actions == [as_action(env, call) for call in calls]


class Graded(SoundEnv):
    """Looks three times, then answers. Records the played arguments."""

    episodes: ClassVar[list[list[str]]] = []

    def start(self, task: Task) -> str:
        self.episodes.append([])
        return super().start(task)

    def step(self, action: Any) -> StepResult:
        calls = (
            action["tool_calls"]
            if isinstance(action, dict)
            else [call.to_dict() for call in self.dialect.parse(action, self.tools).calls]
        )
        self.episodes[-1] += [value for call in calls for value in call["function"]["arguments"].values()]
        return super().step(action)

    def solution(self, task: Task) -> Solution:
        for box in ("1", "2", "3"):
            yield ToolCall("look", {"box": box})
        yield ToolCall("answer", {"text": task.gold["content"]})


class Lenient(Graded):
    """Accepts every answer."""

    def take(self, text: str) -> str:
        self.reward(OUTCOME, 1.0)
        self.finish(Reason.ANSWERED)
        return "Noted."


def solved(env: Env, number: int = 0) -> CheckedEpisode:
    return play(env, env.tasks.get("train", number), 0, solution_player)


def vain_attempts(env: Lenient, others: list[CheckedEpisode]) -> list[list[str]]:
    """Return the episodes of a search for failing attempts where every attempt succeeds."""
    right = solved(env)
    env.episodes.clear()
    assert failing_attempts(env, right, others) == []
    return list(env.episodes)


def test_two_failing_attempts_that_end_like_the_solution_are_enough():
    env = Graded()
    attempts = failing_attempts(env, solved(env), [])
    assert [attempt.outcome for attempt in attempts] == [0.0, 0.0]
    assert all(attempt.ended and attempt.results[-1].terminated for attempt in attempts)
    assert [attempt.actions[:3] for attempt in attempts] == [solved(env).actions[:3]] * 2


def test_solutions_are_spoiled_at_the_end_first_then_in_earlier_steps():
    env = Lenient()
    content, other, looks = TASK.gold["content"], solved(env, 1), ["1", "2", "3"]
    attempts = vain_attempts(env, [solved(env), other])
    assert contest(env, solved(env), []) is None
    spoiled = list(islice(spoiled_values(content), 5))
    assert attempts[: len(spoiled)] == [[*looks, text] for text in spoiled]
    borrowed, omitted, *rest = attempts[len(spoiled) :]
    assert (borrowed, omitted) == ([*looks, other.task.gold["content"]], ["1", "2", content])
    assert all(attempt[-1] == content and len(attempt) == 4 for attempt in rest)
    places = [[i for i in range(3) if attempt[i] != looks[i]] for attempt in rest]
    assert places == sorted(places, reverse=True), "the last steps first"
    assert {tuple(place) for place in places} == {(2,), (1,), (0,)}


def test_spoiled_values_are_close_to_the_original():
    rows: list[tuple[Any, list[Any]]] = [
        (True, [False]),
        (4, [5, 3]),
        (0.5, [1.5, -0.5]),
        ([], []),
        ([1, 2, 3], [[1, 2], [3, 2, 1], [1, 2, 4], [1, 2, 2]]),
        ({"a": 1, "b": True}, [{"a": 2, "b": True}, {"a": 0, "b": True}, {"a": 1, "b": False}]),
        (None, []),
        ("one", ["eno"]),
        ("first of all", ["first of lla", "first of"]),
        ("3 of 10 boxes", ["3 of 11 boxes", "4 of 10 boxes", "3 of 10 sexob", "3 of 10"]),
        ("a b\nc d\ne f\n", ["a b\nc d\ne", "a b\nc d"]),
    ]
    assert differing(lambda value: list(spoiled_values(value)), rows) == []
    texts = list(spoiled_values("select 1 from t\nwhere x = 41"))
    assert texts[:2] == ["select 1 from t\nwhere x = 42", "select 2 from t\nwhere x = 41"]


@given(st.recursive(st.booleans() | st.integers() | st.text(), lambda parts: st.lists(parts, max_size=3)))
def test_a_spoiled_value_differs_and_has_the_same_type(value: Any):
    for changed in spoiled_values(value):
        assert changed != value
        assert type(changed) is type(value)


def test_a_contest_uses_the_solutions_first_action_and_additional_adversaries():
    env = Graded()
    right, answer = solved(env), assistant_call(ToolCall("answer", {"text": "1"}))
    played = contest(env, right, [], {"mine": lambda env, task: iter([answer])})
    assert played is not None
    assert played.adversaries["one call, repeated"].actions == [right.actions[0]] * env.max_turns
    assert played.adversaries["mine"].actions == [answer]
    assert "junk at once (empty)" in played.adversaries, "derived from the solution's last call"
