"""Conversations stay where their prefix is cached, and move when their server is lost."""

from __future__ import annotations

from collections import Counter

from agentgym.trainers.vllm.server_policy import Replica, ReplicaFleet


def place(fleet: ReplicaFleet, session: str) -> Replica:
    replica = fleet.replica_of(session)
    assert replica is not None
    return replica


def test_conversations_stay_and_are_spread():
    fleet = ReplicaFleet(["a", "b", "c"])
    places = {str(n): place(fleet, str(n)).url for n in range(30)}
    assert Counter(places.values()) == {"a": 10, "b": 10, "c": 10}
    assert places == {session: place(fleet, session).url for session in places}


def test_a_lost_replica_loses_its_conversations_and_gets_new_ones_later():
    fleet = ReplicaFleet(["a", "b"])
    lost, stayed = place(fleet, "x"), place(fleet, "y")
    fleet.failed(lost, now=0.0)
    assert place(fleet, "x") is stayed
    assert fleet.due(now=0.0) == []
    assert fleet.due(now=1.0) == [lost]
    fleet.answered(lost)
    assert place(fleet, "x") is stayed  # its prefix is there now
    assert place(fleet, "z") is lost


def test_a_replica_that_stays_down_is_asked_ever_more_rarely_but_asked():
    fleet = ReplicaFleet(["a"])
    [replica] = fleet.replicas
    pauses = []
    for _ in range(1100):  # hours
        fleet.failed(replica, now=100.0)
        pauses.append(replica.retry_at - 100.0)
    assert pauses[0] < 1 < pauses[-1] <= 15
    assert fleet.replica_of("x") is None
