"""Documents on their way into an index: checked, counted, and added up to a hash that tells one set from another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from agentgym.errors import UsageError
from agentgym.tools.index.base import Document

MAX_ID_CHARS = 512


class Intake:
    """Yields documents once. Afterwards `count` and `content` say what they were.

    Raises:
        UsageError: A document cannot be indexed, or an id comes twice.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = documents
        self._ids: set[str] = set()
        self._sum = 0

    def __iter__(self) -> Iterator[Document]:
        for document in self._documents:
            cleaned = _cleaned(document)
            if cleaned.id in self._ids:
                raise UsageError(f"two documents have the id {cleaned.id!r}; ids must differ")
            self._ids.add(cleaned.id)
            # A sum, because the order in which documents come makes no difference to an index.
            self._sum += int.from_bytes(hashlib.sha256(_serialised(cleaned)).digest(), "big")
            yield cleaned

    @property
    def count(self) -> int:
        """How many documents have passed."""
        return len(self._ids)

    @property
    def content(self) -> str:
        """The hash of those that have passed."""
        return f"{self._sum % 2**256:064x}"


def content_hash(documents: Iterable[Document]) -> str:
    """Return what tells this set of documents from others, whatever their order: an index has it as `content`."""
    intake = Intake(documents)
    for _ in intake:
        pass
    return intake.content


def _cleaned(document: Document) -> Document:
    """Return a document that every index can hold: lone surrogates, which JSON can have, become question marks."""
    parts = _parts(document)
    if not all(isinstance(part, str) for part in parts):
        raise UsageError(f"the id, title, text and fields of document {document.id!r} must be strings")
    if not 0 < len(document.id) <= MAX_ID_CHARS:
        shown = document.id[:50]
        raise UsageError(f"an id must have 1 to {MAX_ID_CHARS} characters, not {len(document.id)}: {shown!r}")
    if _encodable("".join(parts)):
        return document
    if not _encodable(document.id):
        raise UsageError(f"the id {document.id!r} has a lone surrogate, which is no character")
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
