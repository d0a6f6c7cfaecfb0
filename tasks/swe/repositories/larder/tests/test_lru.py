import pytest
from larder import MISSING, CapacityError, LRUCache


@pytest.fixture
def cache():
    cache = LRUCache(3)
    for key in "abc":
        cache.put(key, key.upper())
    return cache


def test_oldest_entry_is_evicted(cache):
    cache.put("d", "D")
    assert cache.keys() == ["b", "c", "d"]


def test_get_counts_as_use(cache):
    cache.get("a")
    cache.put("d", "D")
    assert cache.keys() == ["c", "a", "d"]


def test_peek_does_not_count_as_use(cache):
    assert cache.peek("a") == "A"
    cache.put("d", "D")
    assert "a" not in cache


def test_peek_default(cache):
    assert cache.peek("x", 7) == 7


def test_put_again_replaces_and_renews(cache):
    cache.put("a", 1)
    assert cache.keys() == ["b", "c", "a"]
    assert cache["a"] == 1
    assert len(cache) == 3


def test_getitem_raises_key_error(cache):
    with pytest.raises(KeyError):
        cache["x"]


def test_setitem_and_delitem(cache):
    cache["x"] = 1
    del cache["x"]
    assert "x" not in cache
    with pytest.raises(KeyError):
        del cache["x"]


def test_none_can_be_stored(cache):
    cache.put("n", None)
    assert cache["n"] is None
    assert cache.get("n", 5) is None


def test_pop_returns_value_and_removes(cache):
    assert cache.pop("b") == "B"
    assert cache.pop("b", "gone") == "gone"
    assert cache.weight == 2


def test_get_or_compute_computes_once(cache):
    calls = []
    for _ in range(2):
        assert cache.get_or_compute("z", lambda: calls.append(1) or 9) == 9
    assert len(calls) == 1


def test_clear_forgets_everything_quietly():
    gone = []
    cache = LRUCache(2, on_evict=lambda key, value: gone.append(key))
    cache.put("a", 1)
    cache.clear()
    assert len(cache) == 0
    assert cache.weight == 0
    assert gone == []


def test_on_evict_is_told():
    gone = []
    cache = LRUCache(1, on_evict=lambda key, value: gone.append((key, value)))
    cache.put("a", 1)
    cache.put("b", 2)
    assert gone == [("a", 1)]


def test_resize_evicts_down_to_capacity(cache):
    cache.resize(1)
    assert cache.keys() == ["c"]
    assert cache.stats.evictions == 2
    with pytest.raises(ValueError):
        cache.resize(0)


@pytest.mark.parametrize("capacity", [0, -1])
def test_capacity_must_be_positive(capacity):
    with pytest.raises(CapacityError):
        LRUCache(capacity)


def test_weights_fill_the_capacity():
    cache = LRUCache(10, weigh=lambda key, value: len(value))
    cache.put("a", "xxxx")
    cache.put("b", "yyyyyy")
    assert cache.weight == 10
    cache.put("c", "z")
    assert cache.keys() == ["b", "c"]
    assert cache.weight == 7


def test_entry_heavier_than_capacity_is_refused():
    cache = LRUCache(3, weigh=lambda key, value: value)
    cache.put("fits", 3)
    with pytest.raises(CapacityError):
        cache.put("big", 4)
    with pytest.raises(CapacityError):
        cache.put("negative", -1)
    assert cache["fits"] == 3


def test_iteration_in_order_of_use(cache):
    cache.get("a")
    assert list(cache) == ["b", "c", "a"]


def test_missing_is_false():
    assert not MISSING
    assert repr(MISSING) == "MISSING"
