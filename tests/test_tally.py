"""The counts of a server of environments."""

from __future__ import annotations

import threading

import pytest

from agentgym.tools.env_server.tally import Tally


def test_requests_of_many_threads_are_all_counted_once():
    tally, threads, each = Tally(), 8, 2_500

    def work(number: int) -> None:
        for _ in range(each):
            tally.note("step", "ok" if number % 2 else "usage", 0.5)

    working = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in working:
        thread.start()
    seen = [tally.totals()[0] for _ in range(20)]
    for thread in working:
        thread.join()
    counts, busy_s = tally.totals()
    assert counts == {("step", "ok"): 4 * each, ("step", "usage"): 4 * each}
    assert busy_s == {"step": pytest.approx(threads * each * 0.5)}
    assert [sum(now.values()) for now in seen] == sorted(sum(now.values()) for now in seen)


def test_what_is_counted_needs_no_memory_for_each_request():
    tally = Tally()
    for _ in range(10_000):
        tally.note("step", "ok", 0.0)
    assert len(tally._new) < 1_001


def test_a_thread_that_counts_never_waits_for_one_that_sums_up():
    tally = Tally()
    with tally._lock:
        for _ in range(3_000):
            tally.note("step", "ok", 0.0)
    assert tally.totals()[0] == {("step", "ok"): 3_000}
