"""Times of turns are recorded, but do not affect equality."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.policy import ScriptedPolicy
from agentgym.core.timing import Span, TurnTimes, total_times
from agentgym.core.trajectory import Trajectory, Turn, read_jsonl, write_jsonl
from agentgym.eval.results.entry import entry_of
from agentgym.eval.summary import summarize
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
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
