"""Settings of endpoints: read like all settings, checked before the first request, listed in the documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.policy_loader import has_weights, load_policy

pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from agentgym.trainers.endpoint import EndpointPolicy, Price
from agentgym.trainers.endpoint.limits import RateLimiter
from agentgym.trainers.endpoint.settings import read_settings
from tests.endpoints import Fake, guessing
from tests.rows import each_row


def test_words_are_read_as_yaml_and_later_ones_win(tmp_path: Path):
    file = tmp_path / "endpoint.yaml"
    file.write_text("top-p: 0.5\nretries: 1\nprices:\n  m: {input: 1, output: 2}\n")
    words = ["retries=9", str(file), "top-p=0.9", "stop=[a, b]"]
    settings = read_settings(words, {"temperature": 0.3, "retries": 7})
    assert (settings.top_p, settings.retries, settings.temperature, settings.stop) == (0.9, 1, 0.3, ["a", "b"])
    assert settings.prices == {"m": Price(input=1, output=2)}


@each_row(
    "word, message",
    [
        ("topp=1", "unknown endpoint setting 'topp'; did you mean 'top_p'\\?"),
        ("top_p=2", "setting top_p is not valid: .* less than or equal to 1, not 2"),
        ("prices={m: {input: 1}}", r"setting prices\.m\.output is not valid: Field required"),
        ("budget=much", "setting budget is not valid"),
        ("nowhere.yaml", "--endpoint takes KEY=VALUE or a YAML file: cannot read the file 'nowhere.yaml'"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(word: str, message: str):
    with pytest.raises(UsageError, match=message) as raised:
        read_settings([word], {})
    assert "\n" not in str(raised.value)


def test_a_policy_is_named_by_model_and_url(monkeypatch: pytest.MonkeyPatch):
    name = "openai:org/Model-7B:free@http://127.0.0.1:1/v1"
    policy = load_policy(name, env_id="guess", env_kwargs={}, max_new_tokens=9, temperature=0.0)
    assert isinstance(policy, EndpointPolicy)
    assert (policy.model, policy.settings.max_tokens, policy.settings.temperature) == ("org/Model-7B:free", 9, 0.0)
    assert not has_weights(name)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for incomplete in ("openai:model", "openai:model@localhost:8000/v1", "openai:@http://h/v1"):
        with pytest.raises(UsageError, match="openai:MODEL@URL"):
            load_policy(incomplete, env_id="guess", env_kwargs={})


def test_a_model_without_a_url_is_at_the_base_url_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    policy = load_policy("openai:m", env_id="guess", env_kwargs={})
    assert isinstance(policy, EndpointPolicy)
    assert policy.model == "m"
    monkeypatch.setenv("OPENAI_BASE_URL", "127.0.0.1")
    with pytest.raises(UsageError, match=r"OPENAI_BASE_URL, which is now '127\.0\.0\.1'"):
        load_policy("openai:m", env_id="guess", env_kwargs={})


@pytest.mark.real
def test_the_policy_loads_neither_torch_nor_its_client_before_it_is_used():
    code = "import sys, agentgym.trainers.endpoint; print({'torch', 'aiohttp', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_rates_are_kept_and_may_be_saved_up_for_a_moment_only():
    now = [0.0]
    rate = RateLimiter(60, lambda: now[0])
    assert [rate.take(1) for _ in range(12)] == [0.0] * 10 + [1.0, 2.0]
    now[0] = 3600.0
    assert [rate.take(1) for _ in range(11)] == [0.0] * 10 + [1.0]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["eval", "--env", "guess", *words], env={"COLUMNS": "200"})


def test_eval_plays_an_endpoint_and_tells_its_usage(tmp_path: Path):
    fake, out = Fake(lambda request, number: guessing(request), strict=True), tmp_path / "out.jsonl"
    with fake.serving() as url:
        words = ("--policy", f"openai:m@{url}", "-n", "3", "--out", str(out), "--max-new-tokens", "77")
        result = run(*words, "--endpoint", "top_p=0.5", "--endpoint", f"cache={tmp_path / 'answers'}")
    assert result.exit_code == 0, result.output
    assert re.search(r"all\s+100.0 %", result.stdout), result.stdout
    assert f"{len(fake.requests)} requests" in result.stderr
    assert (fake.requests[0]["max_tokens"], fake.requests[0]["top_p"]) == (77, 0.5)
    trajectories = list(read_jsonl(out))
    assert {trajectory.env_kwargs["dialect"] for trajectory in trajectories} == {"native"}
    assert {trajectory.policy for trajectory in trajectories} == {"openai:m temperature=1.0 top_p=0.5 max_tokens=77"}
