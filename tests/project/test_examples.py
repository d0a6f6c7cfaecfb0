"""Every file in examples/ is short and runs with the command in its docstring."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.settings_page import settings_page
from tests.endpoints import Fake, guessing

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
LONGEST = 60


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache shared by the examples that train the same tiny model."""
    return tmp_path_factory.mktemp("cache")


def run(example: str, *arguments: str, cwd: Path, cache: Path) -> list[str]:
    """Run an example in a folder of its own; return the lines that it prints."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "AGENTGYM_CACHE": str(cache), "COLUMNS": "120"}
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_examples_are_short_and_all_are_run_here():
    tests = Path(__file__).read_text(encoding="utf-8")
    for example in sorted(EXAMPLES.glob("*.py")):
        text = example.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= LONGEST, example.name
        assert f"python examples/{example.name}" in text.split('"""')[1], example.name
        assert f'run("{example.name}"' in tests, example.name


def test_the_tutorial_quotes_the_loop_as_it_is():
    page = (ROOT / "docs/tutorials/grpo.md").read_text(encoding="utf-8")
    assert f"```python\n{(EXAMPLES / 'plain_grpo_loop.py').read_text(encoding='utf-8')}```" in page


def test_the_page_of_settings_is_written_from_the_code():
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "a setting has changed; write its page again: scripts/docs settings"


@pytest.mark.real
def test_own_environment_passes_its_checks_and_is_solved(tmp_path: Path, cache: Path):
    lines = run("own_environment.py", cwd=tmp_path, cache=cache)
    assert re.fullmatch(r"own_environment:CoinsEnv passed: \d+ pass, 1 skip", lines[0])
    assert lines[-1] == "Thank you."


@pytest.mark.real
def test_evaluate_endpoint_solves_its_tasks(tmp_path: Path, cache: Path):
    pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")
    with Fake(lambda request, number: guessing(request), strict=True).serving() as url:
        arguments = (url, "any", "--env", "guess", "--tasks", "3", "--out", "guess.jsonl")
        lines = run("evaluate_endpoint.py", *arguments, cwd=tmp_path, cache=cache)
    assert lines[0].startswith("╭─ openai:any ")
    assert [episode.success for episode in read_jsonl(tmp_path / "guess.jsonl")] == [True] * 3


@pytest.mark.train
@pytest.mark.timeout(900)
def test_plain_grpo_loop_trains(tmp_path: Path, cache: Path):
    pytest.importorskip("torch", reason="needs the [train] extra")
    lines = run("plain_grpo_loop.py", "--steps", "2", cwd=tmp_path, cache=cache)
    solved = [re.fullmatch(r"step (\d): (\d+) of 48 solved", line) for line in lines]
    assert [match and match[1] for match in solved] == ["1", "2"]


@pytest.mark.train
@pytest.mark.timeout(900)
def test_gateway_records_an_unmodified_agent(tmp_path: Path, cache: Path):
    pytest.importorskip("torch", reason="needs the [train] extra")
    pytest.importorskip("starlette", reason="needs the [serve] extra")
    pytest.importorskip("httpx", reason="needs the [serve] extra")
    lines = run("gateway.py", "games.jsonl", cwd=tmp_path, cache=cache)
    rows = list(read_jsonl(tmp_path / "games.jsonl"))
    assert [line.partition(":")[0] for line in lines] == [row.id for row in rows]
    assert {row.task_id for row in rows} == {f"hidden-{number}" for number in range(1, 11)}
    assert all(row.tokens is not None and row.tokens.sampled > 0 for row in rows)


@pytest.mark.train
@pytest.mark.timeout(900)
def test_trl_factory_trains(tmp_path: Path, cache: Path):
    trl = pytest.importorskip("trl", reason="needs the [train] extra")
    save_model(tmp_path / "model", Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja")
    lines = run("trl_factory.py", "model", "--steps", "2", "--size", "2", cwd=tmp_path, cache=cache)
    rewards = [re.fullmatch(r"step (\d): reward \d\.\d\d", line) for line in lines if line.startswith("step ")]
    assert [match and match[1] for match in rewards] == ["1", "2"]


def save_model(folder: Path, template: Path) -> None:
    """Save a tiny model whose chat template is one that TRL can read."""
    from agentgym.trainers.tiny import TinyShape, tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer(["Take the parcel of Ada to the right house."], 320)
    tokenizer.chat_template = template.read_text(encoding="utf-8")
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    shape = TinyShape(hidden=32, layers=1, heads=2, feed_forward=64, context=4096)
    tiny_model(tokenizer, shape, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
