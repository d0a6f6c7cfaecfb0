"""Validates, counts and hashes documents on their way into an index."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from agentgym.base.errors import UsageError
from agentgym.tools.index.base import Document

MAX_ID_CHARS = 512


class Intake:
    """Yields documents once; afterwards, `count` and `content` describe them.

    Raises:
        UsageError: A document cannot be indexed, or an id is duplicated.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = documents
        self._ids: set[str] = set()
        self._sum = 0

    def __iter__(self) -> Iterator[Document]:
        for document in self._documents:
            cleaned = _cleaned(document)
            if cleaned.id in self._ids:
                raise UsageError(f"two documents have the id {cleaned.id!r}; ids must be unique")
            self._ids.add(cleaned.id)
            # A sum, because an index does not depend on the order of its documents.
            self._sum += int.from_bytes(hashlib.sha256(_serialised(cleaned)).digest(), "big")
            yield cleaned

    @property
    def count(self) -> int:
        """The number of documents yielded."""
        return len(self._ids)

    @property
    def content(self) -> str:
        """The hash of the documents yielded."""
        return f"{self._sum % 2**256:064x}"


def content_hash(documents: Iterable[Document]) -> str:
    """Return a hash of a set of documents, independent of their order; an index stores it as `content`."""
    intake = Intake(documents)
    for _ in intake:
        pass
    return intake.content


def _cleaned(document: Document) -> Document:
    """Return a document that every index can store: lone surrogates, which JSON allows, become question marks."""
    parts = _parts(document)
    if not all(isinstance(part, str) for part in parts):
        raise UsageError(f"the id, title, text and fields of document {document.id!r} must be strings")
    if not 0 < len(document.id) <= MAX_ID_CHARS:
        id_start = document.id[:50]
        raise UsageError(f"an id must have 1 to {MAX_ID_CHARS} characters, not {len(document.id)}: {id_start!r}")
    if _encodable("".join(parts)):
        return document
    if not _encodable(document.id):
        raise UsageError(f"the id {document.id!r} contains a lone surrogate, which is not a valid character")
    title, text = _encoded(document.title), _encoded(document.text)
    return Document(document.id, title, text, {_encoded(n): _encoded(v) for n, v in document.fields.items()})


def _serialised(document: Document) -> bytes:
    return "".join(f"{len(part)}:{part}" for part in _parts(document)).encode()


def _parts(document: Document) -> list[str]:
    parts = [document.id, document.title, document.text]
    for pair in sorted(document.fields.items()):
        parts += pair
    return parts


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encoded(text: str) -> str:
    return text.encode(errors="replace").decode()
