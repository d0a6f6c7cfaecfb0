import pytest
from signalbus import Bus, Debounce, Event, History, Throttle, TopicError, check_topic, matches, specificity


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#", "x.y", True),
        ("#.c", "a.b.c", True),
        ("#.c", "a.b", False),
        ("a.#.z", "a.z", True),
        ("a.#.z", "a.b.c.z", True),
        ("a.*.z", "a.z", False),
    ],
)
def test_matches(pattern, topic, fits):
    assert matches(pattern, topic) is fits


def test_check_topic():
    assert check_topic("a.b-c.d_1") == ["a", "b-c", "d_1"]
    assert check_topic("a.*.#", pattern=True) == ["a", "*", "#"]
    with pytest.raises(TopicError, match="bad word"):
        check_topic("a.b*", pattern=True)


def test_specificity():
    patterns = ["a.b", "a.*", "a.#", "#", "*.*", "a.b.#"]
    assert sorted(patterns, key=specificity, reverse=True) == ["a.b", "a.b.#", "a.*", "a.#", "*.*", "#"]


def history(size, *topics):
    made = History(size)
    for number, topic in enumerate(topics, start=1):
        made.add(Event(topic, {}, number))
    return made


def test_history_keeps_the_newest():
    kept = history(2, "a", "b", "c")
    assert [event.topic for event in kept.select()] == ["b", "c"]
    assert kept.dropped == 1
    assert len(kept) == 2


def test_history_select():
    kept = history(9, "a.x", "b", "a.y", "a.z")
    assert [event.number for event in kept.select("a.*")] == [1, 3, 4]
    assert [event.number for event in kept.select("a.*", since=1)] == [3, 4]
    assert [event.number for event in kept.select(last=2)] == [3, 4]
    assert kept.select(last=0) == []
    assert len(kept.select(last=99)) == 4


def test_history_counts():
    kept = history(9, "a.x", "b", "a.y", "a.x")
    assert kept.counts() == {"a.x": 2, "b": 1, "a.y": 1}
    assert kept.counts(depth=1) == {"a": 3, "b": 1}


def test_history_size():
    with pytest.raises(ValueError):
        History(-1)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_throttle():
    clock, seen = Clock(), []
    throttled = Throttle(seen.append, 10, clock=clock)
    for now in (0, 5, 9.9, 10, 12):
        clock.now = now
        throttled(now)
    assert seen == [0, 10]
    assert throttled.suppressed == 3


def test_throttle_by_key():
    clock, seen = Clock(), []
    throttled = Throttle(seen.append, 10, key=lambda event: event % 2, clock=clock)
    for event in (1, 2, 3, 4):
        throttled(event)
    assert seen == [1, 2]


def test_throttle_returns_the_result():
    bus = Bus()
    bus.subscribe("x", Throttle(lambda event: event["n"], 10, clock=Clock()))
    assert bus.emit("x", n=7).results == [7]
    assert bus.emit("x", n=8).results == []


def test_debounce():
    clock, seen = Clock(), []
    quiet = Debounce(seen.append, 5, clock=clock)
    quiet("a")
    clock.now = 3
    quiet("b")
    clock.now = 7
    assert quiet.flush() is False
    clock.now = 8
    assert quiet.flush() is True
    assert quiet.flush() is False
    assert seen == ["b"]


def test_debounce_passes_on_when_the_next_comes_late():
    clock, seen = Clock(), []
    quiet = Debounce(seen.append, 5, clock=clock)
    quiet("a")
    clock.now = 6
    quiet("b")
    assert seen == ["a"]
    assert quiet.flush(force=True) is True
    assert seen == ["a", "b"]
