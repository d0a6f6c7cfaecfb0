import pytest
from spanset import Span, SpanSet, SpanSyntaxError, format_spans, parse_spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("1-3", [(1, 3)]),
        ("1-3, 5-8.5", [(1, 3), (5, 8.5)]),
        ("-4--2", [(-4, -2)]),
        ("1..3; 4 to 6", [(1, 3), (4, 6)]),
        ("  ", []),
    ],
)
def test_parse(text, spans):
    assert parse_spans(text) == [Span(*pair) for pair in spans]


@pytest.mark.parametrize(("text", "position"), [("x", 0), ("1-2,", 4), ("1-2 3-4", 4), ("5-8, 3-1", 4), ("2-2", 0)])
def test_error_tells_the_position(text, position):
    with pytest.raises(SpanSyntaxError) as caught:
        parse_spans(text)
    assert caught.value.position == position
    assert f"position {position}" in str(caught.value)


def test_whole_numbers_are_ints():
    assert isinstance(parse_spans("1.0-2.5")[0].start, int)
    assert isinstance(parse_spans("1.0-2.5")[0].end, float)


def test_format():
    assert format_spans([Span(1, 2.0), Span(3.5, 4)]) == "1-2, 3.5-4"
    assert format_spans([Span(1, 2), Span(3, 4)], separator=";") == "1-2;3-4"


def test_round_trip():
    text = "1-3, 5-8.5"
    assert format_spans(SpanSet.parse(text)) == text
