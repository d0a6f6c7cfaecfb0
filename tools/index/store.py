"""Builds indexes in folders and opens them, with a choice of backends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.errors import UsageError, require
from agentgym.loading import load_named
from agentgym.tools.index.base import Document
from agentgym.tools.index.engine import Encode, Encoder, IndexBackend
from agentgym.tools.index.folders import building, publish
from agentgym.tools.index.intake import Intake
from agentgym.tools.index.local import LocalIndex
from agentgym.tools.index.manifest import Manifest, is_index, read_manifest, write_manifest
from agentgym.tools.index.steady import steady

if TYPE_CHECKING:
    from agentgym.tools.index.backends.hybrid import HybridIndex

BACKENDS = ("tantivy", "trigrams", "fts5", "bm25s", "dense", "hybrid")
_DENSE = ("dense", "hybrid")
_EXTRAS: Mapping[str, tuple[str, str]] = {"bm25s": ("bm25s", "search"), "dense": ("usearch", "dense")}


def build_index(
    documents: Iterable[Document],
    folder: str | Path,
    backend: str = "tantivy",
    encoder: Encoder | Encode | str | None = None,
) -> LocalIndex | HybridIndex:
    """Build an index of documents, and open it.

    The folder is published once it is complete. It replaces an existing index, unless that index has the same
    documents. Concurrent processes can build the same index.

    Args:
        documents: The documents, iterated once, so a generator works. Ids must be unique.
        folder: The destination.
        backend: One of `BACKENDS`. "trigrams" tolerates misspelt words; "hybrid" combines "tantivy" and "dense".
        encoder: Makes the vectors for "dense" and "hybrid": an `Encoder`, a function, or the folder or name of a
            sentence-transformers model.

    Raises:
        UsageError: The backend is unknown, a document cannot be indexed, or the folder contains something else.
    """
    folder = Path(folder).absolute()
    checked_encoder = _encoder_for(backend, encoder)
    if folder.exists() and not is_index(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{str(folder)!r} exists and is not an index; choose an empty folder or one that does not exist yet"
        )
    with building(folder) as new_folder:
        manifest = _build(documents, new_folder, backend, checked_encoder)
        publish(new_folder, folder, keep=lambda there: _holds(there, manifest))
    return open_index(folder, checked_encoder)


def open_index(folder: str | Path, encoder: Encoder | Encode | str | None = None) -> LocalIndex | HybridIndex:
    """Open an existing index.

    Args:
        folder: The index's folder.
        encoder: The function that it was built with, if any, since a folder cannot store functions.

    Raises:
        UsageError: The folder contains no index, or this version cannot read it.
    """
    folder = Path(folder).absolute()
    return steady(folder, lambda: _open_as_built(folder, encoder))


def _open_as_built(folder: Path, encoder: Encoder | Encode | str | None) -> LocalIndex | HybridIndex:
    manifest = read_manifest(folder)
    opened_with = None
    if manifest.backend in _DENSE:
        opened_with = _as_encoder(encoder) or _saved_encoder(folder, manifest)
    if manifest.backend == "hybrid":
        from agentgym.tools.index.backends.hybrid import HybridIndex

        return HybridIndex([_open(folder / "tantivy", None), _open(folder / "dense", opened_with)])
    return _open(folder, opened_with)


def _open(folder: Path, encoder: Encoder | None) -> LocalIndex:
    return LocalIndex(folder, _backend(read_manifest(folder).backend).open, encoder)


def _build(documents: Iterable[Document], folder: Path, backend: str, encoder: Encoder | None) -> Manifest:
    intake = Intake(documents)
    if backend == "hybrid":
        # The documents can be iterated only once; the second index reads them from the first.
        (folder / "dense").mkdir()
        _build(intake, folder / "dense", "dense", encoder)
        (folder / "tantivy").mkdir()
        _build(_stored_documents(folder / "dense"), folder / "tantivy", "tantivy", None)
    else:
        _backend(backend).build(intake, folder, encoder)
    manifest = Manifest(backend, intake.count, intake.content, _settings(encoder))
    write_manifest(folder, manifest)
    return manifest


def _stored_documents(folder: Path) -> Iterable[Document]:
    from agentgym.tools.index.document_file import DocumentFile

    return DocumentFile(folder).all()


def _holds(folder: Path, manifest: Manifest) -> bool:
    """Whether the folder already contains the same index."""
    if folder.exists() and not is_index(folder):
        raise UsageError(f"{str(folder)!r} was filled with something else during the build")
    try:
        return read_manifest(folder) == manifest
    except UsageError:
        return False


def _backend(name: str) -> IndexBackend:
    """Return a backend, importing its dependencies only now."""
    if name in _EXTRAS:
        require(*_EXTRAS[name])
    if name not in BACKENDS or name == "hybrid":
        raise UsageError(f"unknown index backend {name!r}; choose one of: {', '.join(BACKENDS)}")
    return load_named(f"agentgym.tools.index.backends.{name}:{name.capitalize()}", "an index backend")()


def _encoder_for(backend: str, encoder: Encoder | Encode | str | None) -> Encoder | None:
    chosen_encoder = _as_encoder(encoder)
    if backend in _DENSE:
        if chosen_encoder is None:
            raise UsageError(f"the backend {backend!r} needs an encoder: a sentence-transformers model or a function")
        _backend("dense")
    elif chosen_encoder is not None:
        raise UsageError(f"the backend {backend!r} does not take an encoder; these do: {', '.join(_DENSE)}")
    else:
        _backend(backend)
    return chosen_encoder


def _as_encoder(encoder: Encoder | Encode | str | None) -> Encoder | None:
    return encoder if encoder is None or isinstance(encoder, Encoder) else Encoder(encoder)


def _settings(encoder: Encoder | None) -> dict[str, str]:
    if encoder is None:
        return {}
    model = encoder.model if isinstance(encoder.model, str) else ""
    return {"model": model, "query_prefix": encoder.query_prefix, "passage_prefix": encoder.passage_prefix}


def _saved_encoder(folder: Path, manifest: Manifest) -> Encoder:
    settings = manifest.settings
    if not settings["model"]:
        raise UsageError(f"the index in {str(folder)!r} was built with a function; give open_index the same `encoder`")
    return Encoder(settings["model"], settings["query_prefix"], settings["passage_prefix"])
