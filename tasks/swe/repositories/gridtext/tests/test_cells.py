import pytest
from gridtext import display_width, fit, wrap
from gridtext.cells import format_value, is_number


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("日本", 4), ("é", 1), ("e\u0301", 1), ("ａ", 2)])
def test_display_width(text, width):
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("align", "text"), [("left", "ab   "), ("right", "   ab"), ("center", " ab  ")]
)
def test_fit(align, text):
    assert fit("ab", 5, align) == text


def test_fit_keeps_long_text():
    assert fit("abcdef", 3) == "abcdef"
    assert fit("日本", 5, "right") == " 日本"


def test_wrap_at_words():
    assert wrap("the quick brown fox", 10) == ["the quick", "brown fox"]
    assert wrap("the quick brown fox", 9) == ["the quick", "brown fox"]


def test_wrap_cuts_long_words():
    assert wrap("a abcdefgh b", 3) == ["a", "abc", "def", "gh", "b"]


def test_wrap_keeps_line_breaks():
    assert wrap("a\n\nb", 5) == ["a", "", "b"]
    assert wrap("", 5) == [""]


def test_wrap_wide_characters():
    assert wrap("日本語", 4) == ["日本", "語"]
    assert wrap("日本", 1) == ["日", "本"]


def test_wrap_needs_room():
    with pytest.raises(ValueError):
        wrap("a", 0)


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (None, None, "-"),
        (None, ".2f", "-"),
        (1.5, ".2f", "1.50"),
        ("x", ".2f", "x"),
        (True, None, "yes"),
        (False, None, "no"),
        (True, "d", "yes"),
        (3, str, "3"),
        (3, lambda value: value * 2, "6"),
    ],
)
def test_format_value(value, spec, text):
    assert format_value(value, spec, missing="-") == text


def test_is_number():
    assert is_number(1)
    assert is_number(1.5)
    assert not is_number(True)
    assert not is_number("1")
