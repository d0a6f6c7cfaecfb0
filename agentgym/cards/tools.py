"""Describe the tools of an environment in Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym.cards.markdown import block, code, folded, table
from agentgym.toolset import Tool, Toolset, kind_of


def tools_text(tools: Toolset) -> str:
    """Return each tool with its arguments, then all their JSON schemas."""
    if not len(tools):
        return "None: the model answers in plain text."
    schemas = block(json.dumps(tools.schemas, indent=1, ensure_ascii=False), "json")
    return "\n\n".join([*map(_tool, tools), folded("JSON schemas", schemas)])


def _tool(tool: Tool) -> str:
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    rows = [
        (code(name), _kind(schema), _default(schema, name in required), schema.get("description", ""))
        for name, schema in properties.items()
    ]
    parts = [f"### {code(tool.name)}", tool.description]
    return "\n\n".join([*parts, table(("argument", "type", "default", "meaning"), rows)] if rows else parts)


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    return kind_of(schema)


def _default(schema: Mapping[str, Any], required: bool) -> str:
    if required:
        return "required"
    return code(json.dumps(schema["default"])) if schema.get("default") is not None else ""
