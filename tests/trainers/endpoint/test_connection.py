"""The connection to an endpoint: proxies, certificates, and answers that are not valid HTTP."""

from __future__ import annotations

import ssl

import pytest
import trustme

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason

pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from tests.endpoints import Fake, guessing, policy_at
from tests.rows import each_row
from tests.trainers.endpoint.test_faults import play

PASSWORD = "pass-of-the-proxy"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The variables of an environment without proxies."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


@each_row("form", ["{}", "HTTP://me:p@w@{}/"])
def test_requests_go_through_the_proxy_of_the_environment(form: str, proxy: pytest.MonkeyPatch):
    fake = Fake(lambda request, number: guessing(request))
    with fake.serving() as url:
        proxy.setenv("http_proxy", form.format(url.removeprefix("http://").removesuffix("/v1")))
        [trajectory] = play(policy_at("http://model.test/v1"))
    assert trajectory.success
    assert set(fake.paths) == {"http://model.test/v1/chat/completions"}


@each_row("port", [True, False])
def test_a_host_may_be_left_out_of_the_proxy_with_its_port(port: bool, proxy: pytest.MonkeyPatch):
    with Fake(lambda request, number: guessing(request)).serving() as url:
        address = url.removeprefix("http://").removesuffix("/v1")
        proxy.setenv("http_proxy", "http://127.0.0.1:9")
        proxy.setenv("no_proxy", address if port else address.partition(":")[0])
        [trajectory] = play(policy_at(url, retries=0))
    assert trajectory.success


@each_row("named", ["socks5://me:{}@127.0.0.1:9", "http://[::1", "http://me:{}@"])
def test_a_proxy_of_another_kind_stops_the_run_in_one_line(named: str, proxy: pytest.MonkeyPatch):
    proxy.setenv("http_proxy", named.format(PASSWORD))
    with pytest.raises(UsageError, match="is not an HTTP proxy; set one like http://HOST:PORT in http_proxy") as raised:
        play(policy_at("http://model.test/v1"))
    assert PASSWORD not in str(raised.value)


def test_a_proxy_that_is_down_is_named_without_its_password(proxy: pytest.MonkeyPatch):
    proxy.setenv("http_proxy", f"http://me:{PASSWORD}@127.0.0.1:9")
    [trajectory] = play(policy_at("http://model.test/v1", retries=0))
    assert trajectory.reason is Reason.INFRASTRUCTURE
    assert "through the proxy 127.0.0.1: " in str(trajectory.error)
    assert PASSWORD not in str(trajectory.error)


def test_a_certificate_that_is_not_trusted_stops_the_run_in_one_line():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    fake = Fake(lambda request, number: guessing(request))
    message = r"its certificate is not trusted \(.*unable to get local issuer.*\); .* SSL_CERT_FILE"
    with fake.serving(context) as url, pytest.raises(UsageError, match=message) as raised:
        play(policy_at(url))
    assert "\n" not in str(raised.value)
    assert not fake.requests
