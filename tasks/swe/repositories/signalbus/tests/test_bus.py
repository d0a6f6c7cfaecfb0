import pytest
from signalbus import Bus, HandlerError, TopicError


@pytest.fixture
def bus():
    return Bus()


def test_handler_gets_the_event(bus):
    seen = []
    bus.subscribe("order.paid", seen.append)
    event = bus.emit("order.paid", amount=12)
    assert seen == [event]
    assert event["amount"] == 12
    assert event.get("nothing", 0) == 0


def test_other_topics_are_not_seen(bus):
    seen = []
    bus.subscribe("order.paid", seen.append)
    bus.emit("order.sent")
    assert seen == []


def test_priority_then_exactness_then_age(bus):
    calls = []
    bus.subscribe("#", lambda event: calls.append("all"))
    bus.subscribe("a.*", lambda event: calls.append("star"))
    bus.subscribe("a.b", lambda event: calls.append("exact"))
    bus.subscribe("a.b", lambda event: calls.append("younger"))
    bus.subscribe("#", lambda event: calls.append("high"), priority=1)
    bus.subscribe("a.b", lambda event: calls.append("low"), priority=-1)
    bus.emit("a.b")
    assert calls == ["high", "exact", "younger", "star", "all", "low"]


def test_decorator(bus):
    @bus.on("x")
    def handler(event):
        return 5

    assert bus.emit("x").results == [5]
    assert handler(None) == 5


def test_results_leave_none_out(bus):
    bus.subscribe("x", lambda event: None)
    bus.subscribe("x", lambda event: 0)
    assert bus.emit("x").results == [0]


def test_stop(bus):
    calls = []
    bus.subscribe("x", lambda event: event.stop(), priority=1)
    bus.subscribe("x", calls.append)
    assert bus.emit("x").stopped
    assert calls == []


def test_once(bus):
    calls = []
    bus.once("x", calls.append)
    bus.emit("x")
    bus.emit("x")
    assert len(calls) == 1
    assert len(bus) == 0


def test_limit(bus):
    calls = []
    subscription = bus.subscribe("x", calls.append, limit=2)
    for _ in range(4):
        bus.emit("x")
    assert subscription.calls == 2
    with pytest.raises(ValueError):
        bus.subscribe("x", calls.append, limit=0)


def test_where(bus):
    calls = []
    bus.subscribe("x", calls.append, where=lambda event: event["n"] > 1, limit=1)
    bus.emit("x", n=1)
    bus.emit("x", n=2)
    assert [event["n"] for event in calls] == [2]


def test_pause_and_resume(bus):
    calls = []
    subscription = bus.subscribe("x", calls.append)
    subscription.pause()
    bus.emit("x")
    assert calls == []
    subscription.resume()
    bus.emit("x")
    assert len(calls) == 1


def test_unsubscribe(bus):
    calls = []
    bus.subscribe("x", calls.append)
    bus.subscribe("y", calls.append)
    bus.subscribe("y", print)
    assert bus.unsubscribe(calls.append) == 2
    assert bus.unsubscribe(calls.append) == 0
    assert len(bus) == 1


def test_cancel_tells_whether_it_was_active(bus):
    subscription = bus.subscribe("x", print)
    assert subscription.cancel() is True
    assert subscription.cancel() is False


def test_handlers(bus):
    bus.subscribe("a.#", print)
    bus.subscribe("a", len)
    assert bus.handlers("a") == [len, print]
    assert bus.handlers("b") == []


def test_events_emitted_by_handlers_wait(bus):
    calls = []
    bus.subscribe("first", lambda event: bus.emit("second"), priority=1)
    bus.subscribe("first", lambda event: calls.append("first"))
    bus.subscribe("second", lambda event: calls.append("second"))
    bus.emit("first")
    assert calls == ["first", "second"]


def fail(event):
    raise RuntimeError("broken")


def test_all_are_called_when_one_fails(bus):
    calls = []
    bus.subscribe("x", fail, priority=1)
    bus.subscribe("x", calls.append)
    with pytest.raises(HandlerError, match="1 handler failed for 'x'") as caught:
        bus.emit("x")
    assert len(calls) == 1
    assert str(caught.value.failures[0][1]) == "broken"


def test_bus_works_after_a_failure(bus):
    bus.once("x", fail)
    with pytest.raises(HandlerError):
        bus.emit("x")
    assert bus.emit("x").number == 2


def test_errors_can_be_ignored():
    bus = Bus(raise_errors=False)
    bus.subscribe("x", fail)
    bus.subscribe("x", fail)
    assert bus.emit("x").results == []


@pytest.mark.parametrize("topic", ["", "a..b", "a.*", "a b", ".a"])
def test_bad_topics(bus, topic):
    with pytest.raises(TopicError):
        bus.emit(topic)
    assert len(bus.history) == 0


def test_replay(bus):
    for topic in ("a.x", "b.x", "a.y"):
        bus.emit(topic)
    seen = []
    assert bus.replay(lambda event: seen.append(event.topic), "a.*") == 2
    assert seen == ["a.x", "a.y"]
    assert bus.replay(lambda event: None, since=2) == 1
