"""A server of environments under a little of the load of `benchmarks/serve_load.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from benchmarks.serve_load import Load, server_of, under_load

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
