"""The time of a step and its phases, on a clock that the test moves."""

from __future__ import annotations

from contextlib import suppress

from agentgym.rollout.waits import Waits
from agentgym.trainers.logbook.phases import PhaseClock, Work, phase_metrics, shares_text


class Time:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_moment_counts_for_the_innermost_phase():
    time = Time()
    clock = PhaseClock(time)
    time.now += 1
    with clock.phase("learn"):
        time.now += 2
        with clock.phase("rollouts"):
            time.now += 4
            with suppress(ValueError), clock.phase("sync"):
                time.now += 8
                raise ValueError
        time.now += 16
        assert clock.lap() == {"idle": 1, "learn": 18, "rollouts": 4, "sync": 8}
        time.now += 32
    assert clock.lap() == {"learn": 32, "idle": 0}


def test_the_metrics_add_up_to_the_step_and_hold_the_speed_of_each_phase():
    lap = {"rollouts": 6.0, "learn": 4.0, "sync": 1.0, "diagnostics": 0.5, "idle": 0.5}
    work = Work(sampled_tokens=200, learned_tokens=800, learned_flops=8000.0, peak_flops=4000.0)
    metrics = phase_metrics(lap, 5.0, work)
    seconds = {name: value for name, value in metrics.items() if name.startswith("seconds/")}
    assert sum(seconds.values()) == 12.0
    assert (seconds["seconds/generate"], seconds["seconds/tools"]) == (5.0, 1.0)
    assert metrics["tokens_per_second/generate"] == 40.0
    assert metrics["tokens_per_second/learn"] == 200.0
    assert metrics["mfu"] == 0.5
    assert shares_text(metrics) == "generate 42%, learn 33%, tools 8%, sync 8%, diagnostics 4%, idle 4%, MFU 50%"


def test_sampling_during_other_phases_does_not_count_twice():
    metrics = phase_metrics({"rollouts": 2.0, "learn": 8.0}, 7.0, Work())
    assert (metrics["seconds/generate"], metrics["seconds/tools"], metrics["seconds/learn"]) == (2.0, 0.0, 8.0)
    assert not [name for name in metrics if not name.startswith("seconds/")]


def test_waits_count_the_time_in_which_any_trajectory_waits_for_a_component():
    time = Time()
    waits = Waits(time)
    waits.begin("a", "policy", "tiny")
    time.now += 1
    waits.begin("b", "policy", "tiny")
    time.now += 2
    waits.begin("a", "step", "env")
    time.now += 4
    assert (waits.seconds("policy"), waits.seconds("step")) == (7, 4)
    waits.end("b")
    time.now += 8
    assert (waits.seconds("policy"), waits.seconds("step"), waits.seconds("reset")) == (7, 12, 0)
    waits.end("a")
    time.now += 16
    assert waits.seconds("step") == 12
    waits.begin("a", "policy", "tiny")
    time.now += 32
    assert waits.seconds("policy") == 39
    assert "a  waits for policy (tiny)" in waits.report()
