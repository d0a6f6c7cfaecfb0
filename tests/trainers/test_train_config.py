"""Settings: where they come from, which are refused, and that each is explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app as cli
from agentgym.trainers.command import app, overrides_of
from agentgym.trainers.config import (
    FIELDS,
    PRETRAINED,
    TrainConfig,
    describe,
    load_config,
    to_dict,
)
from tests.rows import each_row


def test_flags_override_the_recipe_and_the_recipe_the_defaults(tmp_path: Path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("steps: 7\ngroups: 5\nenv_kwargs: {a: 1, b: 2}\nupdates_per_step: 1\n")
    config = load_config(str(recipe), {"groups": 9, "env_kwargs": {"b": 3}})
    assert (config.steps, config.groups, config.group_size) == (7, 9, TrainConfig().group_size)
    assert config.env_kwargs == {"a": 1, "b": 3}


@each_row("env", ["sql", "agentgym/sql"])
def test_the_recipe_named_like_the_environment_is_used(env: str):
    assert load_config(None, {"env": env}).context == load_config("sql").context


def test_another_model_than_tiny_has_defaults_of_its_own_and_not_the_tiny_recipe():
    config = load_config(None, {"env": "sql", "model": "some/model", "group_size": 4})
    assert config == TrainConfig(env="sql", model="some/model", **{**PRETRAINED, "group_size": 4})
    assert config.context > load_config("sql").context
    assert config.learning_rate < load_config("sql").learning_rate


def test_the_micro_batch_of_a_recipe_is_lowered_and_that_of_a_flag_refused():
    assert load_config("sql", {"groups": 2, "group_size": 4}).micro_batch == 4
    assert load_config("sql", {"groups": 3, "group_size": 18}).micro_batch == 27
    assert load_config("sql").micro_batch == 32
    with pytest.raises(UsageError, match="multiple of micro_batch"):
        load_config("sql", {"groups": 2, "group_size": 4, "micro_batch": 32})


# The command line.


def parse(*words: str) -> tuple[str | None, dict[str, Any]]:
    """Return the recipe and the settings that a command line changes."""
    options = dict(get_command(app).make_context("train", [*words]).params)
    names = ("recipe", "settings", "show_config", "only", "dry_run")
    recipe, settings, *_ = (options.pop(name) for name in names)
    return recipe, overrides_of(options, settings or ())


def test_every_setting_is_a_flag():
    words = "--steps 3 --learning-rate=5e-4 --bf16 --max-tokens null --env null --report-to []".split()  # noqa: SIM905
    recipe, overrides = parse(*words, "--set", "difficulty=[1, 2]", "--recipe", "sql")
    assert recipe == "sql"
    assert overrides == {
        "steps": 3,
        "learning_rate": 5e-4,
        "bf16": True,
        "max_tokens": None,
        "env": "null",
        "report_to": [],
        "env_kwargs": {"difficulty": [1, 2]},
    }


def test_a_switch_can_be_turned_on_and_off():
    assert parse("--no-bf16", "--resume", "--group_size", "1")[1] == {"bf16": False, "resume": True, "group_size": 1}


@each_row("words", [["steps"], ["--steps"], ["--stepz", "1"], ["--set", "x"], ["--steps", "[1"]])
def test_invalid_options_are_refused(words: list[str]):
    result = CliRunner().invoke(cli, ["train", *words])
    assert result.exit_code == 2
    assert words[0].strip("-") in result.output


# Invalid settings.


@each_row(
    "name, value, message",
    [
        ("learning_rat", 1, "did you mean 'learning_rate'"),
        ("group-size", 8, "did you mean 'group_size'"),
        ("steps", "many", "setting 'steps': .*got 'many'"),
        ("credit", "magic", "setting 'credit': .*outcome.*gated.*turn"),
        ("updates_per_step", 7, "multiple of updates_per_step"),
        ("micro_batch", 7, "multiple of micro_batch"),
        ("temperature", 0, "temperature must be above 0"),
        ("warm_start_until", 20, "warm_start_until must be above 0 and at most 1, not 20"),
        ("keep_checkpoints", 1, "at least 2"),
        ("env_kwargs", {"lenient": True}, "lenient is for evaluation"),
        ("loss", "ppo", "loss must be one of dapo"),
        ("learning_rate", float("nan"), "setting 'learning_rate': .*finite"),
        ("outage", 3, "outage must be above 0 and at most 1, not 3"),
        ("workers", "threds", "there are no workers 'threds'; did you mean 'threads'"),
    ],
)
def test_a_wrong_setting_gets_a_line_that_says_what_is_wrong(name: str, value: Any, message: str):
    with pytest.raises(UsageError, match=message):
        load_config(None, {"env": "guess", name: value})


def test_running_ahead_is_for_real_models_and_without_refilled_groups():
    model = {"env": "sql", "model": "some/model"}
    assert (load_config("sql").ahead, load_config(None, model).ahead, load_config("sql-qwen3-lora").ahead) == (0, 1, 1)
    with pytest.raises(UsageError, match="set ahead: 0 or refill_rounds: 0"):
        load_config(None, {**model, "refill_rounds": 1})


def test_every_setting_that_is_a_number_has_bounds_or_is_known_to_have_none():
    unbounded = {"seed", "entropy_weight"}
    for name, kind in ((name, str(field.type)) for name, field in FIELDS.items()):
        if kind.startswith(("int", "float")) and name not in unbounded:
            with pytest.raises(UsageError, match=f"{name} must be "):
                load_config(None, {"env": "guess", name: -1})


def test_an_unknown_recipe_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"unknown recipe 'sqll'; did you mean 'sql'\?.*one of: .*sql-qwen3-full"):
        load_config("sqll")


@each_row("text, problem", [("step: 3\n", "unknown setting 'step'"), ("- a\n- b\n", ""), ("steps: [1\n", "")])
def test_a_wrong_setting_of_a_recipe_is_reported_with_its_file(tmp_path: Path, text: str, problem: str):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError, match=rf"mine\.yaml.*{problem}"):
        load_config(str(tmp_path / "mine.yaml"))


@each_row("config", [TrainConfig(), load_config("sql"), load_config("sql-qwen3-full")])
def test_the_shown_configuration_is_a_recipe_for_the_same_run(config: TrainConfig, tmp_path: Path):
    for number, text in enumerate((describe(config), yaml.safe_dump(to_dict(config)))):
        recipe = tmp_path / f"{number}.yaml"
        recipe.write_text(text)
        assert load_config(str(recipe)) == config
