import pytest
from spanset import Span, SpanError


@pytest.mark.parametrize(("start", "end"), [(2, 2), (3, 1)])
def test_empty_span_is_refused(start, end):
    with pytest.raises(SpanError):
        Span(start, end)


def test_end_is_not_inside():
    span = Span(1, 3)
    assert 1 in span
    assert 2.5 in span
    assert 3 not in span
    assert span.length == 2


@pytest.mark.parametrize(
    ("other", "overlaps", "touches"),
    [
        ((0, 5), False, True),
        ((0, 6), True, True),
        ((10, 12), False, True),
        ((9, 12), True, True),
        ((11, 12), False, False),
    ],
)
def test_overlaps_and_touches(other, overlaps, touches):
    span = Span(5, 10)
    assert span.overlaps(Span(*other)) is overlaps
    assert span.touches(Span(*other)) is touches


def test_covers():
    assert Span(1, 9).covers(Span(1, 9))
    assert Span(1, 9).covers(Span(2, 3))
    assert not Span(2, 3).covers(Span(1, 9))
    assert not Span(1, 5).covers(Span(4, 6))


def test_intersect():
    assert Span(1, 5).intersect(Span(3, 9)) == Span(3, 5)
    assert Span(1, 5).intersect(Span(5, 9)) is None


def test_hull():
    assert Span(5, 6).hull(Span(1, 2)) == Span(1, 6)


@pytest.mark.parametrize(
    ("hole", "left"),
    [((0, 1), [(2, 8)]), ((3, 5), [(2, 3), (5, 8)]), ((0, 4), [(4, 8)]), ((6, 9), [(2, 6)]), ((2, 8), [])],
)
def test_subtract(hole, left):
    assert Span(2, 8).subtract(Span(*hole)) == [Span(*pair) for pair in left]


def test_shift():
    assert Span(1, 2).shift(-3) == Span(-2, -1)


def test_split_ignores_points_outside():
    assert Span(0, 10).split(4, 0, 7, 10, 12, 4) == [Span(0, 4), Span(4, 7), Span(7, 10)]
    assert Span(0, 10).split() == [Span(0, 10)]


def test_spans_are_ordered_by_start():
    assert sorted([Span(3, 4), Span(1, 9), Span(1, 2)]) == [Span(1, 2), Span(1, 9), Span(3, 4)]
