from larder import LRUCache, Stats, memoize
from larder.memo import make_key


def test_function_is_called_once_per_argument():
    calls = []

    @memoize(LRUCache(10))
    def double(x):
        calls.append(x)
        return 2 * x

    assert [double(1), double(1), double(2)] == [2, 2, 4]
    assert calls == [1, 2]


def test_own_key():
    calls = []

    @memoize(LRUCache(10), key=lambda text: text.lower())
    def greet(text):
        calls.append(text)
        return f"hi {text}"

    assert greet("Bob") == greet("BOB")
    assert calls == ["Bob"]


def test_skip_does_not_keep():
    calls = []

    @memoize(LRUCache(10), skip=lambda result: result is None)
    def find(x):
        calls.append(x)
        return None if x == 0 else x

    find(0), find(0), find(1), find(1)
    assert calls == [0, 0, 1]


def test_forget():
    calls = []

    @memoize(LRUCache(10))
    def ident(x):
        calls.append(x)
        return x

    ident(5)
    assert ident.forget(5) is True
    assert ident.forget(5) is False
    ident(5)
    assert calls == [5, 5]


def test_functions_share_a_cache_without_mixing():
    cache = LRUCache(10)

    @memoize(cache)
    def one(x):
        return 1

    @memoize(cache)
    def two(x):
        return 2

    assert (one(0), two(0)) == (1, 2)
    assert len(cache) == 2


def test_hits_and_misses_are_counted():
    cache = LRUCache(10)
    square = memoize(cache)(lambda x: x * x)
    square(3)
    square(3)
    assert (cache.stats.hits, cache.stats.misses) == (1, 1)


def test_make_key_ignores_order_of_keywords():
    assert make_key((1,), {"a": 1, "b": 2}) == make_key((1,), {"b": 2, "a": 1})


def test_make_key_typed():
    assert make_key((1,), {}) == make_key((1.0,), {})
    assert make_key((1,), {}, typed=True) != make_key((1.0,), {}, typed=True)
    assert make_key((), {"x": 1}, typed=True) != make_key((), {"x": 1.0}, typed=True)


def test_hit_rate():
    stats = Stats()
    assert stats.hit_rate == 0.0
    stats.hits, stats.misses = 3, 1
    assert stats.lookups == 4
    assert stats.hit_rate == 0.75


def test_merged_and_reset():
    both = Stats(1, 2, 3, 4).merged(Stats(10, 20, 30, 40))
    assert both == Stats(11, 22, 33, 44)
    both.reset()
    assert both == Stats()
