import pytest
from spanset import Span, SpanSet


@pytest.fixture
def opening():
    return SpanSet([(9, 12), (13, 18)])


def test_touching_spans_are_joined():
    assert SpanSet([(3, 5), (1, 3)]).spans == (Span(1, 5),)


def test_contained_span_does_not_shorten():
    assert SpanSet([(1, 10), (2, 3)]).spans == (Span(1, 10),)


def test_total_and_hull(opening):
    assert opening.total == 8
    assert opening.hull == Span(9, 18)
    assert SpanSet().hull is None


@pytest.mark.parametrize(
    ("number", "inside"), [(8, False), (9, True), (12, False), (12.5, False), (17.9, True), (18, False)]
)
def test_contains(opening, number, inside):
    assert (number in opening) is inside


def test_find(opening):
    assert opening.find(13) == Span(13, 18)
    assert opening.find(1) is None


def test_union(opening):
    assert opening | SpanSet([(12, 13)]) == SpanSet([(9, 18)])


def test_intersection(opening):
    assert opening & SpanSet([(10, 14), (17, 20)]) == SpanSet([(10, 12), (13, 14), (17, 18)])


def test_intersection_of_many_with_one():
    assert SpanSet([(0, 1), (2, 3), (4, 5)]) & SpanSet([(0, 10)]) == SpanSet([(0, 1), (2, 3), (4, 5)])


def test_difference(opening):
    assert opening - SpanSet([(10, 11), (11.5, 14)]) == SpanSet([(9, 10), (11, 11.5), (14, 18)])


def test_symmetric_difference():
    assert SpanSet([(1, 5)]) ^ SpanSet([(3, 8)]) == SpanSet([(1, 3), (5, 8)])


def test_gaps(opening):
    assert opening.gaps() == SpanSet([(12, 13)])
    assert opening.gaps((8, 20)) == SpanSet([(8, 9), (12, 13), (18, 20)])
    assert SpanSet().gaps() == SpanSet()


def test_first_fit(opening):
    assert opening.first_fit(3) == Span(9, 12)
    assert opening.first_fit(4) == Span(13, 17)
    assert opening.first_fit(2, earliest=11) == Span(13, 15)
    assert opening.first_fit(1, earliest=11) == Span(11, 12)
    assert opening.first_fit(6) is None


def test_isdisjoint(opening):
    assert opening.isdisjoint(SpanSet([(12, 13)]))
    assert not opening.isdisjoint(SpanSet([(11, 13)]))


def test_issubset(opening):
    assert SpanSet([(10, 11)]).issubset(opening)
    assert not opening.issubset(SpanSet([(10, 11)]))
    assert SpanSet().issubset(opening)


def test_equality_and_hash():
    assert SpanSet([(1, 2), (2, 3)]) == SpanSet([(1, 3)])
    assert hash(SpanSet([(1, 2), (2, 3)])) == hash(SpanSet([(1, 3)]))
    assert SpanSet() != 3


def test_iteration_length_and_truth(opening):
    assert [span.start for span in opening] == [9, 13]
    assert len(opening) == 2
    assert not SpanSet()


def test_repr_can_be_read_back(opening):
    assert repr(opening) == "SpanSet.parse('9-12, 13-18')"
    assert eval(repr(opening)) == opening
