"""The verdict on a run: its numbers, and the suggestion that follows from them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.eval.summary import summarize
from agentgym.trainers.config import TrainConfig
from agentgym.trainers.logbook.verdict import Verdict, verdict_on
from tests.rows import each_row

CONFIG = TrainConfig(env="guess", output_dir="run", steps=10)
RISING = [{"step": step, "reward": step / 10, "flat_groups": 0.2} for step in range(1, 11)]


def episodes(solved: int, reason: Reason = Reason.ANSWERED, *, cut: int = 0, unreadable: int = 0) -> list[Trajectory]:
    """Return an episode of one turn for each of twenty tasks."""
    turns = [Turn("a", [], {"outcome": float(number < solved)}, 0.0) for number in range(20)]
    for turn in turns[:cut]:
        turn.finish = "length"
    return [
        Trajectory(
            f"guess/{number}", "guess", f"guess/{number}", "hash", 0, "tiny", [], turns=[turn], reason=reason,
            counts={"format_errors": int(number < unreadable)},
        )
        for number, turn in enumerate(turns)
    ]  # fmt: skip


def verdict(before: int, after: list[Trajectory], metrics: Any = RISING, config: TrainConfig = CONFIG) -> Verdict:
    return verdict_on(config, episodes(before), after, summarize(after), metrics)


def test_the_numbers_are_those_of_the_evaluations_and_of_training():
    result = verdict(2, [*episodes(12, cut=3)[:15], *episodes(12, Reason.MAX_TURNS)[15:]])
    assert result.gain == pytest.approx(0.5)
    assert result.interval is not None
    assert 0 < result.interval.low < 0.5 < result.interval.high < 1
    assert (result.ending, result.ending_share) == ("answered", 0.75)
    assert (result.flat_groups, result.cut_turns) == (pytest.approx(0.2), pytest.approx(3 / 20))
    assert "gain +50.0 points (" in result.text
    assert f"next: {result.suggestion}" in result.text


def flat(share: float) -> list[dict[str, float]]:
    return [{**line, "flat_groups": share, "reward": 0.5} for line in RISING]


@each_row(
    "before, after, metrics, advice",
    [
        (2, episodes(12, cut=2), RISING, "raise --max-new-tokens"),
        (2, episodes(8, unreadable=2), RISING, "calls cannot be read"),
        (2, episodes(3, Reason.MAX_TURNS), RISING, "run out of turns"),
        (2, episodes(3, Reason.CONTEXT), RISING, "raise --context"),
        (2, episodes(3, Reason.GENERATION_TIME, cut=9), RISING, "raise --generation-timeout-s"),
        (15, episodes(20), RISING, "choose harder ones"),
        (0, episodes(0), flat(0.9), "choose easier tasks"),
        (8, episodes(9), flat(0.9), "raise --group-size (now 8)"),
        (2, episodes(12), RISING, "`agentgym train --resume --output-dir run --steps 20`"),
        (15, episodes(4), RISING, "lower --learning-rate"),
        (8, episodes(9), RISING, "may be chance: continue"),
        (8, episodes(9), flat(0.1), "does not rise: raise --learning-rate"),
        (8, episodes(9, Reason.INFRASTRUCTURE), RISING, "all episodes of the evaluation failed"),
    ],
)
def test_the_suggestion_follows_from_the_first_number_that_explains_the_result(
    before: int, after: list[Trajectory], metrics: Any, advice: str
):
    assert advice in verdict(before, after, metrics).suggestion
