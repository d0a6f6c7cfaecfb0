"""The semantic backend: an encoder's vectors, searched by cosine similarity."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy

from agentgym.base.errors import UsageError, require
from agentgym.tools.index.base import Document, Filters
from agentgym.tools.index.engine import DocumentFile, DocumentWriter, Encode, Encoder, Query, Ranked

_VECTORS = "vectors.npy"
_GRAPH = "vectors.usearch"
_EXACT_UP_TO = 20_000
"""Above this number, an approximate graph search replaces the exact search over all vectors."""
_BATCH = 256
_MAX_CHARS = 20_000


class Dense:
    """The backend "dense"."""

    def build(self, documents: Iterable[Document], folder: Path, encoder: Encoder | None) -> None:
        """Write the documents, their vectors, and a graph over the vectors if there are many."""
        assert encoder is not None
        encode = encode_function(encoder)
        with DocumentWriter(folder) as writer, (folder / "vectors.raw").open("wb") as raw:
            shape = (0, 1)
            for batch in _batches(document for _, document in writer.stored(documents)):
                vectors = _normalised(encode([_passage(encoder, document) for document in batch]), len(batch))
                if shape[0] and shape[1] != vectors.shape[1]:
                    raise UsageError(
                        f"the encoder returned vectors of dimension {shape[1]}, then of {vectors.shape[1]}"
                    )
                shape = (shape[0] + len(batch), vectors.shape[1])
                raw.write(vectors.tobytes())
        _write_vectors(folder, shape)
        if shape[0] > _EXACT_UP_TO:
            _write_graph(folder)

    def open(self, folder: Path, encoder: Encoder | None) -> DenseEngine:
        """Memory-map the vectors."""
        assert encoder is not None
        return DenseEngine(folder, encoder)


class DenseEngine(DocumentFile):
    """An open dense index. The model is loaded by the first query."""

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        super().__init__(folder)
        self._vectors = numpy.load(folder / _VECTORS, mmap_mode="r")
        self._graph = _open_graph(folder, self._vectors.shape[1])
        self._encoder = encoder
        self._encode: Encode | None = None
        self._one_at_a_time = threading.Lock()

    def rank(self, queries: Sequence[Query], limit: int, filters: Filters) -> list[list[Ranked]]:
        """Return the nearest documents, ties in the order of writing."""
        texts = [self._encoder.query_prefix + query.text for query in queries]
        vectors = _normalised(self._encoded(texts), len(texts))
        if vectors.shape[1] != self._vectors.shape[1]:
            raise UsageError(
                f"the encoder's vectors have dimension {vectors.shape[1]}, and the index's {self._vectors.shape[1]}; "
                "open it with the encoder that it was built with"
            )
        if filters:
            numbers = numpy.array(sorted(self.numbers(filters)), dtype=numpy.int64)
            return [_nearest(self._vectors[numbers], vector, limit, numbers) for vector in vectors]
        if self._graph is None:
            return [_nearest(self._vectors, vector, limit) for vector in vectors]
        return [self._near(vector, limit) for vector in vectors]

    def _encoded(self, texts: list[str]) -> Any:
        with self._one_at_a_time:
            if self._encode is None:
                self._encode = encode_function(self._encoder)
            return self._encode(texts)

    def _near(self, vector: numpy.ndarray, limit: int) -> list[Ranked]:
        with self._one_at_a_time:
            matches = self._graph.search(vector, min(limit, len(self._vectors)))
        keys = numpy.sort(matches.keys.astype(numpy.int64))
        return _nearest(self._vectors[keys], vector, limit, keys)


def encode_function(encoder: Encoder) -> Encode:
    """Return an encoder's function, loading its model. Raises `MissingExtra`, or `UsageError` if that fails."""
    if callable(encoder.model):
        return encoder.model
    require("sentence_transformers", "dense")
    try:
        model = import_module("sentence_transformers").SentenceTransformer(encoder.model)
    except (OSError, ValueError) as error:
        raise UsageError(f"sentence-transformers cannot load {encoder.model!r}: {error}") from error
    return lambda texts: model.encode(texts, convert_to_numpy=True, show_progress_bar=False)


def _passage(encoder: Encoder, document: Document) -> str:
    return f"{encoder.passage_prefix}{document.title}\n{document.text[:_MAX_CHARS]}"


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    while batch := list(itertools.islice(documents, _BATCH)):
        yield batch


def _normalised(vectors: Any, count: int) -> numpy.ndarray:
    """Return vectors of length 1, whose dot products are cosines."""
    rows = numpy.asarray(vectors, dtype=numpy.float32)
    if rows.ndim != 2 or len(rows) != count or not numpy.isfinite(rows).all():
        raise UsageError(f"the encoder must return {count} rows of finite numbers for {count} texts, not {rows.shape}")
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    return numpy.ascontiguousarray(rows / numpy.where(lengths > 0, lengths, 1))


def _nearest(
    vectors: numpy.ndarray, vector: numpy.ndarray, limit: int, numbers: numpy.ndarray | None = None
) -> list[Ranked]:
    scores = vectors @ vector
    order = numpy.argsort(-scores, kind="stable")[:limit]
    keys = order if numbers is None else numbers[order]
    return list(zip(scores[order].tolist(), keys.tolist(), strict=True))


def _write_vectors(folder: Path, shape: tuple[int, int]) -> None:
    """Write the header before the numbers, now that their number is known."""
    raw = folder / "vectors.raw"
    target = numpy.lib.format.open_memmap(folder / _VECTORS, mode="w+", dtype=numpy.float32, shape=shape)
    if shape[0]:
        target[:] = numpy.memmap(raw, dtype=numpy.float32, mode="r", shape=shape)
    target.flush()
    raw.unlink()


def _write_graph(folder: Path) -> None:
    require("usearch", "dense")
    from usearch.index import Index  # pyright: ignore[reportMissingImports]

    vectors = numpy.load(folder / _VECTORS, mmap_mode="r")
    graph = Index(ndim=vectors.shape[1], metric="ip", dtype="f32")
    for start in range(0, len(vectors), _BATCH * 16):
        rows = numpy.ascontiguousarray(vectors[start : start + _BATCH * 16])
        # One thread, because the graph depends on the order of insertion.
        graph.add(numpy.arange(start, start + len(rows)), rows, threads=1)
    graph.save(str(folder / _GRAPH))


def _open_graph(folder: Path, dimensions: int) -> Any:
    if not (folder / _GRAPH).exists():
        return None
    require("usearch", "dense")
    from usearch.index import Index  # pyright: ignore[reportMissingImports]

    graph = Index(ndim=dimensions, metric="ip", dtype="f32")
    graph.view(str(folder / _GRAPH))
    return graph
