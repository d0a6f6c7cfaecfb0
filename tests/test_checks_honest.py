"""Honest attempts that fail: what junk must not be paid more than."""

from __future__ import annotations

from itertools import islice
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.checks.contest import contest
from agentgym.checks.honest import failing_attempts, spoiled_values
from agentgym.checks.play import Episode, assistant_call, play
from agentgym.checks.subject import Subject
from agentgym.endings import Reason
from agentgym.engine.steps import Solution, StepResult
from agentgym.env import Env
from agentgym.messages import ToolCall, text_of
from agentgym.rewards import OUTCOME
from agentgym.script import solution_player, written
from agentgym.task import Task
from agentgym.toolset import tool
from tests.sound_envs import SoundEnv, SoundFailingEnv, SoundTalkEnv, boxes_task

TASK = boxes_task("train", 0)


def test_an_environments_own_failing_attempt_is_the_one_that_counts():
    subject = Subject("tests.sound_envs:SoundFailingEnv")
    assert subject.contests
    for one in subject.contests:
        [attempt] = one.honest
        assert text_of(attempt.results[-1].observation[-1]) == "Noted, after 1 looks."
        assert "too dark to see" in str(attempt.actions[-1])


def test_a_spoiled_solution_does_the_work_and_fails_at_the_end():
    subject = Subject("tests.sound_envs:SoundEnv")
    solutions = {episode.task.id: episode for episode in subject.episodes("solution")}
    assert subject.contests
    for one in subject.contests:
        for attempt in one.honest:
            assert attempt.actions[0] == solutions[one.task.id].actions[0]
            assert (attempt.outcome, attempt.ended) == (0.0, True)


def parsed(env: Env, text: str) -> list[Any]:
    return [call.to_dict() for call in env.dialect.parse(text, env.tools).calls]


class Graded(SoundEnv):
    """Looks three times, then answers; `right` says which answers are right. Remembers what was tried."""

    right = staticmethod(lambda env, text: text == env.task.gold["content"])
    tried: ClassVar[list[list[str]]] = []

    def start(self, task: Task) -> str:
        self.tried.append([])
        return super().start(task)

    def step(self, action: Any) -> StepResult:
        calls = action.get("tool_calls", ()) if isinstance(action, dict) else parsed(self, action)
        self.tried[-1] += [value for call in calls for value in call["function"]["arguments"].values()]
        return super().step(action)

    @tool
    def answer(self, text: str) -> str:
        """Answer and end.

        Args:
            text: What is in the box.
        """
        self.reward(OUTCOME, float(self.right(self, text)))
        self.finish(Reason.ANSWERED)
        return "Noted."

    def solution(self, task: Task) -> Solution:
        for box in ("1", "2", "3"):
            yield ToolCall("look", {"box": box})
        yield ToolCall("answer", {"text": task.gold["content"]})


class Asking(Graded):
    """Takes an answer when it is given for the second time, and a wrong one never."""

    @tool
    def answer(self, text: str) -> str:
        """Answer and end.

        Args:
            text: What is in the box.
        """
        if text == self.task.gold["content"]:
            return super().answer(text)
        return "Think again."


def solved(env: Env, number: int = 0) -> Episode:
    task = boxes_task("train", number)
    return Subject(f"{type(env).__module__}:{type(env).__qualname__}").play(task, "solution", env)


def test_two_failing_attempts_are_enough_and_they_end_as_solutions_do():
    env = Graded()
    found = failing_attempts(env, solved(env), [])
    assert [attempt.outcome for attempt in found] == [0.0, 0.0]
    assert all(attempt.ended and attempt.results[-1].terminated for attempt in found)
    assert [attempt.actions[:3] for attempt in found] == [solved(env).actions[:3]] * 2


def test_where_nothing_fails_the_end_is_spoiled_first_then_taken_from_elsewhere_then_the_work(
    monkeypatch: pytest.MonkeyPatch,
):
    env = Graded()
    right, other = solved(env), solved(env, 1)
    content, elsewhere = right.task.gold["content"], other.task.gold["content"]
    monkeypatch.setattr(Graded, "right", staticmethod(lambda env, text: True))
    Graded.tried.clear()
    assert failing_attempts(env, right, [right, other]) == []
    looks = ["1", "2", "3"]
    tried = list(Graded.tried)
    spoiled = list(islice(spoiled_values(content), 5))
    count = len(spoiled)
    assert tried[:count] == [[*looks, text] for text in spoiled]
    assert tried[count] == [*looks, elsewhere]
    assert tried[count + 1] == ["1", "2", content]
    rest = tried[count + 2 :]
    assert len(tried) <= 24
    assert all(attempt[-1] == content and len(attempt) == 4 for attempt in rest)
    places = [[i for i in range(3) if attempt[i] != looks[i]] for attempt in rest]
    assert places == sorted(places, reverse=True), "the last steps first"
    assert {tuple(place) for place in places} == {(2,), (1,), (0,)}


