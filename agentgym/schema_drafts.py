"""JSON Schemas of older drafts, and schemas that are only true or false, in the words of draft 2020-12.

Libraries still write drafts 4 to 7, such as most servers of MCP in TypeScript. All who read a tool's schema here, from
validation to chat templates, know one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ONE = frozenset({"items", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames"})
_SEVERAL = frozenset({"anyOf", "allOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def modern(schema: Any) -> Any:
    """Return a schema that allows the same in draft 2020-12; of what is no schema, nothing changes.

    Lists of `items` become `prefixItems`, an exclusive bound that is a flag becomes the bound, and inner schemas that
    are `true` or `false` become objects.
    """
    if not isinstance(schema, dict):
        return schema
    made = {word: _inner(word, value) for word, value in schema.items() if word != "$schema"}
    if isinstance(made.get("items"), list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    for word, bound in _EXCLUSIVE.items():
        if isinstance(made.get(word), bool) and made.pop(word) and bound in made:
            made[word] = made.pop(bound)
    return made


def _inner(word: str, value: Any) -> Any:
    if word in _NAMED and isinstance(value, Mapping):
        return {name: _as_object(one) for name, one in value.items()}
    if word in _SEVERAL and isinstance(value, list):
        return [_as_object(one) for one in value]
    if word in _ONE:
        return _as_object(value)
    return modern(value) if word == "additionalProperties" else value


def _as_object(schema: Any) -> Any:
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return modern(schema)
