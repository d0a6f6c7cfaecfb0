"""All backends give equivalent answers."""

from __future__ import annotations

import pytest

from agentgym.base.errors import ToolError, UsageError
from agentgym.tools.index import Document, NoSuchDocument, Page
from tests.rows import each_row
from tests.tools.index.index_cases import ALL, DOCUMENTS, FOLDERS, LEXICAL, build, built, ids

indexes = pytest.fixture(scope="module")(built)


@each_row(
    "query, best",
    [
        ("Which prince held captive ruled Wallachia?", "wallachia"),
        ("vaslui battle of stefan", "moldavia"),
        ("s\u0327tefan", "moldavia"),
        ("strasse", "straße"),
        ("首都", "tokyo"),
        ("brasov tourists", "castle"),
    ],
)
@each_row("backend", ALL)
def test_the_best_match_comes_first(indexes, backend, query, best):
    index = indexes[backend]
    assert index.search(query)[0].id == best


@each_row("backend", LEXICAL)
def test_lexical_backends_match_whole_words_and_weight_titles(indexes, backend):
    lexical = indexes[backend]
    assert ids(lexical.search("danube river")) == ["danube", "tisza"]
    assert ids(lexical.search("vlad")) == ["wallachia", "castle"]
    assert lexical.search("unheard") == []


def test_trigrams_match_misspelt_words(indexes):
    for word, document in [("Moldawja", "moldavia"), ("Buddapesd", "danube"), ("wallackia", "wallachia")]:
        assert indexes["tantivy"].search(word) == []
        assert ids(indexes["trigrams"].search(word))[0] == document
    assert ids(indexes["trigrams"].search("vlad"))[0] == "wallachia"


@each_row("backend", ALL)
def test_equal_documents_are_ordered_by_id(indexes, backend):
    index = indexes[backend]
    assert ids(index.search("twin towers", 3)) == ["twin-a", "twin-b", "twin-c"]
    assert ids(index.search("twin towers", 5)) == [f"twin-{letter}" for letter in "abcde"]


@each_row("backend", ALL)
def test_hits_are_ordered_by_score_and_equal_in_batches(indexes, backend):
    index = indexes[backend]
    queries = ["the prince of Moldavia and the river Danube", "prince", "", "river danube", "twin", "unheard"]
    batches = index.search_many(queries, 10)
    assert batches == [index.search(query, 10) for query in queries]
    for hits in batches:
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert index.search_many([]) == []


@each_row("backend", ALL)
def test_filters_match_exactly_and_together(indexes, backend):
    index, query = indexes[backend], "prince castle vlad"
    assert set(ids(index.search(query, filters={"land": "ro"}))) == {"wallachia", "castle"}
    assert ids(index.search(query, filters={"land": "ro", "kind": "man"})) == ["wallachia"]
    for filters in ({"land": "r"}, {"land": "RO"}, {"no such field": "ro"}):
        assert index.search(query, filters=filters) == []


@each_row("backend", ALL)
def test_a_document_is_opened_whole_or_in_part(indexes, backend):
    index = indexes[backend]
    text = "A river that joins the Danube."
    assert index.open("tisza") == Page("tisza", "Tisza", text, 0, 30, 30)
    assert index.open("tisza", (2, 7)).text == "river"
    assert index.open("tisza", (23, 1000)) == Page("tisza", "Tisza", "Danube.", 23, 30, 30)
    assert index.open("tisza", (-5, 7)).text == "A river"
    assert index.open("tisza", (9, 2)).text == ""
    assert index.open("tisza", (500, 600)) == Page("tisza", "Tisza", "", 30, 30, 30)


@each_row("document_id", ["", "Tisza", "tisza\x00", "\ud800", "x" * 10**6, "id:tisza"])
@each_row("backend", ALL)
def test_opening_an_unknown_document_is_a_tool_error(indexes, backend, document_id):
    index = indexes[backend]
    with pytest.raises(NoSuchDocument) as caught:
        index.open(document_id)
    assert isinstance(caught.value, ToolError)
    assert len(str(caught.value)) < 1_000


def test_texts_and_fields_are_stored_unchanged(tmp_path):
    odd = "nul \x00, \ufeff, \u2028, 😀, tab\t and\r\nlines\n\n  "
    for backend in ALL:
        index = build(tmp_path / backend, backend, [Document("a b/ü?", odd, odd, {"x\x00": odd})])
        page = index.open("a b/ü?")
        assert (page.title, page.text) == (odd, odd), backend
        assert ids(index.search("lines", filters={"x\x00": odd})) == ["a b/ü?"], backend
        index.close()


@each_row("backend", ALL)
def test_an_index_without_documents_has_no_hits(tmp_path, backend):
    index = build(tmp_path / "x", backend, [])
    assert (len(index), index.search("anything")) == (0, [])
    index.close()


def test_lexical_backends_agree_with_exact_bm25(indexes):
    queries = [document.text for document in DOCUMENTS] + ["prince river castle", "of the", "vlad danube glass"]
    exact, *others = (
        [ids(hits) for hits in indexes[name].search_many(queries, 20)] for name in ("memory", "tantivy", "bm25s")
    )
    assert others == [exact, exact]


@each_row("backend", FOLDERS)
def test_a_closed_index_cannot_be_searched(tmp_path, backend):
    index = build(tmp_path / "x", backend)
    index.close()
    index.close()
    with pytest.raises(UsageError, match="is closed"):
        index.search("prince")
