"""The forgiving backend: BM25 in tantivy over the parts of words, so that a misspelt name still finds its page."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.tools.index.tantivy_index import Tantivy


class Trigrams(Tantivy):
    """The backend "trigrams". To search takes it several times as long as whole words do."""

    def __init__(self) -> None:
        super().__init__(trigrams)


def trigrams(words: Iterable[str]) -> list[str]:
    """Return the threes of letters of all words, whose borders count as letters: "^in", "inn", "nn$"."""
    marked = (f"^{word}$" for word in words)
    return [word[at : at + 3] for word in marked for at in range(len(word) - 2)]
