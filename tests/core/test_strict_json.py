"""JSON that models write: truncated text is distinguished from invalid text."""

from __future__ import annotations

import pytest

from agentgym.base.strict_json import MAX_DEPTH, JsonProblem, excerpt, read_object


def test_only_truncated_text_is_reported_as_cut():
    cut = ['{"a": ', '{"a": "b']
    whole = ['{"a": NaN}', '{"a": 1} b', "[1]", '{"a": ' + "9" * 5000 + "}", '{"a" 1}']
    whole.append('{"a": ' + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1) + "}")
    for text in cut + whole:
        with pytest.raises(JsonProblem) as caught:
            read_object(text)
        assert caught.value.cut is (text in cut), text


def test_an_excerpt_marks_omitted_text():
    whole = "a" * 24 + "b" * 24
    assert (excerpt("abc", 0), excerpt(whole, 24)) == ("'abc'", repr(whole))
    assert excerpt(f"x{whole}x", 25) == repr(f"...{whole}...")
