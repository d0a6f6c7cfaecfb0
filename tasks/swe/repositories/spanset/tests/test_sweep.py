import pytest
from spanset import Span, busiest, coverage

CALLS = [Span(1, 5), Span(3, 8), Span(4, 6), Span(10, 12)]


def test_coverage():
    assert coverage(CALLS) == [
        (Span(1, 3), 1),
        (Span(3, 4), 2),
        (Span(4, 5), 3),
        (Span(5, 6), 2),
        (Span(6, 8), 1),
        (Span(10, 12), 1),
    ]


def test_coverage_of_nothing():
    assert coverage([]) == []


def test_neighbours_with_equal_count_are_joined():
    assert coverage([Span(1, 2), Span(2, 3)]) == [(Span(1, 3), 1)]


def test_busiest():
    assert busiest(CALLS) == (Span(4, 5), 3)


def test_busiest_takes_the_first_of_equals():
    assert busiest([Span(5, 6), Span(1, 2)]) == (Span(1, 2), 1)


def test_busiest_of_nothing():
    with pytest.raises(ValueError):
        busiest([])
