"""Queries are plain text: no text raises an error or has any effect as syntax."""

from __future__ import annotations

import pytest

from agentgym.tools.index.snippets import tokens
from tests.rows import each_row
from tests.tools.index.index_cases import ALL, LEXICAL, built

HOSTILE = [
    "", " \t\n", "!?()[]{}\"'*+-~^:\\/|&<>=@#$%", "\x00", "\ud800", "\udfff prince \ud800", "prince\x00river", "😀🎉",
    "\u202e\u200b\ufeff", "title:x AND (", 'NEAR("prince river", 10', "AND OR NOT NEAR", '"prince', "prin*", "/pr.*/",
    "prince~2", "prince^1000", "terms:prince", "[a TO z]", "'; DROP TABLE documents; --", "%s {0}", "a" * 1_000_000,
    "prince " * 200_000, "(" * 1_000_000, " ".join(str(number) for number in range(100_000)), "\u0327" * 10_000,
]  # fmt: skip


indexes = pytest.fixture(scope="module")(built)


@each_row("query", HOSTILE)
@each_row("backend", ALL)
def test_no_query_raises(indexes, backend, query):
    index = indexes[backend]
    hits = index.search(query, 10)
    assert index.search_many([query, "prince"], 10)[0] == hits
    assert index.search("prince", 10, {query: query}) == []
    assert index.search("prince wallachia")[0].id == "wallachia"


@each_row(
    "query, plain",
    [
        ("prince NOT wallachia", "prince not wallachia"),
        ("prin*", "prin"),
        ('"river prince"', "river prince"),
        ("title:prince", "title prince"),
        ("prince^1000 river", "prince 1000 river"),
        ("NEAR(prince vaslui, 1)", "near prince vaslui 1"),
    ],
)
@each_row("backend", LEXICAL)
def test_syntax_in_a_query_is_ignored(indexes, backend, query, plain):
    lexical = indexes[backend]
    assert lexical.search(query, 10) == lexical.search(plain, 10)


@each_row(
    "text, words",
    [
        ("Ştefan Ørsted's ÆGIR", ["stefan", "orsted", "s", "aegir"]),
        ("İstanbul ISTANBUL ısparta", ["istanbul", "istanbul", "isparta"]),
        ("ﬁne ＡＢＣ ½ ²", ["fine", "abc", "1", "2", "2"]),
        ("東京タワー AI研究", ["東", "京", "タ", "ワ", "ー", "ai", "研", "究"]),
        ("한국어 Ελλάδα ёлка", ["한국어", "ελλαδα", "елка"]),
    ],
)
def test_text_is_split_into_folded_words(text, words):
    assert tokens(text) == words
