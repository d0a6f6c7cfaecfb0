"""The viewer's server serves only its own data, and only to its own page."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.core.trajectory import write_jsonl
from agentgym.view.collection import Collection
from tests.view_cases import sample_run

pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.view.server import make_app
from tests.serving_cases import raw, running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "eval.jsonl"
    write_jsonl(path, sample_run())
    return path


FOREIGN = ("evil.test", "127.0.0.1.evil.test", "localhost.evil.test", "evil.test:80", "", "[::1]", "127.0.0.2")
OUTSIDE = (
    *("/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/viewer.js/../../pyproject.toml"),
    *("/..%2f..%2fetc%2fpasswd", "/eval.jsonl", "/api/../eval.jsonl", "/api/trajectory/../../x", "/data/main.js"),
)


def test_requests_with_a_foreign_host_name_are_refused(file: Path):
    with running(make_app(Collection([file]))) as server:
        for path in ("/", "/viewer.js", "/api/rows", "/api/trajectory?key=0.0", "/api/versus"):
            answers = {host: server.client.get(path, headers={"host": host}).status_code for host in FOREIGN}
            assert answers == dict.fromkeys(FOREIGN, 400)


def test_the_server_serves_only_its_own_files(file: Path):
    with running(make_app(Collection([file]))) as server:
        for path in OUTSIDE:
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            with raw(server.port, head.encode()) as connection:
                answer = b"".join(iter(lambda connection=connection: connection.recv(65536), b""))
            assert answer.split()[1] == b"404", path


def test_every_answer_carries_the_policy_that_stops_scripts_and_other_hosts(file: Path):
    with running(make_app(Collection([file]))) as server:
        for path in ("/", "/viewer.js", "/viewer.css", "/api/rows", "/api/versus?a=x"):
            headers = server.client.get(path).headers
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
            assert "access-control-allow-origin" not in headers
