"""A language model that simulates a search engine, behind any endpoint with OpenAI's chat completions API."""

from __future__ import annotations

import re
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.index.base import Document
from agentgym.tools.index.cassette import Cassette, RecordedAnswer
from agentgym.tools.index.connection import Credential, IndexConnection, TokenBucket, checked_url
from agentgym.tools.index.simulated import Quality

_PROMPT = """You play a search engine. Write {count} short documents that it could return for a query.
{wish}{background}
Each document has about {words} words and starts on a line of its own with "Document N:", its number and its title; \
its text follows on the next line. Write nothing else.

Query: {query}"""
_WISHES = {
    Quality.USEFUL: "The documents are useful: they hold what is needed to answer the query.",
    Quality.NOISY: "The documents are noise: they look related to the query, but nothing in them helps to answer it.",
}
_HEADING = re.compile(
    r"^[ \t*#]*(?:document|doc)[ \t]*\d+[ \t]*[:.(-]*(?P<title>[^\n]*)$", re.IGNORECASE | re.MULTILINE
)


class OpenAIEndpoint:
    """Writes useful and noisy documents, like ZeroSearch's simulation model. Thread-safe; picklable.

    Args:
        base_url: The endpoint's URL, such as `http://127.0.0.1:8000/v1`.
        model: The model's name at the endpoint.
        key_env: The environment variable with the endpoint's key, if it requires one.
        words: The approximate length of a document.
        temperature: The sampling temperature.
        cassette: The recording of documents, if any.
        rate: Rate limit of requests.
        timeout_s: Timeout of each attempt.
        retries: Further attempts while the endpoint is unavailable or overloaded.
        backoff_s: Pause before the first retry; it doubles with each.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key_env: str | None = None,
        *,
        words: int = 30,
        temperature: float = 0.8,
        cassette: Cassette | None = None,
        rate: TokenBucket | None = None,
        timeout_s: float = 120.0,
        retries: int = 4,
        backoff_s: float = 0.5,
    ) -> None:
        credential = Credential(key_env) if key_env else None
        self._connection = IndexConnection(
            credential=credential, rate=rate, timeout_s=timeout_s, retries=retries, backoff_s=backoff_s
        )
        self._url = checked_url(base_url) + "/chat/completions"
        self._credential = credential
        self._cassette = cassette
        self._words = words
        self._fixed = {"model": model, "temperature": temperature}

    def write(self, query: str, quality: Quality, count: int, *, background: str = "", seed: int = 0) -> list[Document]:
        """Return at most `count` documents written by the model.

        Raises:
            UsageError: The endpoint rejects the request, or does not write documents of this quality.
            InfrastructureError: The endpoint stays unavailable, or writes no documents.
        """
        if quality not in _WISHES:
            raise UsageError(f"a model writes {' or '.join(_WISHES)} documents, not {quality!r}")
        knowledge = f"\nWhat you know: {background}" if background else ""
        prompt = _PROMPT.format(
            count=count, wish=_WISHES[quality], background=knowledge, words=self._words, query=" ".join(query.split())
        )
        content = {
            **self._fixed,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 64 + 4 * self._words * count,
            "seed": seed,
        }
        text = self._completed(content)
        documents = _documents(text)[:count]
        if not documents:
            raise InfrastructureError(f"{self._url} wrote no documents: {text!r:.200}")
        return documents

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _completed(self, content: dict[str, Any]) -> str:
        if self._cassette is None:
            return self._completed_live(content)
        request = {"kind": "completion", **content}
        return self._cassette.ask(
            request, lambda: RecordedAnswer({}, self._completed_live(content).encode())
        ).body.decode()

    def _completed_live(self, content: dict[str, Any]) -> str:
        answer = self._connection.request("POST", self._url, json=content)
        if not answer.is_success:
            raise UsageError(f"{self._url}: {self._connection.error_of(answer)}")
        try:
            text = answer.json()["choices"][0]["message"]["content"]
            text = text.encode("utf-8", "replace").decode()
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise InfrastructureError(f"{self._url} did not return a chat completion") from None
        return self._credential.redact(text) if self._credential else text


def _documents(text: str) -> list[Document]:
    """Parse documents under headings; a text without headings is split into paragraphs."""
    headings = list(_HEADING.finditer(text))
    if not headings:
        parts = [("", part) for part in re.split(r"\n\s*\n", text)]
    else:
        ends = [heading.start() for heading in headings[1:]] + [len(text)]
        parts = [(heading["title"], text[heading.end() : end]) for heading, end in zip(headings, ends, strict=True)]
    documents = []
    for title, body in parts:
        title, body = title.strip(' \t*#()"').removeprefix("Title:").strip(), " ".join(body.split())
        # A document written on its heading's line has no title.
        body = body or title
        if body:
            documents.append(Document(str(len(documents)), title if title not in ("", body) else _begin(body), body))
    return documents


def _begin(text: str) -> str:
    return " ".join(text.split()[:8])
