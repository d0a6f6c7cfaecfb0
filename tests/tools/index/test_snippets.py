"""A snippet shows why a text was found, in few characters."""

from __future__ import annotations

import random

from agentgym.tools.index import snippet
from agentgym.tools.index.tokens import query_terms
from tests.rows import each_row

FILLER = "Lorem ipsum dolor sit amet. " * 40


def shown(text: str, query: str, width: int = 100) -> str:
    return snippet(text, query_terms(query), width)


def test_the_words_of_the_query_are_in_it():
    found = shown(FILLER + "The tower was built in 1931 by Ana." + FILLER, "who built the tower?")
    assert "The tower was built in 1931 by Ana." in found
    assert (found[0], found[-1]) == ("…", "…")


def test_the_place_with_most_different_words_wins_and_the_first_of_equals():
    text = f"tower tower tower {FILLER} the tower of Ana {FILLER} Ana and the tower {FILLER}"
    found = shown(text, "tower Ana")
    assert "the tower of Ana" in found
    assert shown(text, "tower Ana") == found


def test_accents_and_ligatures_do_not_shift_it():
    found = shown("ﬁ ß œ " * 100 + "Ştefan cel Mare " + FILLER, "stefan")
    assert "Ştefan cel Mare" in found


def test_scripts_without_spaces_are_cut_where_they_must_be():
    found = shown("あ い" + "字" * 500 + "東京" + "字" * 500, "東京")
    assert "東京" in found
    assert len(found) <= 100


def test_without_a_word_of_the_query_it_is_the_beginning():
    found = shown(FILLER, "nothing of this")
    assert found.startswith("Lorem ipsum")
    assert found.endswith("…")
    assert len(found) <= 100


@each_row("seed", range(20))
def test_it_never_is_longer_than_allowed_and_never_cuts_words(seed):
    choose = random.Random(seed)
    words = ["".join(choose.choices("abcdeéß", k=choose.randint(1, 12))) for _ in range(400)]
    text = choose.choice([" ", "\n", ", "]).join(words)
    width = choose.randint(40, 300)
    found = shown(text, " ".join(choose.sample(words, 5)), width)
    assert len(found) <= width
    assert set(found.strip("…").replace(",", " ").split()) <= set(words)
