"""`agentgym index` on the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.tools.index.command import index_app


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "d.jsonl"
    records = [
        {"id": "danube", "title": "Danube", "text": "A [bold]river[/bold].", "land": "at"},
        {"id": "tisza", "title": "Tisza", "text": "Another river, with a much longer text.", "land": "hu"},
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run("build", path, "--out", tmp_path / "x") == f"Indexed 2 documents in {tmp_path / 'x'} (tantivy)\n"
    return tmp_path / "x"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(index_app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_hits_are_shown_without_markup_and_can_be_filtered(folder):
    table = run("search", folder, "danube river", "--hits", "2")
    assert "A [bold]river[/bold]." in table
    assert table.index("danube") < table.index("tisza")
    assert "tisza" not in run("search", folder, "danube river", "--hits", "1")
    table = run("search", folder, "danube river", "--where", "land=hu")
    assert ("tisza" in table, "danube" in table) == (True, False)
    with pytest.raises(UsageError, match="--where takes FIELD=VALUE, not 'hu'"):
        run("search", folder, "river", "--where", "hu")
    assert "(characters 8 to 13 of 39;" in run("show", folder, "tisza", "--start", "8", "--length", "5")
