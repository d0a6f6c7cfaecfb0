from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from agentgym.dialects.hermes import Hermes
from agentgym.engine.steps import Solution
from agentgym.envs.guess import GuessEnv
from agentgym.messages import Message, ToolCall, assistant, text_of, user
from agentgym.script import Script, solution_player, steps, written
from agentgym.toolset import Toolset

GUESS = ToolCall("guess", {"number": 5})


class Narrow(Hermes):
    """Cannot write anything."""

    def render(self, text: str, calls: Sequence[ToolCall], tools: Toolset) -> str:
        raise ValueError("cannot be written")


@pytest.fixture
def env() -> GuessEnv:
    env = GuessEnv()
    env.reset(seed=1)
    return env


def test_a_generator_is_sent_what_followed_each_move_and_nothing_before_the_first():
    heard: list[list[Message]] = []

    def moves() -> Solution:
        heard.append((yield "one"))
        heard.append((yield "two"))

    script = Script(moves())
    assert [script.next_move([user(text)]) for text in ("opening", "first", "second")] == ["one", "two", None]
    assert heard == [[user("first")], [user("second")]]


@pytest.mark.parametrize("moves", [["one", "two"], iter(["one", "two"]), (word for word in ("one", "two"))])
def test_moves_of_any_kind_are_played_in_their_order_and_end(moves: Any):
    script = Script(moves)
    assert [script.next_move([]) for _ in range(4)] == ["one", "two", None, None]


def test_what_a_script_raises_comes_through():
    def moves() -> Solution:
        yield "one"
        raise OSError("no disk")

    script = Script(moves())
    script.next_move([])
    with pytest.raises(OSError, match="no disk"):
        script.next_move([])


def test_a_call_is_written_in_the_dialect_and_everything_else_stays(env: GuessEnv):
    message = assistant("", [GUESS])
    assert written(env, GUESS) == env.dialect.render("", [GUESS], env.tools)
    assert (written(env, "hm"), written(env, message)) == ("hm", message)
    env.dialect = Narrow()
    assert written(env, GUESS) == message, "no dialect can write everything"


def test_steps_end_with_the_episode(env: GuessEnv):
    *_, last = steps(env, solution_player(env, env.task))
    assert (last.terminated, last.info["is_success"]) == (True, True)
    env.reset(seed=1)
    assert len(list(steps(env, [GUESS] * 100))) <= env.max_turns


def test_steps_end_with_the_moves_and_leave_the_episode_to_go_on(env: GuessEnv):
    assert list(steps(env, [])) == []
    (first,) = steps(env, [ToolCall("guess", {"number": -5})])
    assert "Error" in text_of(first.observation[-1])
    assert env.reason is None


def test_a_step_is_not_played_before_it_is_asked_for(env: GuessEnv):
    taken: list[int] = []

    def moves() -> Iterator[ToolCall]:
        for number in (1, 2):
            taken.append(number)
            yield ToolCall("guess", {"number": -number})

    next(steps(env, moves()))
    assert taken == [1]
