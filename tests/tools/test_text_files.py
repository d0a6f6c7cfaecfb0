"""Views and edits of text files: lines end at a line feed only, and bytes that an edit does not touch stay."""

from __future__ import annotations

import pytest

from agentgym.base.errors import ToolError
from agentgym.tools.text_codec import decode_file
from agentgym.tools.text_files import decoded, encoded, inserted, replaced, viewed
from tests.rows import each_row

BREAKS = "\f\v\x1c\x1d\x1e\x85\u2028\u2029\r"
"""Characters that end a line for `str.splitlines`, but not for editors, patches and Python."""


@each_row("mark", BREAKS)
def test_only_a_line_feed_ends_a_line(mark: str):
    text = f"a = 1\n{mark}b = {mark}2\nc = 3\n"
    assert viewed("f", text, 3, 3) == "3\tc = 3"
    assert inserted("f", text, 2, "x")[0] == f"a = 1\n{mark}b = {mark}2\nx\nc = 3\n"
    assert replaced("f", text, "c = 3", "c = 4") == (f"a = 1\n{mark}b = {mark}2\nc = 4\n", "Changed f at line 3.")
    with pytest.raises(ToolError, match="has 3 lines"):
        inserted("f", text, 4, "x")


@each_row(
    "data, text, codec",
    [
        ("é = '→'\n".encode(), "é = '→'\n", "utf-8"),
        (b"# -*- coding: latin-1 -*-\n\xe9\n", "# -*- coding: latin-1 -*-\né\n", "latin-1"),
        (b"#!/bin/python\n# vim: set fileencoding=cp1252 :\n\x80\n", None, "cp1252"),
        ("# coding: euc-jp\nあ\n".encode("euc-jp"), "# coding: euc-jp\nあ\n", "euc-jp"),
        (b"\xef\xbb\xbfa\n", "a\n", "utf-8-sig"),
        (b"\xef\xbb\xbf# coding: utf-8\r\n\xc3\xa9\n", "# coding: utf-8\r\né\n", "utf-8-sig"),
        (b"caf\xe9\n", "café\n", "latin-1"),
        (b"x = 1\n# coding: latin-1\n\xc3\xa9", "x = 1\n# coding: latin-1\né", "utf-8"),
        *((b"# coding: %s\nabc\xff" % name, None, "latin-1") for name in (b"utf-8", b"ascii", b"punycode", b"nothing")),
        *((b"# coding: %s\n\\u0041+AGE-" % name, None, "utf-8") for name in (b"unicode_escape", b"utf-7", b"rot13")),
        (b"\r\n\r\n\xff\r", "\r\n\r\nÿ\r", "latin-1"),
    ],
)
def test_decoding_and_encoding_return_the_same_bytes(data: bytes, text: str | None, codec: str):
    content = decoded("f", data)
    assert content[1] == codec
    assert text is None or content[0] == text
    assert encoded("f", *content) == data


def test_binary_files_and_characters_that_a_codec_lacks_are_refused():
    assert decode_file(b"a\0b") is None
    with pytest.raises(ToolError, match="not a text file"):
        decoded("f", b"a\0b")
    with pytest.raises(ToolError, match=r"latin-1, which has no '→'.*write '\\u2192'"):
        encoded("f", "→", "latin-1")
    with pytest.raises(ToolError, match="lone surrogates"):
        encoded("f", "\ud800")
    assert encoded("new.py", "# coding: latin-1\né") == b"# coding: latin-1\n\xe9"


@each_row(
    "before, old, new, after",
    [
        ("a\r\nb\r\nc\r\n", "b", "b\nx", "a\r\nb\r\nx\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\nb\n", "a\nB\n", "a\r\nB\r\nc\r\n"),
        ("a\r\nb\r\n", "a", "a\nx", "a\r\nx\r\nb\r\n"),
        ("a\nb\r\nc\r\n", "b", "b\nx", "a\nb\r\nx\r\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "a\nb\nC", "a\r\nb\nC\r\n"),
        ("a\nb\r\nc\nd\n", "a\nb\nc\n", "a\nb\nx\nc\n", "a\nb\r\nx\r\nc\nd\n"),
        ("a\r\nb\nc\n", "b\n", "", "a\r\nc\n"),
        ("a\nb\r\n", "a", "x\ny", "x\ny\nb\r\n"),
        ("a\r\nb\r\n", "b", "x\r\ny", "a\r\nx\r\ny\r\n"),
        ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
    ],
)
def test_an_edit_keeps_the_endings_of_lines_that_stay_and_gives_new_ones_those_nearby(
    before: str, old: str, new: str, after: str
):
    assert replaced("f", before, old, new)[0] == after


@each_row(
    "before, line, after",
    [
        ("a\r\nb\r\n", 1, "a\r\nx\r\ny\r\nb\r\n"),
        ("a\r\nb", 2, "a\r\nb\r\nx\r\ny\r\n"),
        ("a\nb\r\n", 0, "x\ny\na\nb\r\n"),
        ("", 0, "x\ny\n"),
    ],
)
def test_inserted_lines_get_the_ending_of_the_line_before(before: str, line: int, after: str):
    text, message = inserted("f", before, line, "x\ny")
    assert (text, message) == (after, f"Inserted 2 lines into f after line {line}.")


@each_row("text, old", [("aa\naa\n", "aa"), ("aaa", "aa"), ("a\r\nb\na\nb\r\na\r\nb", "a\nb\n")])
def test_an_edit_needs_a_unique_place(text: str, old: str):
    with pytest.raises(ToolError, match="occurs 2 times"):
        replaced("f", text, old, "x")
