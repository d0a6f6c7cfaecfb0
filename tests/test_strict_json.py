"""JSON as models write it: only what looks cut off is said to be."""

from __future__ import annotations

import pytest

from agentgym.records.strict_json import MAX_DEPTH, JsonProblem, read_object


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ('{"a": ', True),
        ('{"a": "b', True),
        ('{"a": NaN}', False),
        ('{"a": 1} b', False),
        ("[1]", False),
        ('{"a": ' + "9" * 5000 + "}", False),
        ('{"a": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}", False),
        ('{"a" 1}', False),
    ],
)
def test_only_what_looks_cut_off_is_said_to_be(text: str, cut: bool):
    with pytest.raises(JsonProblem) as told:
        read_object(text)
    assert told.value.cut is cut
