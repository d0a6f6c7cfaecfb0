"""XML calls: where a value ends, and what the schema makes of its text."""

from __future__ import annotations

from typing import Any

from agentgym.core.dialects.families import xml_in_tags
from agentgym.core.dialects.text import ParseError
from agentgym.core.schema_tool import SchemaTool
from agentgym.core.toolset import Toolset
from tests.refusals import differing, not_refused

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
PARAMETERS = {
    "plain": TEXT,
    "whole": NUMBER,
    "flag": {"type": "boolean"},
    "items": {"type": "array"},
    "all_text": {"allOf": [TEXT, {"maxLength": 9}]},
    "all_number": {"allOf": [NUMBER, {"maximum": 9}]},
    "defs": {"$ref": "#/$defs/word"},
    "definitions": {"$ref": "#/definitions/name"},
    "through": {"allOf": [{"anyOf": [{"$ref": "#/$defs/word"}, NUMBER]}]},
    "const_text": {"const": "5"},
    "const_number": {"const": 5},
    "enum_text": {"enum": ["5", "true"]},
    "enum_number": {"enum": [5, True]},
    "either": {"anyOf": [NUMBER, TEXT]},
    "one_of": {"oneOf": [{"type": "boolean"}, TEXT]},
    "maybe": {"anyOf": [TEXT, {"type": "null"}]},
    "types": {"type": ["string", "null"]},
    "loop": {"$ref": "#/properties/loop"},
    "nowhere": {"$ref": "#/$defs/nothing"},
}
TOOLS = Toolset(
    [
        SchemaTool(
            {
                "name": "put",
                "description": "Put.",
                "parameters": {
                    "type": "object",
                    "properties": PARAMETERS,
                    "$defs": {"word": TEXT},
                    "definitions": {"name": {"$ref": "#/$defs/word"}},
                },
            },
            lambda arguments: None,
        )
    ]
)


def written(*parameters: tuple[str, str]) -> str:
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function=put>\n{inside}</function>\n</tool_call>"


def read(text: str) -> list[dict[str, Any]]:
    return [dict(call.arguments) for call in xml_in_tags(text, TOOLS).calls]


VALUES: list[tuple[tuple[str, str], Any]] = [
    *(((name, "5"), "5") for name in ("plain", "all_text", "defs", "definitions", "through", "const_text")),
    *(((name, "5"), "5") for name in ("enum_text", "either", "maybe", "types", "one_of")),
    *(((name, "5"), 5) for name in ("whole", "all_number", "const_number", "enum_number", "unknown")),
    *(((name, "[1]"), "[1]") for name in ("plain", "all_text", "defs", "either")),
    *(((name, "null"), None) for name in ("maybe", "types")),
    *(((name, "null"), "null") for name in ("plain", "defs", "either")),
    (("whole", "many"), "many"),
    (("all_number", "50"), 50),
    (("flag", "True"), True),
    (("flag", "false"), False),
    (("items", '["a", 1]'), ["a", 1]),
    (("loop", "x"), "x"),
    (("nowhere", "x"), "x"),
    (("plain", " 007 "), " 007 "),
    (("plain", ""), ""),
    (("plain", "\n"), "\n"),
    (("plain", "a </parameter> b"), "a </parameter> b"),
    (("plain", "</parameter>\n</parameter>"), "</parameter>\n</parameter>"),
    (("plain", "a <parameter> b </tool_call>"), "a <parameter> b </tool_call>"),
]


def test_the_schema_says_which_values_are_text():
    assert differing(lambda row: read(written(row))[0][row[0]], VALUES) == []
    for (key, value), expected in VALUES:
        assert read(written((key, value), ("plain" if key != "plain" else "whole", "1")))[0][key] == expected


BROKEN = [
    (written(("plain", "a"), ("plain", "b")), "appears twice"),
    (written(("plain", "a")).replace("\n</parameter>", ""), "never closed"),
    (written(("plain", "a"), ("whole", "1")).replace("a\n</parameter>", "a"), "The value of 'plain' is never closed"),
    (written(("plain", "a")).replace("</function>", "b\n</function>"), "After the value of 'plain' comes"),
    (written(("plain", "x </function> y")), "never closed"),
    (written(("plain", "x <parameter=whole> y")), "never closed"),
    (written(("plain", "a")).partition("</function>")[0], "never closed"),
    (written(("plain", "a")).partition("\n</parameter>")[0], "never closed"),
]


def test_values_that_are_open_or_appear_twice_are_errors():
    assert not_refused(read, BROKEN, ParseError) == []
