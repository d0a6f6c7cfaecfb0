"""`agentgym eval --search`, on one environment and on suites, and with endpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.cli.suite_runs import SuitesRequest, run_suites
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.results.folder import read_results
from agentgym.eval.suites import load_suite
from agentgym.eval.suites.pinning import pin_tasks
from tests.endpoints import Fake, Said, call, calling, completion

SUITE = "name: one\nversion: 1\nentries:\n  - env: guess\n"


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


def test_the_oracle_is_an_upper_bound_and_costs_are_in_json():
    words = ["eval", "--env", "guess", "--policy", "random", "-n", "2", "--search"]
    assert "an upper bound" in ran(*words, "best-of-n:2,value=oracle")
    result = CliRunner().invoke(app, [*words, "beam:width=1,branch=2", "--json"])
    costs = json.loads(result.stdout)["search"]
    assert (costs["turns"], costs["policy_calls"]) == (2 * 12, 2 * 12)


def test_an_invalid_search_is_refused(tmp_path: Path):
    words = ["eval", "--env", "guess", "--policy", "no/such-model", "--search", "beam:widht=1"]
    assert "did you mean 'width'?" in ran(*words, code=2), "before the model is loaded"
    (tmp_path / "a.jsonl").write_text("")
    words = ["eval", "--rescore", str(tmp_path / "a.jsonl"), "--search", "beam"]
    assert "--search cannot be used here" in ran(*words, code=2)


def test_a_folder_of_a_suite_belongs_to_its_search(tmp_path: Path):
    (tmp_path / "one.yaml").write_text(SUITE)
    pin_tasks(tmp_path / "one.yaml", "guess", "test", 3)
    suite = load_suite(tmp_path / "one.yaml")
    out = tmp_path / "out"
    report = run_suites(SuitesRequest([suite], ["random"], search="best-of-n:2", out=out))
    assert not report.broken
    first = (out / "results.json").read_bytes()
    assert read_results(out)["settings"] == {"search": "best-of-n:n=2,value=majority"}
    run_suites(SuitesRequest([suite], ["random"], search="best-of-n:n=2,value=majority", out=out))
    assert (out / "results.json").read_bytes() == first
    for other in (None, "best-of-n:3", "best-of-n:2,value=signals"):
        with pytest.raises(UsageError, match="other settings"):
            run_suites(SuitesRequest([suite], ["random"], search=other, out=out))


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
