from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.cli.suite_runs import SuitesRequest, run_suites
from agentgym.core.endings import Reason
from agentgym.core.trajectory import Tokens, Trajectory, Turn, write_jsonl
from agentgym.eval.results.columns import COLUMNS, SCHEMA_VERSION
from agentgym.eval.suites import load_suite
from agentgym.eval.suites.pinning import pin_tasks
from tests import recorded
from tests.rows import each_row

pytest.importorskip("pyarrow", reason="needs the [data] extra")

DOCS = Path(__file__).parents[2] / "docs/export.md"


def trajectory(number: int, **changes: Any) -> Trajectory:
    facts: dict[str, Any] = {
        "opening": [{"role": "user", "content": "Guess."}],
        "tags": ("easy", "small"),
        "turns": [
            Turn("seven", [{"role": "user", "content": "No."}], {"outcome": 0.0, "format": 1.0}, 0.25),
            Turn("eight", [], {"outcome": 1.0, "format": 0.5}, 0.5),
        ],
        "counts": {"calls": 3, "tool_errors": 1, "format_errors": 0, "errors/refused": 1, "errors/timeout": 0},
        "usage": {"prompt_tokens": 10, "cost": 0.25},
        "tokens": Tokens([1, 2], [3, 4, 5], [1, 1, 0], [0.0] * 3, [0, 0, -1]),
        "seconds": 1.5,
    }
    return recorded.trajectory(number, **facts | changes)


def broken(number: int, reason: Reason = Reason.INFRASTRUCTURE) -> Trajectory:
    return trajectory(number, reason=reason, error="gone", component="step")


def export(*places: Path, out: Path) -> str:
    result = CliRunner().invoke(app, ["export", *map(str, places), "--out", str(out)])
    assert result.exit_code == 0, result.output
    return result.output


def test_no_command_replaces_a_file_that_it_would_not_write(tmp_path: Path):
    write_jsonl(tmp_path / "played.jsonl", [trajectory(0)])
    manifest = tmp_path / "tasks.jsonl"
    commands = [
        (["tasks", "guess", "--limit", "2", "--out", str(manifest)], "tasks.jsonl"),
        (["export", str(tmp_path / "played.jsonl"), "--out", str(tmp_path / "all.parquet")], "all.parquet"),
        (["view", str(tmp_path / "played.jsonl"), "--out", str(tmp_path / "page.html")], "page.html"),
        (["cards", "guess", "--limit", "1", "--out", str(tmp_path)], "guess.md"),
        (["tasks", "split", str(manifest), "--test", "0.5", "--out", str(tmp_path)], "test.jsonl"),
    ]
    for words, name in commands:
        (tmp_path / name).write_text("# My own notes\n")
        refused = CliRunner().invoke(app, words)
        assert (refused.exit_code, (tmp_path / name).read_text()) == (2, "# My own notes\n"), words
        assert "exists and is not" in refused.output
        (tmp_path / name).unlink()
        for _ in range(2):
            assert CliRunner().invoke(app, words).exit_code == 0, words


def rows(table: Path, columns: str = "*") -> list[Any]:
    with duckdb.connect() as database:
        return database.execute(f"SELECT {columns} FROM '{table}'").fetchall()


def test_steps_are_numbered_like_the_training_log(tmp_path: Path):
    write_jsonl(tmp_path / "trajectories.jsonl", [trajectory(0, training_step=0), trajectory(1, training_step=1)])
    export(tmp_path / "trajectories.jsonl", out=tmp_path / "all.parquet")
    assert rows(tmp_path / "all.parquet", "step") == [(1,), (2,)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "eval.jsonl", [trajectory(1), broken(2), broken(3, Reason.BROKEN_TASK)])
    export(tmp_path / "eval.jsonl", out=tmp_path / "eval.parquet")
    return tmp_path / "eval.parquet"


