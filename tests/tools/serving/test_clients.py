"""Clients of our servers: a busy server is retried for a limited time, and a refusal is final."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

httpx = pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.base.errors import UsageError  # noqa: E402
from agentgym.base.retries import retry_after_s  # noqa: E402
from agentgym.tools.sandbox import SandboxSpec, SandboxStartFailed  # noqa: E402
from agentgym.tools.sandbox.remote import RemoteBackend  # noqa: E402
from tests.endpoints import Fake, Said  # noqa: E402
from tests.rows import each_row  # noqa: E402


@contextmanager
def refusing(status: int, **headers: str) -> Iterator[tuple[Fake, RemoteBackend]]:
    """A server of sandboxes that refuses all requests, and a client of it."""
    about = {"tier": "namespaces", "notes": "", "protections": {}, "silent_s": 60}
    server = Fake(lambda *_: Said({"detail": "not now"}, status, headers), about=about)
    with server.serving() as url, closing(RemoteBackend(url.removesuffix("/v1"), "t" * 20, busy_s=1.0)) as backend:
        yield server, backend


@each_row("header, seconds", [("7", 7), ("0.5", 0.5), ("-3", 0), ("nan", 0), ("inf", 0), ("soon", 0), ("", 0)])
def test_retry_after_is_parsed_and_nonsense_counts_as_0(header: str, seconds: float):
    assert retry_after_s(httpx.Headers({"retry-after": header})) == seconds


def test_a_server_of_sandboxes_that_stays_busy_is_an_infrastructure_error():
    with refusing(503, **{"retry-after": "0.05"}) as (server, backend):
        with pytest.raises(SandboxStartFailed, match="not now"):
            backend.start(SandboxSpec())
        assert len(server.requests) > 1


@each_row("status", [400, 401, 411, 413, 422, 431])
def test_a_final_refusal_of_a_sandbox_server_is_the_callers_mistake(status: int):
    with refusing(status) as (server, backend):
        with pytest.raises(UsageError, match="not now"):
            backend.start(SandboxSpec())
        assert len(server.requests) == 1