def test_no_more_than_two_dozen_ways_are_tried(monkeypatch: pytest.MonkeyPatch):
    class Verbose(Graded):
        """Looks often."""

        max_turns = 20

        def solution(self, task: Task) -> Solution:
            for box in ("1", "2", "3", "4", "5") * 3:
                yield ToolCall("look", {"box": box})
            yield ToolCall("answer", {"text": task.gold["content"]})

    monkeypatch.setattr(Verbose, "right", staticmethod(lambda env, text: True))
    env = Verbose()
    right = play(env, TASK, 0, solution_player)
    Verbose.tried.clear()
    assert failing_attempts(env, right, []) == []
    assert len(Verbose.tried) == 24


def test_a_solution_of_one_step_is_not_played_without_it():
    class AtOnce(Graded):
        """Answers at once."""

        right = staticmethod(lambda env, text: True)

        def solution(self, task: Task) -> Solution:
            yield ToolCall("answer", {"text": task.gold["content"]})

    env = AtOnce()
    right = play(env, TASK, 0, solution_player)
    AtOnce.tried.clear()
    assert failing_attempts(env, right, []) == []
    assert AtOnce.tried == [[text] for text in islice(spoiled_values(TASK.gold["content"]), 5)]


def test_a_spoiled_end_is_repeated_until_the_limit_and_counts_where_nothing_else_fails():
    env = Asking()
    found = failing_attempts(env, solved(env), [])
    assert len(found) == 2
    for attempt in found:
        assert attempt.reason is Reason.MAX_TURNS
        assert attempt.actions[3:] == [attempt.actions[3]] * (env.max_turns - 3)


def test_an_attempt_of_its_own_is_sent_what_it_observes():
    env = SoundFailingEnv()
    [attempt] = failing_attempts(env, solved(env), [])
    assert attempt.outcome == 0.0
    assert attempt.actions == [
        written(env, ToolCall("look", {"box": TASK.gold["box"]})),
        written(env, ToolCall("answer", {"text": "it was too dark to see"})),
    ]


def test_text_is_spoiled_as_text():
    env = SoundTalkEnv()
    right = play(env, env.tasks.get("train", 0), 0, solution_player)
    found = failing_attempts(env, right, [])
    assert len(found) == 2
    assert all(isinstance(attempt.actions[0], str) and attempt.outcome == 0.0 for attempt in found)


@pytest.mark.parametrize(
    ("value", "spoiled"),
    [
        (True, [False]),
        (4, [5, 3]),
        (0.5, [1.5, -0.5]),
        ([], []),
        ([1, 2, 3], [[1, 2], [3, 2, 1], [1, 2, 4], [1, 2, 2]]),
        ([1, 1], [[1], [1, 2], [1, 0]]),
        ({"a": 1, "b": True}, [{"a": 2, "b": True}, {"a": 0, "b": True}, {"a": 1, "b": False}]),
        (None, []),
        ("", []),
        ("one", ["eno"]),
        ("first of all", ["first of lla", "first of"]),
        ("3 of 10 boxes", ["3 of 11 boxes", "4 of 10 boxes", "3 of 10 sexob", "3 of 10"]),
        ("7", ["8", "8"]),
        ("say what is what", ["say what is tahw", "say what is"]),
        ("a b\nc d\ne f\n", ["a b\nc d\ne", "a b\nc d"]),
        ("a b\nc dd", ["a b\nc"]),
    ],
)
def test_values_are_spoiled_near_what_they_are(value: Any, spoiled: list[Any]):
    assert list(spoiled_values(value)) == spoiled


@given(st.recursive(st.booleans() | st.integers() | st.text(), lambda parts: st.lists(parts, max_size=3)))
def test_a_spoiled_value_is_another_of_the_same_type(value: Any):
    for changed in spoiled_values(value):
        assert changed != value
        assert type(changed) is type(value)


def test_a_text_is_spoiled_near_its_end():
    texts = list(spoiled_values("select 1 from t\nwhere x = 41"))
    assert texts[:2] == ["select 1 from t\nwhere x = 42", "select 2 from t\nwhere x = 41"]


def test_where_no_attempt_fails_there_is_no_contest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Graded, "right", staticmethod(lambda env, text: True))
    env = Graded()
    assert contest(env, solved(env), []) is None


def test_a_contest_begins_with_the_solutions_first_action_and_takes_more_adversaries():
    env = Graded()
    right, answer = solved(env), assistant_call(ToolCall("answer", {"text": "1"}))
    found = contest(env, right, [], {"mine": lambda env, task: iter([answer])})
    assert found is not None
    assert found.adversaries["one call, repeated"].actions == [right.actions[0]] * env.max_turns
    assert found.adversaries["mine"].actions == [answer]
    assert "junk at once (empty)" in found.adversaries, "the solution shows which tool ends an episode"
