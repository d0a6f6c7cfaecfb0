"""A small corpus, and indexes of it with all backends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from agentgym.tools.index import Document, HybridIndex, LocalIndex, MemoryIndex, build_index
from agentgym.tools.index.snippets import tokens

LEXICAL = ("tantivy", "fts5", "bm25s", "memory")
FOLDERS = ("tantivy", "trigrams", "fts5", "bm25s", "dense", "hybrid")
ALL = (*FOLDERS, "memory")

DOCUMENTS = (
    Document("moldavia", "Ştefan the Great", "Prince of Moldavia. He fought at Vaslui.", {"land": "md", "kind": "man"}),
    Document("wallachia", "Vlad", "Prince of Wallachia, held captive for twelve years.", {"land": "ro", "kind": "man"}),
    Document("danube", "Danube", "A river. It flows past Vienna, Budapest and Belgrade.", {"kind": "river"}),
    Document("tisza", "Tisza", "A river that joins the Danube.", {"kind": "river"}),
    Document("castle", "Bran Castle", "A castle near Braşov that tourists visit because of Vlad.", {"land": "ro"}),
    Document("tokyo", "東京", "東京は日本の首都。", {"land": "jp"}),
    Document("straße", "Straße", "Die Straße führt zum Fluß.", {"land": "de"}),
    Document("empty", "", ""),
    *(Document(f"twin-{letter}", "Twin", "Two towers of glass.", {"kind": "twin"}) for letter in "dbeac"),
)


def encode(texts: list[str]) -> numpy.ndarray:
    """An encoder without a model: every word adds one at a position given by its hash."""
    rows = numpy.zeros((len(texts), 512), dtype=numpy.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in tokens(text):
            row[int(hashlib.md5(word.encode()).hexdigest(), 16) % 512] += 1
    return rows


def build(folder: Path, backend: str, documents=DOCUMENTS) -> LocalIndex | HybridIndex | MemoryIndex:
    """Build an index with one backend; skip the test if its extra is not installed."""
    if backend == "memory":
        return MemoryIndex(documents)
    if backend == "bm25s":
        pytest.importorskip("bm25s", reason="needs the [search] extra")
    if backend in ("dense", "hybrid"):
        pytest.importorskip("usearch", reason="needs the [dense] extra")
    return build_index(documents, folder, backend, encode if backend in ("dense", "hybrid") else None)


def ids(hits) -> list[str]:
    return [hit.id for hit in hits]


def built(tmp_path_factory) -> Iterator[dict[str, LocalIndex | HybridIndex | MemoryIndex]]:
    """Yield an index of the small corpus with each backend; for fixtures."""
    indexes = {backend: build(tmp_path_factory.mktemp("index") / "x", backend) for backend in ALL}
    yield indexes
    for index in indexes.values():
        index.close()
