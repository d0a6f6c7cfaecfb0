"""Settings as they are typed: keys, values, and one clear line for what is none."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentgym import yaml12
from agentgym.errors import UsageError
from agentgym.settings import parse_settings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("010", 10),
        ("5e-4", 5e-4),
        ("1e6", 1e6),
        ("+1.5E3", 1500.0),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("[1, 2e-3, x]", [1, 2e-3, "x"]),
        ("{a: 1e-3, b: [null]}", {"a": 1e-3, "b": [None]}),
        ("'3'", "3"),
        ("text", "text"),
        ("x=y", "x=y"),
    ],
)
def test_a_value_is_what_it_looks_like(text: str, value: object):
    found = parse_settings([f"key={text}"])
    assert found == {"key": value}
    assert type(found["key"]) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("no", "on", "y", "2024-01-01", "1:30", "1_000", "0x10", ".inf", ".nan", "1e999", "9" * 5000),
        *(": [", "*", "*.txt", "@x", "%d", "<<", "&a [*a]", "!!binary aGk=", "!!set {a, b}", "!!python/name:os.system"),
    ],
)
def test_anything_else_is_text_and_stays_as_it_was_typed(text: str):
    assert parse_settings([f"key={text}"]) == {"key": text}


@given(st.text())
def test_no_value_ends_in_anything_but_what_json_can_hold(text: str):
    try:
        settings = parse_settings([f"key={text}"])
    except UsageError:
        assert text.lstrip().startswith(("[", "{"))
    else:
        assert json.loads(json.dumps(settings, allow_nan=False)) == settings


@pytest.mark.parametrize(("key", "name"), [("tool-cost", "tool_cost"), ("tool_cost", "tool_cost"), (" b ", "b")])
def test_hyphens_in_a_key_stand_for_underscores(key: str, name: str):
    assert parse_settings([f"{key}=1"]) == {name: 1}


def test_of_several_values_for_a_key_the_last_one_counts():
    assert parse_settings(["a-b=1", "c=2", "a_b=3"]) == {"a_b": 3, "c": 2}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("x", "--limit takes KEY=VALUE, not 'x'"),
        ("=3", "--limit takes KEY=VALUE, not '=3'"),
        ("2x=3", "--limit '2x=3': '2x' cannot be the name of an argument"),
        ("a b=3", "--limit 'a b=3': 'a b' cannot be the name of an argument"),
        ("x-y=[1, 2", "--limit x_y: cannot read '[1, 2' as a list or a map"),
        ("x={a: *b}", "--limit x: cannot read '{a: *b}' as a list or a map"),
    ],
)
def test_what_is_no_setting_gets_one_line(setting: str, message: str):
    with pytest.raises(UsageError) as caught:
        parse_settings([setting], "--limit")
    assert str(caught.value) == message


@pytest.mark.parametrize("value", ["5e-4", "no", "true", "007", "1:30", "2024-01-01", "", "~", 5e-4, 1e-7, 1e20, None])
def test_what_is_written_is_read_back_by_readers_of_either_version_of_yaml(value: object):
    written = yaml12.dump({"key": value})
    assert yaml12.load(written) == yaml.safe_load(written) == {"key": value}
