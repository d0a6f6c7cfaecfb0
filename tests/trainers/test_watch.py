"""Processes that wait for each other name the one that hangs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

from torch.distributed import HashStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]

from agentgym.base.errors import InfrastructureError
from agentgym.trainers.watch import Watch
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

MINUTE = 60.0


class Clock:
    """A time that passes only while somebody sleeps; each sleep takes a minute, and then something happens."""

    def __init__(self, then: Callable[[int], object] = lambda minute: None):
        self.now, self._then = 0.0, then

    def sleep(self, seconds: float) -> None:
        self.now += MINUTE
        self._then(int(self.now / MINUTE))

    def watch(self, store: Any, rank: int, size: int = 2) -> Watch:
        return Watch(store, rank, size, 30 * MINUTE, clock=lambda: self.now, sleep=self.sleep)


def test_processes_meet_as_often_as_each_comes():
    store = HashStore()
    watches = [Watch(store, rank, 3, patience_s=600) for rank in range(3)]
    came: list[tuple[int, int]] = []

    def come(rank: int) -> None:
        for meeting in range(20):
            came.append((meeting, rank))
            watches[rank].meet()

    with ThreadPoolExecutor() as pool:
        list(pool.map(come, range(3)))
    assert [meeting for meeting, _ in came] == [meeting for meeting in range(20) for _ in range(3)]


def test_a_process_that_hangs_is_named_with_its_phase():
    clock, store = Clock(), HashStore()
    waiting, hanging = clock.watch(store, 0), clock.watch(store, 1)
    hanging.report("evaluation before: 3 of 50")
    with pytest.raises(InfrastructureError, match=r"process 1 has been in 'evaluation before: 3 of 50' .* for 30 min"):
        waiting.meet()
    assert clock.now == 30 * MINUTE


def test_a_process_that_never_began_is_named():
    clock = Clock()
    with pytest.raises(InfrastructureError, match="process 1 has been in 'starting'"):
        clock.watch(HashStore(), 0).meet()


def test_a_slow_process_that_makes_progress_is_awaited():
    store = HashStore()
    clock = Clock(lambda minute: slow.meet() if minute == 200 else slow.report("evaluation") if minute % 20 == 0 else 0)
    waiting, slow = clock.watch(store, 0), clock.watch(store, 1)
    waiting.meet()
    assert clock.now == 200 * MINUTE


@each_row("items", [[1, "two", None], [], [bytes(9_000_000), b"small"]])
def test_the_main_process_gets_the_items_of_all(items: list[Any]):
    store = HashStore()
    watches = [Watch(store, rank, 3, patience_s=600) for rank in range(3)]
    for _ in range(2):  # one exchange after another
        assert [list(watch.to_main(iter(items))) for watch in watches[1:]] == [[], []]
        received = list(watches[0].to_main(iter(items)))
        assert len(received) == 3 * len(items)
        assert all(received.count(item) == 3 for item in items)


def test_items_come_while_the_main_process_has_its_own_work():
    store = HashStore()
    main, other = (Watch(store, rank, 2, patience_s=600) for rank in range(2))

    def own() -> Iterator[str]:
        yield "own 1"
        list(other.to_main(["other 1", "other 2"]))
        yield "own 2"

    assert list(main.to_main(own())) == ["own 1", "own 2", "other 1", "other 2"]


def test_a_process_that_stops_sending_is_named():
    clock, store = Clock(), HashStore()
    main, hanging = clock.watch(store, 0), clock.watch(store, 1)
    items = hanging.to_main(hang() for hang in [lambda: 1, lambda: hanging.report("evaluation"), lambda: 1 / 0])
    with pytest.raises(ZeroDivisionError):
        list(items)
    with pytest.raises(InfrastructureError, match="process 1 has been in 'evaluation'"):
        list(main.to_main([0]))


def test_the_end_of_the_main_process_is_named():
    held: Any = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    other = Watch(
        TCPStore("localhost", held.port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=5)),
        1,
        2,
        600,
    )
    del held
    with pytest.raises(InfrastructureError, match="the main process"):
        other.meet()


def test_the_main_process_leaves_last():
    store = HashStore()
    clock = Clock(lambda minute: other.leave() if minute == 3 else None)
    main, other = clock.watch(store, 0), clock.watch(store, 1)
    main.leave()
    assert clock.now == 3 * MINUTE
