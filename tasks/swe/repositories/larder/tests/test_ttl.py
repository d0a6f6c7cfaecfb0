import pytest
from larder import ExpiredError, TTLCache


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def make(clock, **options):
    return TTLCache(3, 10, clock=clock, **options)


def test_entry_is_good_before_its_deadline(clock):
    cache = make(clock)
    cache.put("a", 1)
    clock.now += 9
    assert cache["a"] == 1


def test_entry_is_over_at_its_deadline(clock):
    cache = make(clock)
    cache.put("a", 1)
    clock.now += 10
    assert "a" not in cache
    assert cache.get("a") is None
    assert len(cache) == 0


def test_own_ttl(clock):
    cache = make(clock)
    cache.put("a", 1, ttl=2)
    cache.put("b", 2)
    clock.now += 3
    assert "a" not in cache
    assert "b" in cache


def test_remaining(clock):
    cache = make(clock)
    cache.put("a", 1)
    clock.now += 4
    assert cache.remaining("a") == 6
    clock.now += 6
    with pytest.raises(ExpiredError):
        cache.remaining("a")
    with pytest.raises(KeyError):
        cache.remaining("b")


def test_expire_counts(clock):
    cache = make(clock)
    cache.put("a", 1)
    clock.now += 5
    cache.put("b", 2)
    clock.now += 5
    assert cache.expire() == 1
    assert cache.stats.expirations == 1
    assert cache.expire() == 0


def test_expired_entries_make_room(clock):
    cache = make(clock)
    for key in "abc":
        cache.put(key, 0)
    clock.now += 11
    cache.put("d", 0)
    assert cache.stats.evictions == 0
    assert cache.stats.expirations == 3


def test_soonest_to_expire_is_evicted(clock):
    cache = make(clock)
    cache.put("a", 1)
    cache.put("b", 2, ttl=1)
    cache.put("c", 3)
    cache.put("d", 4)
    assert "b" not in cache
    assert "a" in cache


def test_touch_renews(clock):
    cache = make(clock)
    cache.put("a", 1)
    clock.now += 8
    assert cache.touch("a") is True
    clock.now += 8
    assert "a" in cache
    assert cache.touch("nothing") is False


def test_sliding_lookup_renews(clock):
    cache = make(clock, sliding=True)
    cache.put("a", 1)
    clock.now += 8
    assert cache.get("a") == 1
    clock.now += 8
    assert cache.get("a") == 1


def test_without_sliding_lookup_does_not_renew(clock):
    cache = make(clock)
    cache.put("a", 1)
    clock.now += 8
    cache.get("a")
    clock.now += 2
    assert cache.get("a") is None


def test_replaced_entry_keeps_new_deadline(clock):
    cache = make(clock)
    cache.put("a", 1)
    clock.now += 6
    cache.put("a", 2)
    clock.now += 6
    assert cache.expire() == 0
    assert cache["a"] == 2


def test_items_ordered_by_deadline(clock):
    cache = make(clock)
    cache.put("a", 1)
    cache.put("b", 2, ttl=3)
    assert cache.items() == [("b", 2), ("a", 1)]
    clock.now += 3
    assert cache.items() == [("a", 1)]


@pytest.mark.parametrize("ttl", [0, -5])
def test_ttl_must_be_positive(ttl):
    with pytest.raises(ValueError):
        TTLCache(1, ttl)
