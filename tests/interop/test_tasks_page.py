"""The Python of docs/interop/tasks.md runs as it stands, with Docker and with the package that it needs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from tests.browsers import need_browser
from tests.doc_blocks import DOCS, Block, blocks_of
from tests.interop.arena import open_shop
from tests.task_folders import BASE

BLOCKS = [block for block in blocks_of(DOCS / "interop" / "tasks.md") if block.language == "python"]
WEBARENA_SHOP = "http://127.0.0.1:7770"


def block_about(name: str) -> Block:
    [block] = [block for block in BLOCKS if f'"{name}"' in block.text]
    assert block.text.count("\n") <= 30
    return block


@pytest.mark.docker
@pytest.mark.skipif(not BASE, reason='run first: eval "$(.ci/docker start)"')
def test_folders_are_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    words = ["tasks", "export-harbor", "code", "--out", "folders", "-n", "2", "--image", BASE, "--set", "kinds=value"]
    assert CliRunner().invoke(app, words).exit_code == 0
    exec(block_about("terminal").text, {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["1.0", "1.0"]


@pytest.mark.peers
@pytest.mark.skipif(find_spec("bfcl_eval") is None, reason="bfcl_eval: not in this environment (see .ci/peers)")
def test_bfcl_is_played(capsys: pytest.CaptureFixture[str]):
    exec(block_about("bfcl").text, {})
    assert capsys.readouterr().out.startswith("1.0 ")


@pytest.mark.peers
@pytest.mark.web
@pytest.mark.skipif(
    find_spec("webarena_verified") is None, reason="webarena_verified: not in this environment (see .ci/peers)"
)
def test_webarena_is_played(capsys: pytest.CaptureFixture[str]):
    need_browser()
    text = block_about("webarena").text
    assert text.count(WEBARENA_SHOP) == 1
    shop = open_shop()
    exec(text.replace(WEBARENA_SHOP, f"http://127.0.0.1:{shop.port}"), {})
    shop.close()
    assert capsys.readouterr().out.startswith("webarena-verified/21 1.0 ")
