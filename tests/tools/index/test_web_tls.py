"""Pages over HTTPS: the connection goes to the checked address, and the certificate must match the name."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from agentgym.base.errors import ToolError
from agentgym.tools.index.cassette import Cassette
from agentgym.tools.index.web.index import PageLimits, WebPages
from tests.servers import QuietHandler, serving

pytest.importorskip("httpx", reason="needs the [search] extra")


@dataclass
class Site:
    """A server with a certificate for pages.test, and the names and hosts that clients requested."""

    port: int = 0
    names: list[str | None] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    authority, site = trustme.CA(), Site()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setattr("certifi.where", lambda: str(tmp_path / "authority.pem"))
    monkeypatch.setattr("agentgym.tools.index.web.index.public_address", lambda *_, **__: "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("pages.test").configure_cert(context)
    context.sni_callback = lambda _, name, __: site.names.append(name)

    class Page(QuietHandler):
        def do_GET(self) -> None:
            site.hosts.append(self.headers["host"])
            self.send_body(200, b"<title>Safe</title><p>hello")

    with serving(Page, context) as url:
        site.port = urlsplit(url).port or 0
        yield site


def reading(tmp_path: Path) -> WebPages:
    return WebPages(Cassette(tmp_path / "pages"), PageLimits(allow_private=True))


def test_the_certificate_of_the_name_is_accepted_at_the_checked_address(site: Site, tmp_path: Path):
    page = reading(tmp_path).read(f"https://pages.test:{site.port}/a")
    assert (page.title, page.text) == ("Safe", "hello")
    assert site.names == ["pages.test"]
    assert site.hosts == [f"pages.test:{site.port}"]


def test_a_certificate_for_another_name_is_refused(site: Site, tmp_path: Path):
    with pytest.raises(ToolError, match="could not be opened"):
        reading(tmp_path).read(f"https://other.test:{site.port}/a")
    assert site.hosts == []
