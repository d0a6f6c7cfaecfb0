import pytest
from quillet import FILTERS, RenderError, TemplateSyntaxError
from quillet.expressions import lookup, parse_expression


def value(text, **scope):
    return parse_expression(text)(scope, FILTERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12", 12), ("1.5", 1.5), ("'a b'", "a b"), ('"x"', "x"), ("true", True), ("none", None), ("(3)", 3)],
)
def test_literals(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 < 2", True),
        ("2 <= 2", True),
        ("2 > 2", False),
        ("2 >= 3", False),
        ("'a' != 'b'", True),
        ("'a' in 'cat'", True),
        ("not 1 == 1", False),
        ("not not 1", True),
        ("true or false and false", True),
        ("(true or false) and false", False),
        ("0 or 'x'", "x"),
        ("1 and 'y'", "y"),
    ],
)
def test_operators(text, expected):
    assert value(text) == expected


def test_or_does_not_look_further():
    assert value("a or nothing", a=1) == 1


def test_lookup():
    class Thing:
        name = "attribute"
        _secret = 1

    scope = {"d": {"k": [10, {"z": 5}]}, "t": Thing()}
    assert lookup(scope, "d.k.0") == 10
    assert lookup(scope, "d.k.1.z") == 5
    assert lookup(scope, "t.name") == "attribute"
    with pytest.raises(RenderError, match="'_secret'"):
        lookup(scope, "t._secret")
    with pytest.raises(RenderError, match="'x' is not defined"):
        lookup(scope, "x.y")
    with pytest.raises(RenderError):
        lookup(scope, "d.k.7")


def test_filters_with_arguments():
    assert value("xs | sort | join('-')", xs=[3, 1, 2]) == "1-2-3"
    assert value("x | truncate(8, '~')", x="abcdefghijk") == "abcdefg~"


def test_unknown_filter():
    with pytest.raises(RenderError, match="no filter 'wrong'"):
        value("1 | wrong")


def test_default_is_for_undefined_names_too():
    assert value("x | default('d')") == "d"
    assert value("x | default('d')", x="") == "d"
    assert value("x | default('d')", x=0) == 0
    with pytest.raises(RenderError):
        value("x | upper")


@pytest.mark.parametrize("text", ["(1", "1 |", "a | join(1 2)", "1 +", "$", "and"])
def test_syntax_errors(text):
    with pytest.raises((TemplateSyntaxError, RenderError)):
        value(text)


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("short", 10, "short"),
        ("exactly 10", 10, "exactly 10"),
        ("several words here", 12, "several..."),
        ("several words here", 16, "several words..."),
        ("unbreakable", 8, "unbre..."),
    ],
)
def test_truncate(text, length, expected):
    assert FILTERS["truncate"](text, length) == expected


def test_indent():
    assert FILTERS["indent"]("a\nb\n\nc", 2) == "a\n  b\n\n  c"
    assert FILTERS["indent"]("a\nb", 2, True) == "  a\n  b"


def test_number_and_plural():
    assert FILTERS["number"](1234.567, 2) == "1,234.57"
    assert FILTERS["number"](1234.567) == "1,235"
    assert [FILTERS["plural"](count) for count in (0, 1, 2)] == ["s", "", "s"]
    assert FILTERS["plural"]([1], "y", "ies") == "y"


def test_first_and_last():
    assert (FILTERS["first"]([1, 2]), FILTERS["last"]([1, 2])) == (1, 2)
    assert FILTERS["first"]([]) is None
