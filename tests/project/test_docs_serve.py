"""The examples of docs/interop/serve.md run unchanged against a real server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout

import pytest

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from typer.testing import CliRunner

from agentgym.cli.app import app
from tests.doc_blocks import DOCS, Block, blocks_of
from tests.served_envs import TOKEN, served_process

pytestmark = pytest.mark.real


ADDRESS = "http://127.0.0.1:8000"
BLOCKS = blocks_of(DOCS / "interop" / "serve.md")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    (serving,) = [words for block in BLOCKS for words in block.commands if words[:3] == ["agentgym", "serve", "env"]]
    envs = serving[3 : serving.index("--port")]
    with served_process(*envs) as (address, _):
        yield address


def test_the_python_example_is_short_and_prints_its_comments(url: str, monkeypatch: pytest.MonkeyPatch):
    (block,) = [block for block in BLOCKS if block.language == "python"]
    lines = [line for line in block.text.splitlines() if line.strip()]
    assert len(lines) <= 30
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block.text.replace(ADDRESS, url), "docs/interop/serve.md", "exec"), {})
    assert [line.removeprefix("# ") for line in lines if line.startswith("# ")] == printed.getvalue().splitlines()


def commands(program: str) -> list[Block]:
    return [block for block in BLOCKS if block.why_not is None and block.text.startswith(program)]


def test_the_evaluation_runs(url: str, monkeypatch: pytest.MonkeyPatch):
    (block,) = commands("agentgym eval")
    monkeypatch.setenv("AGENTGYM_TOKEN", TOKEN)
    ((_, *words),) = block.commands
    result = CliRunner().invoke(app, [word.replace(ADDRESS, url) for word in words])
    assert result.exit_code == 0, result.output
