"""Players, episodes and traces of the checks, and messages about their differences."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.check.outcomes import CheckFailed
from agentgym.check.play import Broken, idle_player, must_equal, play, replayed
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.messages import text_of
from agentgym.core.policy import solution_player
from agentgym.core.task import Task
from tests.counter_env import Counter, call, counter_task
from tests.refusals import differing, refusal

TASK = counter_task("test", 2)


def say(*actions: Action) -> Any:
    """Return a player of some actions."""
    return lambda env, task: iter(actions)


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
