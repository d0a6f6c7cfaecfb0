"""The typo-tolerant backend: BM25 in tantivy over trigrams, so that a misspelt name still finds its page."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.tools.index.backends.tantivy import Tantivy


class Trigrams(Tantivy):
    """The backend "trigrams". Searches take several times as long as over whole words."""

    def __init__(self) -> None:
        super().__init__(trigrams)


def trigrams(words: Iterable[str]) -> list[str]:
    """Return the trigrams of all words, with boundary markers: "^in", "inn", "nn$"."""
    marked = (f"^{word}$" for word in words)
    return [word[at : at + 3] for word in marked for at in range(len(word) - 2)]
