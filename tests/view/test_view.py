"""The viewer without a browser: rows, search, comparisons, reports and the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentgym import make
from agentgym.core.trajectory import Trajectory, Turn, write_jsonl
from agentgym.eval.comparison import compare, read_run
from agentgym.view.collection import Collection, TextSearch, matching
from agentgym.view.environments import Environments
from agentgym.view.facts import Contents, all_versus, head_of, sides, versus
from agentgym.view.page import script, served_page, style
from agentgym.view.pay import pays_of
from agentgym.view.report import write_report
from agentgym.view.terminal import Browser, browse
from tests.rows import each_row
from tests.view_cases import DIFF, HOSTILE, errand, hostile, sample_run, write_run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "eval.jsonl"
    write_jsonl(path, sample_run())
    return path


def ids(rows: Any) -> list[str]:
    return [row["id"].removeprefix("errand/test/") for row in rows]


def test_rows_must_match_all_filters(file: Path):
    rows = Collection([file]).rows
    assert ids(matching(rows, {"difficulty": "2", "solved": "no"})) == ["1#0", "1#1", "1#2"]
    assert ids(matching(rows, {"solved": "yes"})) == ["0#0", "2#0"]
    assert ids(matching(rows, {"tag": "t1", "ending": "answered", "q": ""})) == ids(rows[3:6] + rows[9:])
    assert matching(rows, {"solved": "failed"}) == []


def test_search_covers_messages_calls_results_and_details(file: Path):
    turns = [Turn(f"Zoë «{DIFF}»", [], {"outcome": 0.0}, 0.0)]
    write_jsonl(file, [errand(7, turns=turns, details={"why": "Ünder"})], append=True)
    collection = Collection([file])
    search = TextSearch(collection)
    assert len(search.find("PORT veld: a town")) == 12
    assert {collection.row(key)["id"] for key in search.find("select 2 from")} == {
        f"errand/test/{n}#2" for n in range(4)
    }
    for text in ("zoë «diff", "ünder", "+x = 2"):
        assert [collection.row(key)["task"] for key in search.find(text)] == ["errand/test/7"]
    assert search.find("training_step") == frozenset()


def test_a_folder_holds_its_trajectory_files_and_its_metrics(tmp_path: Path):
    write_run(tmp_path / "run" if (tmp_path / "run").mkdir() is None else tmp_path)
    (tmp_path / "tasks.jsonl").write_text('{"id": "x"}\n', encoding="utf-8")
    collection = Collection([tmp_path])
    assert [row["file"] for row in collection.rows] == ["run/trajectories.jsonl"] * 16
    assert collection.metrics["run"]["success"] == [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75)]


def test_a_page_gets_only_changed_rows(file: Path):
    collection = Collection([file])
    first = head_of(collection)
    assert (first["start"], first["columns"]["id"]) == (0, [row["id"] for row in collection.rows])
    write_jsonl(file, [errand(50)], append=True)
    collection.refresh()
    second = head_of(collection, first["version"])
    assert (second["start"], second["columns"]["id"]) == (12, ["errand/test/50#0"])
    write_jsonl(file, [errand(1, 1, solved=True)], append=True)  # takes the place of the row of its first try
    collection.refresh()
    for version, start in ((second["version"], 4), (first["version"], 4), ("another server's", 0)):
        third = head_of(collection, version)
        assert (third["start"], len(third["columns"]["id"])) == (start, 13 - start)
    assert third["columns"]["group"] == [0] * 3 + [1] * 2 + [2] * 3 + [3] * 3 + [4, 1]


def test_advantages_compare_the_attempts_of_a_group():
    group = [errand(0, 0, solved=True), errand(0, 1)]
    scheme = Environments().scheme_of(group[0])
    solved, other = (pay["modes"] for pay in pays_of(group, scheme))
    assert set(solved) == {"outcome", "gated", "turn"}
    assert solved["gated"][0] > 0 > other["gated"][0]
    for pays in (pays_of(group[:1], scheme), pays_of(group, scheme, compared=False)):
        assert pays[0]["modes"] == {}


@each_row(
    ("values", "reason"),
    [
        ({"env_id": "os:System"}, "names the class"),
        ({"env_kwargs": {"tasks": "/etc/passwd"}}, "which may name code or a place"),
        ({"env_id": "no-such-env"}, "no-such-env"),
    ],
)
def test_a_recording_cannot_choose_code_and_the_reason_is_shown(tmp_path: Path, values: dict[str, Any], reason: str):
    content = content_of(tmp_path, errand(**values))
    assert reason in content["pay"]["problem"]
    assert reason in content["task"]["problem"]
    assert content["task"]["gold"] == {}


def content_of(folder: Path, trajectory: Trajectory) -> dict[str, Any]:
    write_jsonl(folder / "one.jsonl", [trajectory])
    return Contents(Collection([folder / "one.jsonl"]), Environments()).of("0.0")


def test_prompt_and_gold_are_those_of_the_recorded_task(tmp_path: Path):
    task = make("guess").tasks.get("test", 3)
    recorded: dict[str, Any] = {"env_id": "agentgym/guess-v0", "task_id": task.id, "task_hash": task.hash}
    expected = {"prompt": task.prompt, "gold": {"number": str(task.gold["number"])}, "problem": ""}
    assert content_of(tmp_path, errand(**recorded))["task"] == expected
    for change, reason in (({"task_hash": "h"}, "has changed"), ({"task_id": "guess/test/x"}, "cannot be loaded")):
        shown = content_of(tmp_path, errand(**{**recorded, **change}))["task"]
        assert (shown["gold"], shown["prompt"]) == ({}, None)
        assert reason in shown["problem"]


def test_a_run_has_its_settings_and_the_files_of_its_evaluations(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    write_run(folder)
    assert Collection([folder]).runs["run"]["settings"] == {}
    (folder / "config.yaml").write_text("model: tiny\nsteps: 4\nenv_kwargs: {difficulty: 1}\n", encoding="utf-8")
    expected = {"model": "tiny", "steps": "4", "env_kwargs": '{"difficulty": 1}'}
    run = head_of(Collection([tmp_path]))["runs"]["run"]
    assert run == {"settings": expected, "before": "run/eval-before.jsonl", "after": "run/eval-after.jsonl"}


def test_a_report_is_self_contained_and_its_blocks_are_escaped(tmp_path: Path):
    file, out = tmp_path / "eval.jsonl", tmp_path / "report.html"
    write_jsonl(file, [hostile(), *sample_run()])
    report = write_report(Collection([file]), out)
    page = out.read_text(encoding="utf-8")
    assert (report.trajectories, report.whole, report.size) == (13, 13, out.stat().st_size)
    assert page.count("<script") == page.count("</script>") == 4  # two chunks, the head, the modules
    for place in ("http:", "https:", "src=", "url(", "@import"):
        assert place not in page.replace("http://www.w3.org/2000/svg", "")
    for text in HOSTILE[:6]:
        assert text not in page
    assert "default-src 'none'" in page
    assert not list(tmp_path.glob("*.part"))


def test_two_sides_are_compared_as_the_command_does(file: Path, tmp_path: Path):
    other = tmp_path / "other.jsonl"
    write_jsonl(other, [errand(task, attempt, solved=task == 1) for task in range(5) for attempt in range(3)])
    collection = Collection([file, other])
    assert sides(collection.rows) == [("eval.jsonl", "tiny"), ("other.jsonl", "tiny")]
    comparison, expected = versus(collection, 0, 1), compare(read_run(file), read_run(other)).to_dict()
    for name in ("overall", "by_difficulty", "p_value", "measures"):
        assert comparison[name] == expected[name]
    flipped = [{**task, "attempts": None} for task in comparison["tasks"]]
    assert flipped == [{**task, "attempts": None} for task in expected["tasks"] if task["verdict"] != "tied"]
    assert comparison["tasks"][1]["attempts"] == [
        [["0.3", False], ["0.4", False], ["0.5", False]],
        [["1.3", True], ["1.4", True], ["1.5", True]],
    ]
    assert set(all_versus(collection)) == {"0-1", "1-0"}


def test_the_page_is_small_and_its_modules_are_whole():
    assert len(script()) + len(style()) < 250_000
    for hidden in ("</script", "<!--", "</style"):
        assert hidden not in script() + style()
    assert "import " not in script().replace("import from", "").split("const SQL")[0].split("const PYTHON")[0]
    assert "<script>" not in served_page()
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert sink not in script()


def screen() -> Console:
    return Console(file=io.StringIO(), width=140, color_system=None)


def keyboard(*lines: str) -> Callable[[str], str]:
    """Return a reader that types these lines, then ends the input."""
    remaining = list(lines)

    def read(prompt: str) -> str:
        if not remaining:
            raise EOFError
        return remaining.pop(0)

    return read


def output_of(console: Console) -> str:
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_terminal_lists_filters_opens_and_compares(file: Path):
    console = screen()
    lines = "solved=yes", "0", "g", "c", "w", "n", "n", "x", "/select 2", "sort=-tool_errors", "difficulty=3", "what"
    browse(Collection([file]), keyboard(*lines, "q", "typed too late"), console)
    text = output_of(console)
    assert "0 to 11 of 12, 16.7% solved" in text
    assert "differs from attempt 0 at turn 2" in text
    assert "open: outcome ≥ 1 (is 1)" in text
    assert "'what' is not a command; h lists them" in text
    assert "too late" not in text


def test_nothing_that_a_model_wrote_controls_the_terminal(tmp_path: Path):
    file = tmp_path / "eval.jsonl"
    write_jsonl(file, [hostile()])
    console = screen()
    browser = Browser(Collection([file]), console, Environments())
    for line in ("l", "0", "g", "w", "h", "policy=\x1b[31m"):
        browser.run(line)
    text = output_of(console)
    assert "␛[31mred" in text
    assert "[link=https://evil.test]markup[/link]" in text
    assert not set("\x00\x08\r\x1b\x07\x9b\x9c\u061c\u200e\u200f\u2028\u202e\u2066\u2069\ufeff\ud800") & set(text)


def test_the_command_writes_a_report_and_refuses_what_contradicts_itself(file: Path, tmp_path: Path):
    from typer.testing import CliRunner

    from agentgym.cli.app import app

    runner = CliRunner()
    out = tmp_path / "report.html"
    done = runner.invoke(app, ["view", str(file), "--out", str(out)])
    assert done.exit_code == 0
    assert "12 trajectories" in done.output
    assert out.is_file()
    refused = runner.invoke(app, ["view", str(file), "--out", str(out), "--term"])
    assert refused.exit_code == 2
    assert "choose one of them" in refused.output
