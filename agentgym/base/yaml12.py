"""YAML as version 1.2 defines it: `5e-4` is a number, and `no`, `1:30` and `2024-01-01` are text.

PyYAML implements version 1.1, which reads these the other way round. Anything that would silently lose or multiply
values is refused: a duplicate key, a merge key, a value that contains itself, and aliases that expand to millions of
values.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from agentgym.base.errors import UsageError

MAX_CHARS = 1_000_000
"""Longer texts are refused: PyYAML takes seconds for a megabyte, and no settings are that long."""
MAX_VALUES = 1_000_000
"""Maximum number of values; a value counts each time an alias repeats it."""

_PLAIN = {
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", [*"~nN", ""]),
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "tag:yaml.org,2002:int": (r"[-+]?[0-9]+", list("-+0123456789")),
    "tag:yaml.org,2002:float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
}
"""Unquoted words that are not text: maps the tag to the pattern and the possible first characters."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}

    def construct_document(self, node: yaml.Node) -> Any:
        if _size(node, {}) > MAX_VALUES:
            raise yaml.YAMLError(f"its aliases stand for more than {MAX_VALUES:,} values")
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        _check_keys(node)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Also quotes text that version 1.1 would not read as text, so that all readers agree."""


for _tag, (_form, _first) in _PLAIN.items():
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(_tag, re.compile(rf"(?:{_form})\Z"), _first)


def _decimal(loader: _Loader, node: Any) -> int:
    """Read `010` as 10; version 1.1 reads it as 8."""
    return int(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _decimal)


def _size(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Return the number of values in a node, with aliases expanded.

    Args:
        node: The node.
        sizes: Known sizes by node id; `None` for the nodes being measured.
    """
    if id(node) not in sizes:
        sizes[id(node)] = None
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        parts = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in pairs for part in pair]
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    if (size := sizes[id(node)]) is None:
        raise yaml.constructor.ConstructorError(None, None, "found a value that contains itself", node.start_mark)
    return size


def _check_keys(node: yaml.MappingNode) -> None:
    """Raise `YAMLError` for a merge key or a duplicate key."""
    seen_keys: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value == "<<" and key.style is None:
            problem = "found a merge key, which version 1.2 does not have; write the keys out"
            raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        if key.value in seen_keys:
            problem = f"found the key {key.value!r:.100} twice in one map; keep one of them"
            raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        seen_keys.add(key.value)


def load(text: str) -> Any:
    """Parse YAML text. Raises `yaml.YAMLError` if it is invalid or refused."""
    if len(text) > MAX_CHARS:
        raise yaml.YAMLError(f"it has {len(text):,} characters; at most {MAX_CHARS:,} are read")
    try:
        return yaml.load(text, Loader=_Loader)
    except (RecursionError, ValueError) as error:  # lists nested too deeply; numbers with too many digits
        raise yaml.YAMLError(str(error)) from error


def read(path: Path, what: str) -> Any:
    """Return the value in a file.

    Args:
        path: The file.
        what: A name for the contents in messages, such as `the suite`.

    Raises:
        UsageError: The file cannot be read or is not YAML; the message names the file and position.
    """
    try:
        return load(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read {what} {str(path)!r}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid YAML: not UTF-8 text (byte {error.start + 1})") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {_in_one_line(error)}") from error


def _in_one_line(error: yaml.YAMLError) -> str:
    """Return the problem and its position, without PyYAML's excerpts."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and (mark := error.problem_mark):
        return f"{error.problem}, at line {mark.line + 1}, column {mark.column + 1}"
    return " ".join(str(error).split())


def dump(value: Any) -> str:
    """Return plain data as YAML text, keeping the order of keys."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
