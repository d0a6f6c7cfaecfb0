"""Settings from the command line and YAML 1.2: each error is one line with its position."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentgym.base import yaml12
from agentgym.base.errors import UsageError
from agentgym.base.settings import parse_settings
from tests.refusals import differing, not_refused, refusal

VALUES: list[tuple[str, Any]] = [
    ("3", 3),
    ("010", 10),
    ("5e-4", 5e-4),
    ("1e6", 1e6),
    (".5", 0.5),
    ("true", True),
    ("null", None),
    ("", None),
    ("[1, 2e-3, x]", [1, 2e-3, "x"]),
    ("{a: 1e-3, b: [null]}", {"a": 1e-3, "b": [None]}),
    ("'3'", "3"),
    ("text", "text"),
]
TEXTS = [
    *("no", "on", "y", "2024-01-01", "1:30", "1_000", "0x10", ".inf", ".nan", "1e999", "9" * 5000),
    *(": [", "*", "*.txt", "@x", "%d", "<<", "&a [*a]", "!!binary aGk=", "!!set {a, b}", "!!python/name:os.system"),
]


def test_values_are_typed_as_yaml_1_2_and_everything_else_is_text():
    rows = [(text, (value, type(value))) for text, value in VALUES + [(text, text) for text in TEXTS]]

    def read(text: str) -> Any:
        value = parse_settings([f"key={text}"])["key"]
        return value, type(value)

    assert differing(read, rows) == []


@given(st.text())
def test_any_text_becomes_json_data_or_is_refused(text: str):
    try:
        settings = parse_settings([f"key={text}"])
    except UsageError:
        assert text.lstrip().startswith(("[", "{"))
    else:
        assert json.loads(json.dumps(settings, allow_nan=False)) == settings


def test_a_wrong_setting_gets_a_one_line_error():
    rows = [
        ("x", "--limit takes KEY=VALUE, not 'x'"),
        ("=3", "--limit takes KEY=VALUE, not '=3'"),
        ("2x=3", "--limit '2x=3': '2x' cannot be the name of an argument"),
        ("a b=3", "--limit 'a b=3': 'a b' cannot be the name of an argument"),
        ("x-y=[1, 2", "--limit x_y: cannot read '[1, 2' as a list or a map"),
        ("x={a: *b}", "--limit x: cannot read '{a: *b}' as a list or a map"),
    ]
    assert differing(lambda setting: refusal(lambda: parse_settings([setting], "--limit")), rows) == []


# YAML.


def test_duplicate_keys_merges_cycles_and_bombs_are_refused_with_position():
    tens = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    rows = [
        ("attempts: 1\nattempts: 8\n", "line 2,"),
        ("entries:\n  - {env: sql, env: code}\n", "line 2,"),
        ('1: a\n"1": b\n', "twice in one map"),
        ("a: &a {x: 1}\nb: {<<: *a}\n", "merge key"),
        ("&a [*a]", "contains itself"),
        ("a: &a {b: {c: *a}}", "contains itself"),
        ("\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x, x]", *tens]), "its aliases stand for more than"),
        ("a: b\n" * 200_001, "at most 1,000,000 are read"),
    ]
    texts = [(refusal(yaml12.load, text, raises=yaml.YAMLError), words) for text, words in rows]
    assert [(text, words) for text, words in texts if words not in text] == []


def test_an_unreadable_file_is_named_with_the_reason_in_one_line(tmp_path: Path):
    path = tmp_path / "some.yaml"

    def read(content: bytes) -> object:
        path.write_bytes(content)
        return yaml12.read(path, "the settings")

    rows = [
        ("é: 1".encode("latin-1"), "not UTF-8 text (byte 1)"),
        ("a: 1".encode("utf-16"), "not UTF-8 text"),
        (b"a: [", "not valid YAML"),
        (b"[" * 100_000, "not valid YAML"),
        (b"a: !!python/object/apply:os.getcwd []", "not valid YAML"),
        (b"env: sql\n  steps: 3\n", "at line 2, column 8"),
    ]
    assert not_refused(read, rows) == []
    texts = [refusal(lambda content=content: read(content)) for content, _ in rows]
    assert [text for text in texts if "\n" in text or "some.yaml: " not in text] == []
    assert read(b"\xef\xbb\xbfa: 1\r\nb: no\r\n") == {"a": 1, "b": "no"}
    with pytest.raises(UsageError, match=r"the settings '.*nowhere\.yaml'"):
        yaml12.read(tmp_path / "nowhere.yaml", "the settings")
