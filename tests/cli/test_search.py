"""`agentgym eval --search`, on one environment and on suites, and with endpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.core.trajectory import read_jsonl
from tests.endpoints import Fake, Said, call, calling, completion


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")


def ran(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_eval_and_compare_print_the_costs_of_the_whole_search(tmp_path: Path):
    plain, searched = str(tmp_path / "plain.jsonl"), str(tmp_path / "searched.jsonl")
    of = ["eval", "--env", "guess", "--policy", "random", "-n", "4"]
    text = ran(*of, "--search", "best-of-n:3,value=signals", "--out", searched)
    assert "random with best-of-n:n=3,value=signals" in text
    assert "whole search episodes 3.0" in text
    assert "upper bound" not in text
    ran(*of, "--out", plain)
    compared = ran("compare", plain, searched)
    assert "whole search: turns 12.00" in compared
    assert "whole search" not in ran("compare", plain, plain)
    assert "4 of 4 trajectories came out as recorded" in ran("replay", searched)
    assert "another policy" in ran(*of, "--search", "best-of-n:4", "--out", searched, code=2)


def test_an_invalid_search_is_refused(tmp_path: Path):
    words = ["eval", "--env", "guess", "--policy", "no/such-model", "--search", "beam:widht=1"]
    assert "did you mean 'width'?" in ran(*words, code=2), "before the model is loaded"
    (tmp_path / "a.jsonl").write_text("")
    words = ["eval", "--rescore", str(tmp_path / "a.jsonl"), "--search", "beam"]
    assert "--search cannot be used here" in ran(*words, code=2)


def answer(request: dict[str, Any], number: int) -> Said:
    """Guess the next number; as a judge, prefer the guess 7."""
    text = str(request["messages"][-1]["content"])
    if "Score: NUMBER" in text:
        return completion("Score: 9" if '"number\\": 7' in text or '"number": 7' in text else "Score: 1")
    return calling(call("guess", {"number": number % 10}))


def test_calls_of_endpoints_as_policy_and_judge_are_counted(tmp_path: Path):
    pytest.importorskip("aiohttp")
    fake, out = Fake(answer, strict=True), tmp_path / "out.jsonl"
    with fake.serving() as url:
        ran(
            *("eval", "--env", "guess", "--policy", f"openai:m@{url}", "-n", "1", "--set", "max_turns=2"),
            *("--search", f"beam:width=1,branch=3,value=judge,judge=openai:j@{url}", "--out", str(out)),
        )
    [trajectory] = read_jsonl(out)
    search = trajectory.search
    assert (search["policy_calls"], trajectory.usage["completion_tokens"]) == (6, 10)
    assert search["sampled_tokens"] == 5 * len(fake.requests) == 5 * (6 + search["value_calls"])
    assert {request["model"] for request in fake.requests} == {"m", "j"}
    lengths = [len(request["messages"]) for request in fake.requests if request["model"] == "m"]
    assert lengths[3:] == [lengths[0] + 2] * 3  # the first turn is part of the second prompt
