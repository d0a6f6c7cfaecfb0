"""Whole runs: their records, resumption after a crash, and messages about problems."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.base.output_files import held
from agentgym.cli.app import app
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.results.annotations import Annotations
from agentgym.eval.results.provenance import runs_in
from agentgym.trainers.config import TrainConfig, load_config
from agentgym.trainers.logbook.phases import PHASES
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.policies import load_checkpoint
from agentgym.trainers.run_folder import recorded_config, step_of
from agentgym.trainers.train import train

pytestmark = [pytest.mark.real, pytest.mark.train]

UNSTABLE = ("seconds", "tokens_per_second")
"""Metrics that depend on how fast the machine is."""


def go(config: TrainConfig) -> str:
    """Run; return what was printed."""
    output = Console(file=io.StringIO(), width=200)
    train(config, output)
    return output.file.getvalue()  # type: ignore[attr-defined]


def lines(folder: Path) -> list[dict[str, float]]:
    metrics = list(read_metrics(folder / "metrics.jsonl"))
    return [{k: v for k, v in line.items() if not k.startswith(UNSTABLE)} for line in metrics]


def assert_alike(first_run: Path, other: Path) -> None:
    """The last digits depend on who shared a batch when, and that on how fast the environments were."""
    for first, second in zip(lines(first_run), lines(other), strict=True):
        assert second == pytest.approx(first, abs=1e-4)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(folder / "model").state_dict()


def same_weights(first_run: Path, other: Path) -> bool:
    first, second = weights(first_run), weights(other)
    return all(torch.allclose(first[name], second[name], atol=1e-5) for name in first)


# Records.


def test_a_run_writes_its_records(small: Any, checkpoint: Path, sampled_from: Any):
    config = small(output_dir="run", report_to=["tensorboard"])
    output = go(config)
    run = Path("run")
    assert [line["step"] for line in lines(run)] == [1, 2, 3, 4]
    expected = {"reward", "success", "entropy", "kl_to_start", "turns", "tool_errors", "truncated", "failed", "loss"}
    assert all(expected <= set(line) for line in lines(run))
    assert all(line["sampler_gap"] <= line["sampler_gap_max"] < 1e-4 for line in lines(run))
    assert all(line["sampler_ratio_max"] == pytest.approx(1, abs=1e-4) for line in lines(run))
    for line in read_metrics(run / "metrics.jsonl"):
        assert sum(line[f"seconds/{phase}"] for phase in PHASES) == pytest.approx(line["seconds"])
        assert all(line[f"seconds/{phase}"] > 0 for phase in ("generate", "learn", "diagnostics"))
    before, after = run / "eval-before.jsonl", run / "eval-after.jsonl"
    assert len(list(read_jsonl(before))) == len(list(read_jsonl(after))) == 6
    assert sampled_from(checkpoint, before) < 1e-4
    assert sampled_from(run / "model", after) < 1e-4 < 1e-2 < sampled_from(checkpoint, after)
    summary = json.loads((run / "summary.json").read_text())
    assert set(summary) >= {"before", "after", "minutes", "verdict"}
    assert (run / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert 1 <= len(list(read_jsonl(run / "samples.jsonl"))) <= 3
    recorded = list(read_jsonl(run / "trajectories.jsonl"))
    assert sorted({t.training_step for t in recorded if t.training_step is not None}) == [0, 1, 2, 3]
    assert all("credit" in Annotations(run / "trajectories.jsonl").of(t.id, t.training_step) for t in recorded)
    [events] = {path.parent for path in run.rglob("events.out.tfevents*")}
    board = EventAccumulator(str(events)).Reload()
    assert {"train/loss", "train/agentgym/success", "train/agentgym/kl_to_start"} <= set(board.Tags()["scalars"])
    assert [event.step for event in board.Scalars("train/loss")] == [1, 2, 3, 4]
    assert {path.name for path in run.glob("checkpoint-*")} == {f"checkpoint-{step}" for step in (1, 2, 3, 4)}
    assert {version for t in recorded if t.tokens for version in t.tokens.versions} == {-1, 0, 1, 2, 3}
    [row] = runs_in(run / "run.json")
    assert (row["seed"], row["from_step"], row["changes"]) == (0, 0, {})
    assert summary["verdict"]["suggestion"] in output
    assert not (run / "README.md").exists()
    card = (run / "model" / "README.md").read_text()
    expected = (
        "letters_env:LettersEnv",
        "4 of 2 groups of 4",
        "| before training | ",
        "| after training | ",
        "Python 3",
    )
    assert [text for text in expected if text not in card] == []
    assert "license" not in card
    assert str(checkpoint.parent) not in card.partition("Trained by:")[0]
    assert "| after training" not in (run / "checkpoint-2" / "README.md").read_text()
    assert "held-out success before" in output
    assert load_config(str(run / "config.yaml")) == config


def test_the_divergence_is_measured_only_where_it_is_asked_for(small: Any):
    for lora_rank in (0, 4):
        go(small(output_dir=f"run-{lora_rank}", steps=1, track_kl=False, lora_rank=lora_rank))
        assert "kl_to_start" not in lines(Path(f"run-{lora_rank}"))[0]


def test_the_same_seed_gives_the_same_run(small: Any):
    go(small(output_dir="one"))
    go(small(output_dir="two"))
    go(small(output_dir="other", seed=1))
    assert_alike(Path("one"), Path("two"))
    assert lines(Path("one"))[0]["loss"] != pytest.approx(lines(Path("other"))[0]["loss"], abs=1e-3)
    assert same_weights(Path("one"), Path("two"))


@pytest.mark.slow
def test_training_raises_the_reward(small: Any):
    larger = {"steps": 12, "groups": 8, "group_size": 8, "updates_per_step": 1, "learning_rate": 5e-3}
    go(small(output_dir="run", save_every=100, **larger))
    rewards = [line["reward"] for line in lines(Path("run"))]
    assert sum(rewards[-3:]) / 3 > sum(rewards[:3]) / 3 + 0.2


def sampled(path: Path) -> dict[str, Any]:
    return {trajectory.id: trajectory.tokens and trajectory.tokens.completion_ids for trajectory in read_jsonl(path)}


def test_an_evaluation_with_the_same_seed_has_the_numbers_and_tokens_of_the_run(small: Any, checkpoint: Path):
    config = small(steps=2, eval_tasks=4, eval_attempts=3, output_dir="run", seed=5)
    go(config)
    summary = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))
    for when, model in (("before", checkpoint), ("after", Path("run/model"))):
        command = ["eval", "--env", config.env, "--policy", str(model), "--tasks", "test", "-n", "4", "-k", "3"]
        command += ["--seed", "5", "--max-new-tokens", "4", "--dialect", "hermes", "--out", f"{when}.jsonl", "--json"]
        again = CliRunner().invoke(app, command)
        assert again.exit_code == 0, again.output
        assert json.loads(again.stdout)["overall"] == summary[when]["overall"]
        assert sampled(Path(f"{when}.jsonl")) == sampled(Path(f"run/eval-{when}.jsonl"))


# Resumption.


def interrupted(whole: Path, into: Path, after: int) -> None:
    """Make what a kill after some steps leaves: later records, and a checkpoint that was being written."""
    shutil.copytree(whole, into)
    for folder in into.glob("checkpoint-*"):
        if step_of(folder) > after:
            shutil.rmtree(folder)
    half = into / f"checkpoint-{after + 1}"
    half.mkdir()
    (half / "trainer_state.json").write_text("{")
    shutil.rmtree(into / "model")
    for name in ("eval-after.jsonl", "summary.json"):
        (into / name).unlink()
    with (into / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "rew')


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(small: Any, letters: Any):
    go(small(output_dir="whole"))
    in_all = list(letters.started)
    interrupted(Path("whole"), Path("cut"), after=2)
    letters.started.clear()
    # Nothing but the folder: neither the model, nor the seed, nor any other setting.
    result = CliRunner().invoke(app, ["train", "--resume", "--output-dir", "cut"])
    assert result.exit_code == 0, result.output
    again = [task for task in letters.started if int(task.rpartition("/")[2]) < 2**30]  # without those of the estimate
    # The evaluation before training is not run again; that after it is, after the last two steps.
    assert sorted(again) == sorted(in_all[-6 - 2 * 8 :])
    assert [line["step"] for line in lines(Path("cut"))] == [1, 2, 3, 4]
    assert_alike(Path("whole"), Path("cut"))
    assert same_weights(Path("whole"), Path("cut"))


def test_a_run_continues_with_other_settings_but_not_with_another_model_or_evaluation(small: Any):
    go(small(output_dir="run", steps=2))
    config_text = Path("run/config.yaml").read_text()
    changed = {"seed": 1, "temperature": 0.5, "env_kwargs": {"max_turns": 2}, "context": 300, "learning_rate": 0.5}
    with pytest.raises(UsageError) as refused:
        go(small(output_dir="run", resume=True, **changed))
    expected = ("--seed is 0 in this run, not 1", "--temperature is 1.0 in", "--set is {} in", "--context is 256 in")
    assert [text for text in expected if text not in str(refused.value)] == []
    assert "--learning-rate" not in str(refused.value)
    with pytest.raises(UsageError, match="a checkpoint of step 2, beyond --steps 1"):
        go(small(output_dir="run", steps=1, resume=True))
    output = go(small(output_dir="run", steps=4, updates_per_step=1, learning_rate=0.5, save_every=4, resume=True))
    assert "from step 3: steps 2 → 4, learning_rate 0.01 → 0.5, updates_per_step 2 → 1, save_every 1 → 4" in output
    # The next one continues with the latest settings; `config.yaml` keeps the first.
    go(recorded_config(Path("run")))
    assert Path("run/config.yaml").read_text() == config_text
    recorded = json.loads(Path("run/run.json").read_text())["runs"]
    assert [(run["from_step"], run["changes"].get("steps")) for run in recorded] == [(0, None), (2, [2, 4]), (4, None)]
    assert {path.name for path in Path("run").glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-2", "checkpoint-4"}
    metrics = lines(Path("run"))
    assert [line["step"] for line in metrics] == [1, 2, 3, 4]
    assert [line["learning_rate"] > 0.03 for line in metrics] == [False, False, True, True]


def test_a_run_does_not_overwrite_another_one(small: Any):
    go(small(output_dir="run", steps=1))
    for folder in Path("run").glob("checkpoint-*"):
        shutil.rmtree(folder)
    before = Path("run/config.yaml").read_text(), Path("run/eval-before.jsonl").read_text()
    with pytest.raises(UsageError, match="'run' already holds a run"):
        go(small(output_dir="run", steps=2))
    assert (Path("run/config.yaml").read_text(), Path("run/eval-before.jsonl").read_text()) == before


def test_a_resumed_run_keeps_the_model_and_the_tokenizer_of_its_warm_start(small: Any, tmp_path: Path):
    shape = {"tiny_hidden": 32, "tiny_layers": 1, "tiny_heads": 2, "tiny_vocabulary": 300, "dialect": "hermes"}
    config = small(model="tiny", output_dir="run", warm_start_steps=2, warm_start_tasks=4, warm_start_batch=2, **shape)
    go(config)
    interrupted(Path("run"), Path("cut"), after=2)
    shutil.rmtree(tmp_path / "cache")
    assert CliRunner().invoke(app, ["train", "--resume", "--output-dir", "cut"]).exit_code == 0
    assert not (tmp_path / "cache" / "tiny").exists()
    assert_alike(Path("run"), Path("cut"))
    shutil.rmtree("cut/start")
    result = CliRunner().invoke(app, ["train", "--resume", "--output-dir", "cut", "--steps", "5"])
    assert "'cut/start' is missing" in result.stderr


def test_a_run_does_not_continue_on_another_base_model(small: Any, checkpoint: Path):
    go(small(output_dir="run", steps=1))
    with (checkpoint / "model.safetensors").open("rb+") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\1")
    with pytest.raises(UsageError, match="the files of its model have changed"):
        go(small(output_dir="run", steps=2, resume=True))


def test_two_runs_do_not_write_into_one_folder(small: Any):
    go(small(output_dir="run", steps=1))
    before = sorted(Path("run").iterdir())
    with held(Path("run")), pytest.raises(UsageError, match=rf"'run' is being written by process {os.getpid()} on "):
        go(small(output_dir="run", steps=2, resume=True))
    assert sorted(Path("run").iterdir()) == before
    go(small(output_dir="run", steps=2, resume=True))
    assert [line["step"] for line in lines(Path("run"))] == [1, 2]


# Problems.


def test_an_environment_that_never_works_stops_the_run(small: Any):
    with pytest.raises(InfrastructureError, match=r"all 8 episodes of a step failed in step; .*the disk is full"):
        go(small(output_dir="run", env="letters_env:BrokenEnv"))


# Real models.


def test_the_lora_recipe_runs_with_a_small_checkpoint(tokenizer: Any, tmp_path: Path):
    from agentgym.trainers.tiny import TinyShape, tiny_model

    folder = tmp_path / "base"
    shape = TinyShape(vocabulary=320, hidden=32, layers=1, heads=2, feed_forward=64, context=8192)
    tiny_model(tokenizer, shape, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    overrides = {"model": str(folder), "use_vllm": False, "bf16": False, "output_dir": "run", "report_to": []}
    fewer = {"steps": 2, "groups": 2, "group_size": 2, "updates_per_step": 1, "micro_batch": 2, "max_new_tokens": 8}
    less = {"eval_tasks": 2, "eval_attempts": 1, "env_kwargs": {"max_turns": 2, "engine": "sqlite"}}
    go(load_config("sql-qwen3-lora", {**overrides, **fewer, **less, "max_in_flight": 4}))
    assert [line["step"] for line in lines(Path("run"))] == [1, 2]
    assert all("kl_to_start" in line for line in lines(Path("run")))
    assert (Path("run") / "model" / "adapter_config.json").is_file()
    assert not (Path("run") / "model" / "model.safetensors").exists()
    assert type(load_checkpoint("run/model")[0]) is type(load_checkpoint(str(folder))[0])  # it can be evaluated


def test_a_model_with_dropout_learns_from_the_probabilities_that_it_sampled_with(tokenizer: Any, tmp_path: Path):
    from transformers import GPT2Config, GPT2LMHeadModel

    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id}
    shape = GPT2Config(vocab_size=320, n_positions=2048, n_embd=16, n_layer=1, n_head=2, **ids)
    GPT2LMHeadModel(shape).save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    fewer = {"steps": 1, "groups": 1, "group_size": 2, "updates_per_step": 1, "max_new_tokens": 4, "eval_tasks": 1}
    kind = {"env": "guess", "model": str(tmp_path / "base"), "lora_rank": 0, "bf16": False, "warm_start_steps": 0}
    go(load_config(None, {**kind, **fewer, "eval_attempts": 1, "output_dir": "run", "report_to": []}))
    [line] = lines(Path("run"))
    assert line["sampler_gap_max"] < 1e-4
