"""Times of turns are recorded, but do not affect equality."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.messages import ToolCall
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.timing import Span, TurnTimes, total_times
from agentgym.core.trajectory import Trajectory, Turn, read_jsonl, write_jsonl
from agentgym.eval.results.entry import entry_of
from agentgym.eval.summary import summarize
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from tests.desks import Desk, MixedDesk, trajectory
from tests.refusals import not_refused
from tests.view_cases import errand

ROUNDING_S = 1e-5
TIMES = TurnTimes(0.1, 0.6, 0.2, 0.1, (Span("look", 0.0, 0.15),), Span("grade", 0.16, 0.03))


def times_of(turns: list[Turn]) -> list[TurnTimes]:
    return [turn.times for turn in turns if turn.times is not None]


FACTORY = EnvFactory("agentgym/guess-v0", {})


def play(policy: Any, workers: Any = "threads") -> Trajectory:
    """Return an episode of the guessing game."""
    with RolloutEngine(FACTORY, policy, Limits(), workers=workers) as engine:
        [group] = engine.collect([Group(FACTORY().tasks.get("train", 3), 0)])
    return group.trajectories[0]


@pytest.mark.parametrize("workers", ["inline", "threads", pytest.param("processes", marks=pytest.mark.real)])
def test_every_turn_records_its_waits_in_all_workers(workers: Any):
    episode = play(ScriptedPolicy(), workers)
    times = times_of(episode.turns)
    assert len(times) == len(episode.turns) > 1
    reached = 0.0
    for turn_times in times:
        assert turn_times.began_s >= reached - ROUNDING_S
        reached = turn_times.began_s + turn_times.generation_s + turn_times.environment_s
        assert {call.name for call in turn_times.calls} == {"guess"}
        for part in (*turn_times.calls, *([turn_times.grading] if turn_times.grading else [])):
            assert -ROUNDING_S <= part.began_s <= part.began_s + part.seconds <= turn_times.environment_s + ROUNDING_S
    assert reached <= episode.seconds + ROUNDING_S
    assert [turn_times.grading is not None for turn_times in times] == [False] * (len(times) - 1) + [True]


@pytest.mark.parametrize("kind", [Desk, MixedDesk])
def test_calls_that_ran_at_the_same_time_overlap(kind: type[Desk]):
    """Each of the two calls waits until the other runs."""
    episode = trajectory(None, ToolCall("meet"), ToolCall("meet"), kind=kind.__name__)
    first, second = times_of(episode.turns)[0].calls
    assert max(first.began_s, second.began_s) <= min(first.began_s + first.seconds, second.began_s + second.seconds)


def test_times_are_stored_but_do_not_affect_equality(tmp_path: Path):
    turn = Turn("a", [], {"outcome": 0.0}, 0.0, times=TIMES)
    assert turn == replace(turn, times=None) == replace(turn, times=replace(TIMES, generation_s=9.0))
    write_jsonl(tmp_path / "a.jsonl", [errand(turns=[turn])])
    [again] = read_jsonl(tmp_path / "a.jsonl")
    assert again.turns[0].times == TIMES


def test_recordings_without_times_load_and_count_as_not_measured():
    data = errand().to_dict()
    for turn in data["turns"]:
        del turn["times"]
    episode = Trajectory.from_dict(json.loads(json.dumps(data)))
    assert episode == errand()
    assert times_of(episode.turns) == []
    entry = entry_of(episode)
    assert (entry.generation_s, entry.environment_s) == (None, None)
    assert summarize([episode]).generation_seconds is None
    summary = summarize([errand(0), errand(1)])
    assert (summary.generation_seconds, summary.environment_seconds) == pytest.approx((1.2, 0.4))
    assert total_times([TIMES, None]) == (None, None)


def test_wrong_times_are_refused_with_their_place():
    rows: list[tuple[tuple[str, Any], str]] = [
        (("began_s", None), "'began_s' of 'times' of turn 1 must be a number of seconds"),
        (("queued_s", "long"), "'queued_s'"),
        (("calls", [["look", 0.0]]), "'calls'"),
        (("more", 1), "has no field 'more'"),
    ]

    def read(change: tuple[str, Any]) -> Trajectory:
        data = errand().to_dict()
        data["turns"][0]["times"][change[0]] = change[1]
        return Trajectory.from_dict(data)

    assert not_refused(read, rows) == []
