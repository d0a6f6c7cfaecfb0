"""Credentials are sent, but never recorded, reported or logged, whatever the server answers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.registry import make
from agentgym.eval.evaluation import evaluate
from agentgym.eval.results.provenance import provenance
from agentgym.rollout import EnvFactory, Limits

pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.trainers.endpoint.connection import completions_url
from agentgym.trainers.endpoint.settings import checked
from tests.endpoints import Fake, Said, completion, policy_at
from tests.rows import each_row

KEY = "sk-quoted-by-the-server-0123456789"
HEADER = "another-one-in-a-header"
TOLD = f"Incorrect API key: {KEY} ({HEADER})"
ESCAPED = '{"choices": [{"message": {"%s": "' + TOLD.replace("-", r"\u002d") + '"}}]}'
"""The answer of servers that escape some characters."""
GUESS = EnvFactory("agentgym/guess-v0", {"dialect": "native"})


@pytest.mark.parametrize(
    "response",
    [
        Said({"error": {"message": TOLD}}, 401),
        Said({"error": {"message": f"context_length_exceeded {TOLD}"}}, 400),
        Said({"error": {"message": TOLD}}, 500),
        Said("", 307, {"location": f"http://127.0.0.1/?k={KEY}"}),
        Said(f"<html>Authorization: Bearer {KEY} X-Api-Key: {HEADER}</html>"),
        completion({"content": None, "reasoning_content": TOLD}),
        Said(ESCAPED % "reasoning_content"),
        Said({"error": {"message": "x" * 270 + TOLD}}, 400),
    ],
)
def test_a_key_that_the_server_quotes_is_recorded_and_told_nowhere(
    response: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("MY_KEY", KEY)
    fake = Fake(lambda request, number: response)
    error_text, cache = "", tmp_path / "cache"
    with fake.serving() as url:
        headers = {"X-Api-Key": HEADER}
        policy = policy_at(url, key="MY_KEY", headers=headers, retries=1, first_wait_s=0.0, cache=str(cache))
        tasks = [make("guess").tasks.get("test", 0)]
        try:
            evaluate(GUESS, policy, tasks, out=tmp_path / "out.jsonl", limits=Limits(retries=0))
        except UsageError as error:
            error_text = str(error)
    assert fake.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert fake.headers[0]["X-Api-Key"] == HEADER
    written = "".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file())
    assert "***" in error_text + written
    for secret in (KEY, KEY[:20], HEADER):
        assert secret not in error_text + written + caplog.text
        assert secret.replace("-", r"\u002d") not in written


@each_row("headers", [f"Authorization: Bearer {KEY}", [KEY], {"a": [KEY]}, {"a": {KEY: 1}}])
def test_headers_that_cannot_be_used_are_not_quoted(headers: Any):
    with pytest.raises(UsageError, match="headers") as raised:
        checked({"headers": headers})
    assert KEY not in str(raised.value)


@each_row("key", ["sk-0123", "Bearer abc", "a b", ""])
def test_a_key_in_place_of_its_variable_is_refused_and_not_quoted(key: str):
    with pytest.raises(UsageError, match="name of the environment variable") as raised:
        checked({"key": key})
    assert not key or key not in str(raised.value)


@each_row("url", [f"http://user:{KEY}@127.0.0.1/v1", f"http://h/v1?key={KEY}", f"http://h/v1?a=1&api-key={KEY}"])
def test_a_url_with_a_password_or_a_key_is_refused_and_not_quoted(url: str):
    with pytest.raises(UsageError, match="would be recorded") as raised:
        completions_url(url)
    assert KEY not in str(raised.value)


@each_row(
    "words",
    [
        ["--policy", f"openai:m@http://me:{KEY}@127.0.0.1/v1"],
        ["--policy", f"openai:m@http://127.0.0.1/v1?sig={KEY}"],
        ["--endpoint", f"headers={{Authorization: Bearer {KEY}}}"],
        ["--endpoint", f"key={KEY}"],
        [f"--endpoint=headers={{Authorization: Bearer {KEY}}}"],
    ],
)
def test_the_command_that_results_record_holds_no_key(words: list[str]):
    recorded = provenance(["agentgym", "eval", "--seed", "1", *words])["command"]
    assert shlex.split(recorded)[:4] == ["agentgym", "eval", "--seed", "1"]
    assert KEY not in recorded


@each_row(
    "url, request_url",
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/chat/completions"),
        ("https://example.com/a/b/v1//", "https://example.com/a/b/v1/chat/completions"),
        ("http://h/v1?api-version=2024-10", "http://h/v1/chat/completions?api-version=2024-10"),
    ],
)
def test_requests_go_below_the_path_of_the_url_and_keep_its_query(url: str, request_url: str):
    assert completions_url(url) == request_url


def test_a_key_that_http_cannot_carry_is_refused_and_not_quoted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_KEY", f"{KEY}\nother")
    with pytest.raises(UsageError, match="API key in MY_KEY") as raised:
        policy_at("http://127.0.0.1:1/v1", key="MY_KEY")
    assert KEY not in str(raised.value)
