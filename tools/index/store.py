"""Builds indexes in folders and opens them, with a choice of backends."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import heapq
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.base.loading import load_named
from agentgym.tools.index.base import MAX_K, Document, Filters, Hit, NoSuchDocument, Page, Span, page_of
from agentgym.tools.index.engine import Encode, Encoder, IndexBackend, IndexEngine, Query, Ranked, as_query, hit_of
from agentgym.tools.index.intake import Intake

if TYPE_CHECKING:
    from agentgym.tools.index.backends.hybrid import HybridIndex


_LOCK = ".building"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """Yield an empty folder next to `folder`, and remove it afterwards unless it was moved."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    new = Path(tempfile.mkdtemp(prefix=_prefix(folder), dir=folder.parent))
    lock = _locked(new)
    try:
        yield new
    finally:
        os.close(lock)
        shutil.rmtree(new, ignore_errors=True)


def publish(new: Path, folder: Path, keep: Callable[[Path], bool]) -> None:
    """Move a built folder to its destination. Replaces an existing folder unless `keep` returns true for it."""
    (new / _LOCK).unlink()
    new.chmod(0o755)
    while True:
        try:
            new.rename(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        # Readers with open files of the old folder can keep reading them.
        if keep(folder) or _exchange(new, folder):
            return
        _take_away(folder)


def _exchange(new: Path, folder: Path) -> bool:
    """Exchange two folders atomically, if the system supports it."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    return rename(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(folder), _RENAME_EXCHANGE) == 0


def _locked(new_folder: Path) -> int:
    """Lock a folder. A killed build loses its lock, so that the next one knows that it can clean up."""
    new = new_folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # Others look for a lock only under its final name, so they never find it unlocked.
    new.rename(new_folder / _LOCK)
    return lock


def _take_away(folder: Path) -> None:
    """Remove a folder atomically."""
    with (
        tempfile.TemporaryDirectory(prefix=_prefix(folder), dir=folder.parent) as trash,
        contextlib.suppress(FileNotFoundError),
    ):
        folder.rename(Path(trash) / folder.name)


def _sweep(folder: Path) -> None:
    """Remove what killed builds of this folder left behind."""
    for entry in folder.parent.iterdir():
        if not entry.name.startswith(_prefix(folder)):
            continue
        try:
            lock = os.open(entry / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry, ignore_errors=True)
        except BlockingIOError:
            pass  # its build is still running
        finally:
            os.close(lock)


def _prefix(folder: Path) -> str:
    return f".{folder.name}.building-"


FORMAT = 1
"""Incremented when older folders can no longer be read."""
_FILE = "index.json"


@dataclass(frozen=True)
class Manifest:
    """The backend, the number and hash of the documents, and the settings needed to open the index."""

    backend: str
    count: int
    content: str
    """The `content_hash` of the documents."""
    settings: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest to a folder."""
    (folder / _FILE).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read a folder's manifest.

    Raises:
        UsageError: The folder contains no index, or this version cannot read it.
    """
    try:
        manifest = Manifest(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no index in {str(folder)!r}; build one with: agentgym index build") from None
    except (ValueError, TypeError):
        raise UsageError(f"{str(folder / _FILE)!r} is not a valid index manifest; rebuild the index") from None
    if manifest.format != FORMAT:
        problem = f"{str(folder)!r} has format {manifest.format!r}"
        raise UsageError(f"the index in {problem}, but this version reads {FORMAT}; rebuild it")
    return manifest


def manifest_stamp(folder: Path) -> tuple[int, int] | None:
    """Return a stamp of a folder's manifest that changes when the index is replaced; `None` without a manifest."""
    try:
        status = (folder / _FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def is_index(folder: Path) -> bool:
    """Whether a folder contains an index of any format."""
    return (folder / _FILE).is_file()


class _Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=_Closable)


def steady(folder: Path, open_it: Callable[[], Opened]) -> Opened:
    """Open something in an index folder, and open it again if the folder was replaced in the meantime.

    The files of a replaced folder are removed: opening them may fail, or combine files of both folders.

    Args:
        folder: The index's folder.
        open_it: Opens files in it. Called once unless the folder is replaced.
    """
    while True:
        before = manifest_stamp(folder)
        try:
            opened = open_it()
        except Exception:
            if manifest_stamp(folder) == before:
                raise
            continue
        if manifest_stamp(folder) == before:
            return opened
        opened.close()


_SPARE = 4
_READ = 64
"""Documents read at a time."""
_MAX_TIES = 2_000
"""Maximum documents with equal scores to sort by id; beyond it, the engine's order decides."""


class LocalIndex:
    """An open index. Pickling and forking reopen the folder."""

    def __init__(
        self, folder: Path, open_engine: Callable[[Path, Encoder | None], IndexEngine], encoder: Encoder | None
    ):
        self.folder = folder
        self.manifest: Manifest
        self._open_engine = open_engine
        self._encoder = encoder
        self._engine: IndexEngine | None = steady(folder, self._read)
        self._process = os.getpid()

    def __len__(self) -> int:
        return self.manifest.count

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalIndex, (self.folder, self._open_engine, self._encoder)

    @property
    def name(self) -> str:
        """The backend's name."""
        return self.manifest.backend

    @property
    def content(self) -> str:
        """The `content_hash` of the documents."""
        return self.manifest.content

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return the best hits; see `Index.search`."""
        return self.search_many([query], k, filters)[0]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the best hits of each query."""
        parsed = [as_query(query) for query in queries]
        return [
            [hit_of(document, query, score) for score, document in matches]
            for query, matches in zip(parsed, self._find(parsed, k, filters), strict=True)
        ]

    def find_many(
        self, queries: Sequence[str], k: int = 5, filters: Filters | None = None
    ) -> list[list[tuple[float, Document]]]:
        """Return scores and whole documents instead of hits."""
        return self._find([as_query(query) for query in queries], k, filters)

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return a document's text or a part of it."""
        document = self._opened().document(document_id) if _can_be_stored(document_id) else None
        if document is None:
            raise NoSuchDocument(document_id)
        return page_of(document, span)

    def close(self) -> None:
        """Close the files."""
        engine, self._engine = self._engine, None
        if engine is not None and self._process == os.getpid():
            engine.close()

    def _find(self, queries: Sequence[Query], k: int, filters: Filters | None) -> list[list[tuple[float, Document]]]:
        k = min(k, MAX_K, len(self))
        results: list[list[tuple[float, Document]]] = [[] for _ in queries]
        places = [place for place, query in enumerate(queries) if query.terms]
        if k < 1 or not places:
            return results
        engine = self._opened()
        ranked = _best(engine, [queries[place] for place in places], k, filters or {})
        for place, candidates in zip(places, ranked, strict=True):
            scored = _with_documents(engine, candidates)
            results[place] = heapq.nsmallest(k, scored, key=lambda pair: (-pair[0], pair[1].id))
        return results

    def _opened(self) -> IndexEngine:
        if self._engine is None:
            raise UsageError(f"the index in {str(self.folder)!r} is closed; open it again with open_index")
        if self._process != os.getpid():
            self._reopen()
        return self._engine

    def _reopen(self) -> None:
        """Reopen the files in a forked process, which must not use its parent's locks and connections."""
        self._engine = steady(self.folder, self._reread)
        self._process = os.getpid()

    def _read(self) -> IndexEngine:
        self.manifest = read_manifest(self.folder)
        return self._open_engine(self.folder, self._encoder)

    def _reread(self) -> IndexEngine:
        if read_manifest(self.folder).content != self.manifest.content:
            raise InfrastructureError(f"{str(self.folder)!r} was replaced by an index of different documents")
        return self._open_engine(self.folder, self._encoder)


def _best(engine: IndexEngine, queries: list[Query], k: int, filters: Filters) -> list[list[Ranked]]:
    """Return the `k` best of each query, and all that tie with the last of them."""
    limit = k + _SPARE
    ranked = [_rounded(row) for row in engine.rank(queries, limit, filters)]
    while limit < k + _MAX_TIES:
        cut = [place for place, row in enumerate(ranked) if len(row) >= limit and row[k - 1][0] == row[-1][0]]
        if not cut:
            break
        limit = min(8 * limit, k + _MAX_TIES)
        for place, row in zip(cut, engine.rank([queries[place] for place in cut], limit, filters), strict=True):
            ranked[place] = _rounded(row)
    return [[pair for pair in row if pair[0] >= row[min(k, len(row)) - 1][0]] for row in ranked]


def _with_documents(engine: IndexEngine, candidates: Sequence[Ranked]) -> Iterator[tuple[float, Document]]:
    """Read documents in batches, so that many ties do not need memory at once."""
    for at in range(0, len(candidates), _READ):
        batch = candidates[at : at + _READ]
        for (score, _), document in zip(batch, engine.documents([key for _, key in batch]), strict=True):
            yield score, document


def _rounded(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Drop the digits that depend on the order of additions, which an engine may change."""
    return [(float(f"{score:.5g}"), key) for score, key in ranked]


def _can_be_stored(document_id: str) -> bool:
    """Whether an id has no lone surrogates, which no index contains."""
    try:
        document_id.encode()
    except UnicodeEncodeError:
        return False
    return True


BACKENDS = ("tantivy", "trigrams", "fts5", "bm25s", "dense", "hybrid")
_DENSE = ("dense", "hybrid")
EXTRAS: Mapping[str, tuple[str, str]] = {"bm25s": ("bm25s", "search")} | dict.fromkeys(_DENSE, ("usearch", "dense"))
"""A module that a backend needs, and the extra that installs it."""


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
    from agentgym.tools.index.engine import DocumentFile

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
    if name in EXTRAS:
        require(*EXTRAS[name])
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
