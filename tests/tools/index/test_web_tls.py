"""Pages over HTTPS: the connection goes to the address that was checked, the certificate is the name's."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from agentgym.errors import ToolError
from agentgym.tools.index.cassette import Cassette
from agentgym.tools.index.web.pages import PageLimits, WebPages
from tests.servers import QuietHandler, serving

pytest.importorskip("httpx", reason="needs the [search] extra")


@dataclass
class Site:
    """A server with a certificate for pages.test, and what it was asked for."""

    port: int = 0
    names: list[str | None] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    authority, made = trustme.CA(), Site()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setattr("certifi.where", lambda: str(tmp_path / "authority.pem"))
    monkeypatch.setattr("agentgym.tools.index.web.pages.public_address", lambda *_, **__: "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("pages.test").configure_cert(context)
    context.sni_callback = lambda _, name, __: made.names.append(name)

    class Page(QuietHandler):
        def do_GET(self) -> None:
            made.hosts.append(self.headers["host"])
            self.send_body(200, b"<title>Safe</title><p>hello")

    with serving(Page, context) as url:
        made.port = urlsplit(url).port or 0
        yield made


def reading(tmp_path: Path) -> WebPages:
    return WebPages(Cassette(tmp_path / "pages"), PageLimits(allow_private=True))


def test_the_name_is_told_and_its_certificate_accepted_at_the_checked_address(site: Site, tmp_path: Path):
    page = reading(tmp_path).read(f"https://pages.test:{site.port}/a")
    assert (page.title, page.text) == ("Safe", "hello")
    assert site.names == ["pages.test"]
    assert site.hosts == [f"pages.test:{site.port}"]


def test_a_certificate_of_another_name_opens_nothing(site: Site, tmp_path: Path):
    with pytest.raises(ToolError, match="could not be opened"):
        reading(tmp_path).read(f"https://other.test:{site.port}/a")
    assert site.hosts == []
