"""A snippet shows in few characters why a text matches."""

from __future__ import annotations

from agentgym.tools.index import snippet
from agentgym.tools.index.snippets import query_terms

FILLER = "Lorem ipsum dolor sit amet. " * 40


def snippet_of(text: str, query: str, width: int = 100) -> str:
    return snippet(text, query_terms(query), width)


def test_the_best_matching_part_is_shown():
    text = snippet_of(FILLER + "The tower was built in 1931 by Ana." + FILLER, "who built the tower?")
    assert "The tower was built in 1931 by Ana." in text
    assert (text[0], text[-1]) == ("…", "…")
    text = f"tower tower tower {FILLER} the tower of Ana {FILLER} Ana and the tower {FILLER}"
    assert "the tower of Ana" in snippet_of(text, "tower Ana")
    text = "ﬁ ß œ " * 100 + "Ştefan cel Mare " + FILLER
    assert "Ştefan cel Mare" in snippet_of(text, "stefan"), "ligatures must not shift it"


def test_a_text_without_matches_is_shown_from_the_beginning():
    text = snippet_of(FILLER, "nothing of this")
    assert (text[:11], text[-1], len(text) <= 100) == ("Lorem ipsum", "…", True)
