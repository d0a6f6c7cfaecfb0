"""Search indexes over documents: build, search, open."""

from agentgym.tools.index.backends.hybrid import HybridIndex
from agentgym.tools.index.base import Document, Filters, Hit, Index, NoSuchDocument, Page, Span
from agentgym.tools.index.client import SearchR1Client
from agentgym.tools.index.documents import document_of, read_documents
from agentgym.tools.index.engine import Encoder
from agentgym.tools.index.intake import content_hash
from agentgym.tools.index.memory import MemoryIndex
from agentgym.tools.index.simulated import Quality, Schedule, SimulatedIndex
from agentgym.tools.index.snippets import snippet
from agentgym.tools.index.store import BACKENDS, LocalIndex, Manifest, build_index, open_index, read_manifest
from agentgym.tools.index.web.index import WebSearch
from agentgym.tools.index.writing import OpenAIEndpoint

__all__ = [
    "BACKENDS",
    "Document",
    "Encoder",
    "Filters",
    "Hit",
    "HybridIndex",
    "Index",
    "LocalIndex",
    "Manifest",
    "MemoryIndex",
    "NoSuchDocument",
    "OpenAIEndpoint",
    "Page",
    "Quality",
    "Schedule",
    "SearchR1Client",
    "SimulatedIndex",
    "Span",
    "WebSearch",
    "build_index",
    "content_hash",
    "document_of",
    "open_index",
    "read_documents",
    "read_manifest",
    "snippet",
]
