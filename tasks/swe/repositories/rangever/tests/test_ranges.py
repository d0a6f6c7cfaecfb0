import pytest
from rangever import Range, RangeSyntaxError


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.2", "0.0.4"]),
        ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
        ("^1", ["1.0.0", "1.99.0"], ["0.9.9", "2.0.0"]),
        ("~1.2.3", ["1.2.3", "1.2.10"], ["1.2.2", "1.3.0"]),
        ("~1", ["1.0.0", "1.5.0"], ["2.0.0"]),
        (">=1.2 <3", ["1.2.0", "2.9.9"], ["1.1.9", "3.0.0"]),
        (">1.2", ["1.3.0"], ["1.2.9"]),
        (">1.2.0", ["1.2.1"], ["1.2.0"]),
        ("<=1.2", ["1.2.9"], ["1.3.0"]),
        ("<=1.2.0", ["1.2.0"], ["1.2.1"]),
        ("1.x", ["1.0.0", "1.9.9"], ["0.9.0", "2.0.0"]),
        ("1.2.*", ["1.2.0", "1.2.7"], ["1.3.0"]),
        ("=1.2.3", ["1.2.3"], ["1.2.4"]),
        ("1.2.3", ["1.2.3"], ["1.2.4", "1.2.2"]),
        ("1.2.0 - 2.3", ["1.2.0", "2.3.9"], ["1.1.0", "2.4.0"]),
        ("^1 || 3.x", ["1.5.0", "3.5.0"], ["2.0.0", "4.0.0"]),
        ("*", ["0.0.1", "9.9.9"], []),
        ("", ["1.0.0"], []),
    ],
)
def test_membership(text, inside, outside):
    wanted = Range.parse(text)
    assert [version for version in inside if version not in wanted] == []
    assert [version for version in outside if version in wanted] == []


def test_prereleases_only_where_asked_for():
    assert "1.3.0-beta" not in Range.parse("^1.2.0")
    assert "1.2.0-beta.3" in Range.parse("^1.2.0-beta.2")
    assert "1.2.0-beta.1" not in Range.parse("^1.2.0-beta.2")
    assert "1.3.0-beta.9" not in Range.parse("^1.2.0-beta.2")


@pytest.mark.parametrize("text", [">", "^^1", "1.2.3.4", "abc", "<*", "1 <"])
def test_syntax_errors(text):
    with pytest.raises(RangeSyntaxError):
        Range.parse(text)


def test_commas_may_separate_bounds():
    assert "1.5.0" in Range.parse(">=1.0.0, <2.0.0")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("^1.2", ">=1.2.0 <2.0.0"), ("~0.4.1", ">=0.4.1 <0.5.0"), ("1 || *", ">=1.0.0 <2.0.0 || *"), ("=1.0.0", "=1.0.0")],
)
def test_str(text, shown):
    assert str(Range.parse(text)) == shown
    assert str(Range.parse(shown)) == shown


def test_repr():
    assert repr(Range.parse("^2")) == "Range.parse('>=2.0.0 <3.0.0')"
