"""Players, episodes and traces of the checks, and messages about their differences."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.check.outcomes import CheckFailed
from agentgym.check.play import Broken, difference, idle_player, must_equal, play, replayed
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, assistant, text_of
from agentgym.core.policy import solution_player
from agentgym.core.task import Task
from tests.counter_env import Counter, call, counter_task
from tests.refusals import differing, refusal

TASK = counter_task("test", 2)


def say(*actions: Action) -> Any:
    """Return a player of some actions."""
    return lambda env, task: iter(actions)


class Patient(Counter):
    """Has no turn limit."""

    def _limit_reached(self) -> Reason | None:
        return None


class Proofless(Counter):
    """Has a solution that no dialect can write as JSON."""

    def solution(self, task: Task) -> Any:
        yield ToolCall("add", {"number": float("inf")})
        yield "I am done."


class Careless(Counter):
    """Changes its task."""

    def start(self, task: Task) -> None:
        super().start(task)
        task.data["also"] = 5  # type: ignore[index]


# Episodes.


def test_an_episode_is_played_until_it_ends_or_its_player_stops():
    episode = play(Counter(), TASK, 4, say(call("add", number=3), call("done"), call("add", number=1)))
    assert [text_of(result.observation[-1]) for result in episode.results] == ["count 3", "noted"]
    assert episode.actions == [call("add", number=3), call("done")]
    assert (episode.outcome, episode.reward, episode.ended, episode.reason) == (1.0, 1.0, True, Reason.ANSWERED)
    assert [turn["final"] for turn in episode.turns] == [0.0, 1.0]
    unfinished, empty = play(Counter(), TASK, 4, say(call("add", number=3))), play(Counter(), TASK, 4, say())
    assert (unfinished.ended, unfinished.reason, len(unfinished.results)) == (False, None, 1)
    assert (empty.ended, empty.reason, empty.outcome, empty.reward) == (False, None, 0.0, 0.0)
    assert len(play(Patient(max_turns=4), TASK, 0, idle_player).results) > 4, (
        "players stop after some turns beyond the limit"
    )


def test_an_episode_replays_identically_and_reports_changes_of_its_task():
    episode = play(Counter(), TASK, 4, solution_player)
    again = replayed(Counter(), episode)
    assert again.trace() == episode.trace()
    assert len(again.trace()) == 1 + len(episode.results)
    assert episode.task_change is None
    changed = play(Careless(), counter_task("test", 2), 0, solution_player)
    assert "changed task.data['also']" in str(changed.task_change)


def test_a_broken_episode_names_the_turn_and_keeps_the_turns_before():
    class NoDisk(Counter):
        """Fails in `start`."""

        def start(self, task: Task) -> None:
            raise OSError("no disk")

    rows = [((call("add", number=13),), "turn 1"), (("hm", call("add", number=13)), "turn 2")]
    for actions, where in rows:
        with pytest.raises(Broken, match=rf"task 'counter/test/2', {where}: .*broken inside") as broken:
            play(Counter(), TASK, 0, say(*actions))
        assert len(broken.value.episode.results) == len(actions) - 1
    assert "task 'counter/test/2', reset: " in refusal(lambda: play(NoDisk(), TASK, 0, idle_player), raises=Broken)


def test_ctrl_c_is_not_an_error_of_the_episode():
    def player(env: Env, task: Task) -> Iterator[Action]:
        raise KeyboardInterrupt
        yield ""

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the signal may be ignored here
    try:
        with pytest.raises(KeyboardInterrupt):
            play(Counter(), TASK, 0, player)
    finally:
        signal.signal(signal.SIGINT, before)


# Players.


def test_the_solution_is_written_in_the_dialect_or_else_as_a_message():
    episode = play(Counter(dialect="fenced"), TASK, 0, solution_player)
    assert [type(action) for action in episode.actions] == [str, str]
    assert episode.outcome == 1.0
    first, second = play(Proofless(), TASK, 0, solution_player).actions
    assert first == assistant("", [ToolCall("add", {"number": float("inf")})])
    assert second == "I am done."


# Traces and differences.


def test_the_first_different_turn_is_named():
    rows: list[tuple[Any, str]] = [
        ((["a"], ["b"]), "here: the opening differs: ‹a› became ‹b›. Do this."),
        ((["a", "b", "c"], ["a", "b", "d"]), "here: turn 2 differs: ‹c› became ‹d›. Do this."),
        ((["a", "b"], ["a", "b", "c"]), "here: 1 turns the first time, 2 the second. Do this."),
        ((["a", "b"], ["a"]), "here: 1 turns the first time, 0 the second. Do this."),
    ]
    problem = lambda pair: refusal(lambda: must_equal(pair[0], pair[1], "here", "Do this."), raises=CheckFailed)  # noqa: E731
    assert differing(problem, rows) == []
    must_equal(["a"], ["a"], "here", "Do this.")


def test_a_difference_far_into_a_text_is_shown_with_context():
    left, right = "x" * 500 + "old" + "y" * 500, "x" * 500 + "new" + "y" * 500
    text = difference(left, right)
    before, _, after = text.partition(" became ")
    assert ("xold" in before, "xnew" in after, len(text) < 250) == (True, True, True)
    assert difference("abc", "abcd") == "‹abc› became ‹abcd›"
    assert difference("b" + "x" * 9, "c" + "x" * 9) == "‹bxxxxxxxxx› became ‹cxxxxxxxxx›"
