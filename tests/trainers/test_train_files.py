"""Training on tasks from files with the recipes that come with agentgym."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.config import TrainConfig, load_config
from agentgym.trainers.trl_config import env_factory, eval_split_of, probe
from agentgym.trainers.warm_start import no_progress, solutions
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

DATA = Path(__file__).parents[1] / "data"
SQL_FOLDER = DATA / "spider_style"
SMALL = [
    *("--steps=1", "--groups=2", "--group-size=2", "--updates-per-step=1", "--micro-batch=4", "--warm-start-steps=1"),
    *("--warm-start-tasks=8", "--warm-start-until=1", "--tiny-hidden=32", "--tiny-layers=1", "--tiny-vocabulary=300"),
    *("--eval-tasks=2", "--eval-attempts=1", "--output-dir=run", "--report-to=[]"),
]


def mbpp(folder: Path, *doubled: int) -> Path:
    entries = [
        {"task_id": 601 + n, "text": f"Write a function that returns {n} times a number."}
        | {"code": f"def f(x): return {n} * x", "test_list": [f"assert f(2) == {factor * 2}"]}
        for n, factor in enumerate(doubled)
    ]
    (folder / "mbpp.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return folder / "mbpp.jsonl"


def train(*words: str) -> Result:
    return CliRunner().invoke(app, ["train", *words, *SMALL])


@pytest.mark.parametrize(
    ("env", "settings", "split"),
    [
        ("sql", [f"folder={SQL_FOLDER}"], "validation"),
        ("search", [f"folder={DATA / 'search_files' / 'hotpot.json'}", "split_by=train"], "train"),
        ("code", ["file=mbpp.jsonl"], "train"),
    ],
)
def test_the_recipe_of_an_environment_trains_on_files(env: str, settings: list[str], split: str):
    mbpp(Path.cwd(), 0, 1, 2)
    words = [word for setting in settings for word in ("--set", setting)]
    result = train("--env", env, *words, *([] if split == "validation" else ["--eval-split", split]))
    assert result.exit_code == 0, result.output
    before = read_jsonl(Path("run/eval-before.jsonl"))
    assert {trajectory.split for trajectory in before} == {split}
    assert not [trajectory.error for trajectory in before if trajectory.error]


@each_row("env, argument", [("sql", "folder"), ("code", "file")])
def test_settings_of_generated_tasks_in_a_recipe_do_not_apply_to_files(env: str, argument: str):
    recipe = load_config(None, {"env": env}).env_kwargs
    kwargs = load_config(None, {"env": env, "env_kwargs": {argument: "data", "max_turns": 9}}).env_kwargs
    generated = {"difficulty", "families", "domains", "relations", "worlds", "questions_per_world", "passages"}
    remaining = {name: recipe[name] for name in recipe if name not in generated}
    assert kwargs == {**remaining, argument: "data", "max_turns": 9}


def config_on(folder: Path, *files: str, **settings: Any) -> TrainConfig:
    for number, file in enumerate(files):
        lines = [json.dumps({"question": f"{number} {n}?", "answer": f"#### {n}"}) for n in range(40)]
        (folder / file).write_text("\n".join(lines))
    return load_config(None, {"env": "code", "env_kwargs": {"file": str(folder)} | settings})


@each_row(
    "files, settings, split",
    [
        (["train.jsonl", "test.jsonl"], {}, "test"),
        (["train.jsonl", "dev.jsonl"], {}, "validation"),
        (["dev.jsonl"], {"split_by": "hash"}, "test"),
    ],
)
def test_held_out_tasks_are_of_test_or_of_what_comes_nearest(tmp_path: Path, files: Any, settings: Any, split: str):
    config = config_on(tmp_path, *files, **settings)
    assert eval_split_of(config, probe(env_factory(config))[0]) == split


def test_where_there_is_nothing_to_train_on_that_is_said(tmp_path: Path):
    config = config_on(tmp_path, "dev.jsonl")
    message = "no split 'train' to train on, only validation; .* divide them with --set split_by=hash"
    with pytest.raises(UsageError, match=message):
        eval_split_of(config, probe(env_factory(config))[0])


def test_a_broken_task_costs_a_warm_start_its_own_solution_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    kwargs = {"file": str(mbpp(tmp_path, 0, 1, 7)), "split_by": "train", "solution_style": "direct"}
    trajectories = solutions("code", kwargs, 40, 0, no_progress)
    assert {t.task_id for t in trajectories} == {"mbpp/601", "mbpp/602"}
    with pytest.raises(UsageError, match=r"solution\(\) does not solve .* 3 of 3 tasks"):
        solutions("code", kwargs | {"max_turns": 1, "solution_style": "full"}, 40, 0, no_progress)


def test_a_model_trained_on_generated_tasks_is_evaluated_on_files(tmp_path: Path, checkpoint: Path):
    trained = {"env": "code", "env_kwargs": {"dialect": "compact", "families": ["tiny_digits"], "max_turns": 2}}
    (checkpoint / "agentgym.json").write_text(json.dumps(trained))
    words = ["eval", "--env", "code", "--policy", str(checkpoint), "--set", f"file={mbpp(tmp_path, 1)}"]
    words += ["--max-new-tokens", "2", "--out", "out.jsonl", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    (trajectory,) = read_jsonl(Path("out.jsonl"))
    assert trajectory.env_kwargs == {"dialect": "compact", "max_turns": 2, "file": str(tmp_path / "mbpp.jsonl")}