def test_a_row_holds_the_facts_of_the_episode(table: Path):
    row = dict(zip((c.name for c in COLUMNS), rows(table)[0], strict=True))
    assert row | {"messages": None} == {
        **dict.fromkeys(("suite", "suite_version", "entry", "step", "error", "component", "exact")),
        **{"id": "guess/test/1#0", "env": "agentgym/guess-v0", "env_arguments": "{}", "policy": "fake"},
        **{"task": "guess/test/1", "task_hash": "abc", "split": "", "difficulty": 1, "tags": ["easy", "small"]},
        **{"attempt": 0, "seed": 1, "failed": False, "broken": False, "success": True, "ending": "terminated"},
        **{"reason": "solved", "reward": 0.75, "outcome": 1.0, "channels": {"outcome": 1.0, "format": 1.5}},
        **{"turns": 2, "tool_calls": 3, "tool_errors": 1, "format_errors": 0, "mistakes": {"refused": 1}},
        **{"sampled_tokens": 2.0, "observed_tokens": 3.0, "prompt_tokens": 10.0, "cached_prompt_tokens": None},
        **{"cost": 0.25, "seconds": 1.5, "details": "{}", "messages": None, "cut_turns": 0},
    }
    assert json.loads(row["messages"]) == trajectory(1).messages


def test_failed_episodes_are_marked_and_do_not_affect_means(table: Path):
    assert rows(table, "id, failed, broken, reason, error, component")[1:] == [
        ("guess/test/2#0", True, False, "infrastructure", "gone", "step"),
        ("guess/test/3#0", True, True, "broken_task", "gone", "step"),
    ]
    assert rows(table, "avg(success::INT), avg(reward), avg(outcome), avg(channels['format'])") == [
        (1.0, 0.75, 1.0, 1.5)
    ]


def test_only_the_last_try_of_an_episode_is_a_row(tmp_path: Path):
    write_jsonl(tmp_path / "eval.jsonl", [broken(1), trajectory(2), trajectory(1)])
    assert "2 episode(s) to" in export(tmp_path / "eval.jsonl", out=tmp_path / "eval.parquet")
    assert rows(tmp_path / "eval.parquet", "id, failed") == [("guess/test/2#0", False), ("guess/test/1#0", False)]


def test_a_results_folder_becomes_one_table_with_suite_and_entry(tmp_path: Path):
    path = tmp_path / "pair.yaml"
    path.write_text("name: pair\nversion: 3\nentries: [{env: guess}, {env: errand}]\n")
    for name in ("guess", "errand"):
        pin_tasks(path, name, "test", 2)
    suite = load_suite(path)
    run_suites(SuitesRequest([suite], ["scripted", "silent"], out=tmp_path / "out"))
    write_jsonl(tmp_path / "out/trajectories/begun.jsonl", [trajectory(1)])
    output = export(tmp_path / "out", out=tmp_path / "all.parquet")
    assert "Wrote 8 episode(s)" in output
    assert "begun.jsonl was left out" in output
    sources = rows(tmp_path / "all.parquet", "DISTINCT suite, suite_version, entry, policy")
    assert set(sources) == {
        ("pair", suite.version, entry, policy) for entry in ("guess", "errand") for policy in ("scripted", "silent")
    }


def test_the_columns_are_documented():
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("| `")]
    assert table == [f"| `{column.name}` | {column.kind.value} | {column.meaning} |" for column in COLUMNS]
    assert any(line.startswith(f"Version {SCHEMA_VERSION},") for line in lines)


@each_row(
    ("content", "message"),
    [("", "no finished episode"), ("nonsense\n", "not a trajectory"), (None, "the input file")],
)
def test_a_refused_export_leaves_no_file(tmp_path: Path, content: str | None, message: str):
    source, out = tmp_path / "eval.jsonl", tmp_path / "eval.parquet"
    source.write_text(content or "")
    result = CliRunner().invoke(app, ["export", str(source), "--out", str(source if content is None else out)])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not out.exists()
