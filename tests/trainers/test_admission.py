"""Which groups start and which a step takes: none is lost, none is taken twice, and slow ones hold up nothing."""

from __future__ import annotations

import heapq
import random
from dataclasses import asdict

from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.trainers.admission import AheadAdmission
from tests.rows import each_row


class Run:
    """Training steps on a virtual clock. `kill` ends it like a process, and continues from its last checkpoint."""

    def __init__(self, per_step: int, ahead: int, steps: int):
        self.admission = AheadAdmission(per_step, ahead, per_step * steps)
        self.trained: list[list[int]] = []
        self.checkpoint = asdict(self.admission), 0
        self.admission.start()

    def finish(self, choice: int) -> None:
        running = sorted(self.admission.running)
        if running:
            self.admission.finish(running[choice % len(running)])

    def take(self) -> None:
        waiting, before = self.admission, asdict(self.admission)
        if (numbers := waiting.take()) is None:
            return
        assert numbers == sorted(before["complete"])[: waiting.per_step]
        self.trained.append(numbers)
        self.checkpoint = asdict(waiting), len(self.trained)
        waiting.start()
        assert len(waiting.running | waiting.complete) <= waiting.per_step * (1 + waiting.ahead)

    def kill(self) -> None:
        state, steps = self.checkpoint
        self.admission = AheadAdmission(
            **{**state, "running": set(state["running"]), "complete": set(state["complete"])}
        )
        self.trained = self.trained[:steps]
        self.admission.start()


@settings(max_examples=300, deadline=None)
@given(
    per_step=st.integers(1, 4),
    ahead=st.integers(0, 3),
    steps=st.integers(1, 6),
    events=st.lists(st.tuples(st.sampled_from(["finish", "finish", "take", "kill"]), st.integers(0, 99)), max_size=80),
)
def test_every_group_is_taken_once_also_after_kills(
    per_step: int, ahead: int, steps: int, events: list[tuple[str, int]]
):
    run = Run(per_step, ahead, steps)
    for event, choice in events:
        run.finish(choice) if event == "finish" else run.take() if event == "take" else run.kill()
    while len(run.trained) < steps:
        run.finish(-1)  # the newest first
        run.take()
    assert sorted(number for numbers in run.trained for number in numbers) == list(range(per_step * steps))
    assert run.admission.take() is None
    assert list(run.admission.start()) == []


@settings(max_examples=100, deadline=None)
@given(ahead=st.integers(0, 3), choices=st.lists(st.integers(0, 99), min_size=40, max_size=40))
def test_a_complete_group_waits_for_at_most_ahead_further_steps(ahead: int, choices: list[int]):
    run, complete_since = Run(2, ahead, 20), dict[int, int]()
    for choice in choices:
        run.finish(choice)
        complete_since = {number: len(run.trained) for number in run.admission.complete} | complete_since
        run.take()
    for step, numbers in enumerate(run.trained):
        assert all(step - complete_since[number] <= ahead for number in numbers)


def test_without_steps_ahead_each_step_takes_its_own_groups():
    run = Run(3, 0, 4)
    for _ in range(12):
        run.finish(-1)
        run.take()
    assert run.trained == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def seconds_per_step(ahead: int, shape: float, *, steps: int = 200, per_step: int = 8, learn_s: float = 0.1) -> float:
    """Return the mean time of a step whose groups last 0.5 s or longer, with a tail of a Pareto distribution."""
    draw, now = random.Random(0), 0.0
    admission = AheadAdmission(per_step, ahead, per_step * steps)
    durations = [0.5 * draw.paretovariate(shape) for _ in range(admission.total)]
    ends = [(durations[number], number) for number in admission.start()]
    heapq.heapify(ends)
    for _ in range(steps):
        while admission.take() is None:
            end, number = heapq.heappop(ends)
            now = max(now, end)
            admission.finish(number)
        for number in admission.start():
            heapq.heappush(ends, (now + durations[number], number))
        now += learn_s
    return now / steps


@each_row("shape, least", [(1.2, 2.5), (1.5, 3.0), (3.0, 2.5)])
def test_steps_ahead_hide_a_heavy_tail_on_a_virtual_clock(shape: float, least: float):
    none, one, two = (seconds_per_step(ahead, shape) for ahead in range(3))
    assert none / one > least
    assert one > two
