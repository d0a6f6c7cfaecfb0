"""Adversaries without useful work, and the honest attempts that their pay is compared with."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.checks.adversaries import KINDS, junk_arguments
from agentgym.checks.honest import spoiled_values
from agentgym.checks.pay import paid_schemes
from agentgym.checks.play import assistant_call
from agentgym.checks.subject import Subject
from agentgym.messages import ToolCall, text_of
from agentgym.rewards import Scheme
from agentgym.toolset import tool
from tests.sound_envs import SoundEnv


def test_an_environments_own_failing_attempt_is_the_one_that_counts():
    subject = Subject("tests.sound_envs:SoundFailingEnv")
    assert subject.contests
    for contest in subject.contests:
        [attempt] = contest.honest
        assert text_of(attempt.results[-1].observation[-1]) == "Noted, after 1 looks."
        assert "too dark to see" in str(attempt.actions[-1])


def test_a_spoiled_solution_does_the_work_and_fails_at_the_end():
    subject = Subject("tests.sound_envs:SoundEnv")
    solutions = {episode.task.id: episode for episode in subject.episodes("solution")}
    assert subject.contests
    for contest in subject.contests:
        for attempt in contest.honest:
            assert attempt.actions[0] == solutions[contest.task.id].actions[0]
            assert (attempt.outcome, attempt.ended) == (0.0, True)


def test_the_adversaries_stall_repeat_and_hand_in_junk():
    subject = Subject("tests.sound_envs:SoundEnv")
    for contest in subject.contests:
        played = contest.adversaries
        assert {"idle", "helpless", "one call, repeated", "stalling", "junk at once (empty)"} <= set(played)
        assert len(played["stalling"].results) == len(played["one call, repeated"].results) == SoundEnv.max_turns
        pasted = played["one call, then junk (pasted)"]
        looked = text_of(pasted.results[0].observation[-1])
        assert pasted.actions[1] == assistant_call(ToolCall("answer", {"text": looked}))


def test_a_control_that_says_it_is_unsound_is_left_out():
    with Subject("tests.sound_envs:SoundEnv").env(scheme="d_ra") as env:
        assert set(paid_schemes(env)) == {"default", "outcome"}
    with Subject("tests.sound_envs:SoundEnv").env(scheme=Scheme({"outcome": 2.0})) as env:
        assert set(paid_schemes(env)) == {"in use", "default", "outcome"}


@pytest.mark.parametrize("kind", KINDS)
def test_junk_has_the_right_types(kind: str):
    class Everything(SoundEnv):
        """Has a tool that takes everything."""

        @tool
        def take(
            self,
            text: str,
            count: int,
            share: float,
            sure: bool,
            names: list[str],
            way: Literal["a", "b"],
            more: str = "",
        ) -> str:
            """Take it.

            Args:
                text: Words.
                count: How many.
                share: How much.
                sure: Whether.
                names: Which.
                way: How.
                more: Not needed.
            """
            return text

    taken = Everything.tools.get("take")
    arguments = junk_arguments(taken, kind, "the prompt", "the page")
    assert taken.check(arguments) == {**arguments, "more": ""}


@given(st.recursive(st.booleans() | st.integers() | st.text(), lambda parts: st.lists(parts, max_size=3)))
def test_a_spoiled_value_is_another_of_the_same_type(value: Any):
    for changed in spoiled_values(value):
        assert changed != value
        assert type(changed) is type(value)


def test_a_text_is_spoiled_near_its_end():
    texts = list(spoiled_values("select 1 from t\nwhere x = 41"))
    assert texts[:2] == ["select 1 from t\nwhere x = 42", "select 2 from t\nwhere x = 41"]
