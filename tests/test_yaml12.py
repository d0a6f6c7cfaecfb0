"""YAML that people write by hand: what would silently lose or multiply values is refused, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agentgym import yaml12
from agentgym.errors import UsageError


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("attempts: 1\nattempts: 8\n", 2),
        ("entries:\n  - {env: sql, env: code}\n", 2),
        ('1: a\n"1": b\n', 2),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_place(text: str, line: int):
    with pytest.raises(yaml.YAMLError, match=f"twice in one map; keep one of them(.|\n)*line {line},"):
        yaml12.load(text)


def test_the_same_key_in_other_maps_is_kept():
    assert yaml12.load("a: {x: 1}\nb: {x: 2}\n") == {"a": {"x": 1}, "b": {"x": 2}}


def test_a_merge_key_is_refused_and_quoted_it_is_text():
    with pytest.raises(yaml.YAMLError, match="merge key"):
        yaml12.load("a: &a {x: 1}\nb: {<<: *a}\n")
    assert yaml12.load("'<<': 1") == {"<<": 1}


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a {b: {c: *a}}"])
def test_a_value_that_contains_itself_is_refused(text: str):
    with pytest.raises(yaml.YAMLError, match="contains itself"):
        yaml12.load(text)


def test_an_alias_repeats_a_value():
    assert yaml12.load("a: &a [1, 2]\nb: *a\n") == {"a": [1, 2], "b": [1, 2]}


def test_aliases_cannot_stand_for_more_values_than_are_read():
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 10)]
    with pytest.raises(yaml.YAMLError, match="its aliases stand for more than"):
        yaml12.load("\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x, x]", *levels]))


def test_a_text_that_is_too_long_is_refused_unread():
    with pytest.raises(yaml.YAMLError, match="at most 1,000,000 are read"):
        yaml12.load("a: b\n" * 200_001)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("é: 1".encode("latin-1"), "not UTF-8 text \\(byte 1\\)"),
        ("a: 1".encode("utf-16"), "not UTF-8 text"),
        (b"a: [", "not valid YAML"),
        (b"[" * 100_000, "not valid YAML"),
        (b"a: !!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(content: bytes, told: str, tmp_path: Path):
    path = tmp_path / "some.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"some.yaml: .*{told}"):
        yaml12.read(path, "the settings")


def test_a_fault_in_a_file_is_one_line_with_its_place(tmp_path: Path):
    (tmp_path / "some.yaml").write_text("env: sql\n  steps: 3\n")
    with pytest.raises(UsageError, match=r"some\.yaml: not valid YAML: .*, at line 2, column 8$") as error:
        yaml12.read(tmp_path / "some.yaml", "the settings")
    assert "\n" not in str(error.value)


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path):
    path = tmp_path / "some.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: no\r\n")
    assert yaml12.read(path, "the settings") == {"a": 1, "b": "no"}


def test_a_missing_file_is_named_with_what_it_should_be(tmp_path: Path):
    with pytest.raises(UsageError, match=r"cannot read the settings '.*nowhere\.yaml'"):
        yaml12.read(tmp_path / "nowhere.yaml", "the settings")
