"""A server of environments under a little of the load of `benchmarks/serve_load.py`."""

from __future__ import annotations

import os
import threading
from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from benchmarks._load_players import Clients, Order, native
from benchmarks.serve_load import Load, Usage, server_of, summed, under_load, waited_ms

pytestmark = pytest.mark.nightly


SPARE_THREADS = 10
"""Idle threads of the server that wait for more work for a while."""


def test_misbehaving_clients_cost_honest_ones_nothing_and_leave_nothing_behind():
    load = Load(sessions=6, processes=1, idle_s=4.0, think_s=0.0)
    with server_of(load) as server:
        server.counts()
        start = server.at_rest(30.0)
        counts = under_load(server, load, 0.0)
        assert counts["honest"]["episodes"] > 6
        assert (counts["honest"]["failed"], counts["honest"]["different"]) == (0, 0), counts["honest"]["problems"]
        kinds = {kind.partition(":")[0] for kind in counts["troublemakers"]}
        assert {"vanished", "killed", "malformed body", "malformed bytes", "malformed frame", "unread"} <= kinds
        answers = {"intruder: 401", "oversized body: 413", "oversized message: 1009", "abandoned: 200"}
        assert answers <= counts["troublemakers"].keys()
        like = replace(start, threads=start.threads + SPARE_THREADS)
        rested = server.at_rest(30.0, like)
        assert server.counts()["agentgym_sessions"] == 0
        assert (rested.threads <= like.threads, rested.files <= like.files) == (True, True), rested
        assert server.complaints() == []


def test_an_episode_that_differs_is_noticed():
    expected = native()
    expected[0][2] = "something else"
    load = Load(sessions=1, processes=1)
    with server_of(load) as server:
        clients = Clients(Order(server.url, server.token, 1), expected)
        clients.begin(threading.Event())
        while server.counts().get('agentgym_requests_total{op="reset",outcome="ok"}', 0) < 3:
            pass
        counts = summed([clients.end()])
    assert (counts["failed"], counts["different"]) == (0, 1)
    assert counts["episodes"] >= 2


def test_shares_of_waits_are_of_all_waits():
    waits = Counter({0: 98, 49: 1, 999: 1})
    assert (waited_ms(waits, 0.5), waited_ms(waits, 0.99), waited_ms(waits, 1.0)) == (0.1, 5.0, 100.0)


def test_the_usage_of_a_process_is_that_of_linux():
    usage = Usage.of(os.getpid())
    assert usage.memory_mb > 10
    assert usage.threads >= 1
    assert usage.files >= 3
