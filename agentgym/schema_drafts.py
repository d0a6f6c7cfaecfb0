"""Converts JSON Schemas of older drafts, and boolean schemas, to draft 2020-12.

Libraries still write drafts 4 to 7, such as most MCP servers in TypeScript. Everything that reads a tool's schema here,
from validation to chat templates, handles a single form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ONE = frozenset({"items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames"})
_SEVERAL = frozenset({"anyOf", "allOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def modern(schema: Any) -> Any:
    """Return an equivalent schema in draft 2020-12. Keywords that do not hold schemas are unchanged.

    Lists of `items` become `prefixItems`, an exclusive bound that is a flag becomes the bound, and inner schemas that
    are `true` or `false` become objects.
    """
    if not isinstance(schema, dict):
        return schema
    converted = {word: _inner(word, value) for word, value in schema.items() if word != "$schema"}
    if isinstance(converted.get("items"), list):
        converted["prefixItems"] = converted.pop("items")
        if "additionalItems" in converted:
            converted["items"] = converted.pop("additionalItems")
    for word, bound in _EXCLUSIVE.items():
        if isinstance(converted.get(word), bool) and converted.pop(word) and bound in converted:
            converted[word] = converted.pop(bound)
    return converted


def _inner(word: str, value: Any) -> Any:
    if word in _NAMED and isinstance(value, Mapping):
        return {name: _as_object(inner) for name, inner in value.items()}
    if word in _SEVERAL and isinstance(value, list):
        return [_as_object(inner) for inner in value]
    if word in _ONE:
        return _as_object(value)
    return modern(value) if word == "additionalProperties" else value


def _as_object(schema: Any) -> Any:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return modern(schema)
