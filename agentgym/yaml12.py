"""YAML as version 1.2 defines it: `5e-4` is a number, and `no`, `1:30` and `2024-01-01` are text.

PyYAML implements version 1.1, where it is the other way round.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_PLAIN = {
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", [*"~nN", ""]),
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "tag:yaml.org,2002:int": (r"[-+]?[0-9]+", list("-+0123456789")),
    "tag:yaml.org,2002:float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
}
"""Unquoted words that are not text: maps the tag to the pattern and the possible first characters."""


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}


class _Dumper(yaml.SafeDumper):
    """Also quotes text that version 1.1 would not read as text, so that all readers agree."""


for _tag, (_form, _first) in _PLAIN.items():
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(_tag, re.compile(rf"(?:{_form})\Z"), _first)


def _decimal(loader: _Loader, node: Any) -> int:
    """Read `010` as 10; version 1.1 reads it as 8."""
    return int(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _decimal)


def load(text: str) -> Any:
    """Return the value that `text` stands for. Raises `yaml.YAMLError` if it is not YAML."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (RecursionError, ValueError) as error:  # lists nested too deeply; numbers with too many digits
        raise yaml.YAMLError(str(error)) from error


def dump(value: Any) -> str:
    """Return plain data as YAML text, keeping the order of keys."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
