import pytest
from quillet import Engine, RenderError, Template, TemplateSyntaxError


def render(source, **values):
    return Template(source).render(**values)


def test_text_stays_as_it_is():
    assert render("a { b } %c\n") == "a { b } %c\n"


def test_output():
    assert render("Hi {{ name }}!", name="Ada") == "Hi Ada!"


def test_none_is_written_as_nothing():
    assert render("[{{ x }}]", x=None) == "[]"
    assert render("[{{ x }}]", x=0) == "[0]"


def test_comments_are_left_out():
    assert render("a{# {{ nothing }} #}b") == "ab"


def test_white_space_control():
    assert render("a  {{- x -}}  b", x=1) == "a1b"
    assert render("a\n{%- if true -%}\n b \n{%- end %}\nc") == "ab\nc"
    assert render("a {{ x }} b", x=1) == "a 1 b"


@pytest.mark.parametrize(("x", "text"), [(1, "one"), (2, "two"), (3, "many")])
def test_if(x, text):
    assert render("{% if x == 1 %}one{% elif x == 2 %}two{% else %}many{% end %}", x=x) == text


def test_if_without_else():
    assert render("a{% if x %}b{% end %}c", x=False) == "ac"


def test_nested_ifs():
    source = "{% if a %}{% if b %}ab{% else %}a{% end %}{% else %}none{% end %}"
    assert [render(source, a=a, b=b) for a, b in [(1, 1), (1, 0), (0, 1)]] == ["ab", "a", "none"]


def test_for():
    assert render("{% for x in xs %}{{ x }};{% end %}", xs=[1, 2]) == "1;2;"


def test_loop_variables():
    source = "{% for x in xs %}{{ loop.index }}/{{ loop.length }}{% if not loop.last %}, {% end %}{% end %}"
    assert render(source, xs="abc") == "1/3, 2/3, 3/3"
    assert render("{% for x in xs %}{% if loop.first %}>{% end %}{{ x }}{% end %}", xs="ab") == ">ab"


def test_for_else():
    assert render("{% for x in xs %}{{ x }}{% else %}nothing{% end %}", xs=[]) == "nothing"


def test_for_unpacks():
    assert render("{% for k, v in d %}{{ k }}={{ v }} {% end %}", d={"a": 1, "b": 2}) == "a=1 b=2 "
    assert render("{% for a, b in xs %}{{ b }}{{ a }}{% end %}", xs=[(1, 2)]) == "21"
    with pytest.raises(RenderError, match="unpack 3 values"):
        render("{% for a, b in xs %}{% end %}", xs=[(1, 2, 3)])


def test_loop_names_end_with_the_loop():
    with pytest.raises(RenderError):
        render("{% for x in xs %}{% end %}{{ x }}", xs=[1])


def test_set():
    assert render("{% set y = x | upper %}{{ y }}{{ y }}", x="a") == "AA"


def test_values_are_not_changed_by_set():
    template = Template("{% set x = 2 %}{{ x }}")
    values = {"x": 1}
    assert template.render_scope(values) == "2"
    assert values == {"x": 1}


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("a\n{{ x", 2, "not closed"),
        ("{% if x %}a", 1, "'if' has no end"),
        ("\n\n{% for x in %}{% end %}", 3, "cannot read"),
        ("{% end %}", 1, "without a beginning"),
        ("x\n{% wrong %}", 2, "unknown tag 'wrong'"),
        ("{{ }}", 1, "a value is missing"),
        ("{{ a b }}", 1, "unexpected 'b'"),
    ],
)
def test_syntax_errors_tell_the_line(source, line, words):
    with pytest.raises(TemplateSyntaxError, match=words) as caught:
        Template(source)
    assert caught.value.line == line


def test_include():
    engine = Engine({"page": 'Top {% include "part" %}', "part": "<{{ x }}>"})
    assert engine.render("page", x=1) == "Top <1>"


def test_included_set_stays_inside():
    engine = Engine({"page": '{% set x = 1 %}{% include "part" %}{{ x }}', "part": "{% set x = 2 %}{{ x }}"})
    assert engine.render("page") == "21"


def test_endless_include():
    engine = Engine({"a": '{% include "a" %}'}, max_depth=3)
    with pytest.raises(RenderError, match="too deeply"):
        engine.render("a")


def test_unknown_template():
    with pytest.raises(RenderError, match="'x'"):
        Engine().render("x")


def test_add_replaces():
    engine = Engine({"a": "1"})
    assert engine.render("a") == "1"
    engine.add("a", "2")
    assert engine.render("a") == "2"


def test_autoescape():
    engine = Engine({"a": "<b>{{ x }}</b>"}, autoescape=True)
    assert engine.render("a", x="<&>") == "<b>&lt;&amp;&gt;</b>"
    assert render("{{ x }}", x="<") == "<"


def test_own_filters():
    engine = Engine({"a": "{{ x | twice | upper }}"}, filters={"twice": lambda value: value * 2})
    assert engine.render("a", x="ab") == "ABAB"
