"""Settings: where they come from, which are refused, and that each is explained."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.errors import UsageError
from agentgym.messages import text_of
from agentgym.registry import make
from agentgym.trainers.command import parse
from agentgym.trainers.config import (
    FIELDS,
    LOSSES,
    PRETRAINED,
    RECIPES,
    TrainConfig,
    bundled_recipes,
    describe,
    load_config,
    to_dict,
)
from agentgym.trainers.credit import CreditMode
from agentgym.trainers.trl_config import env_factory, eval_split_of, grpo_config, peft_config, probe
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


# Where values come from.


def test_flags_override_the_recipe_and_the_recipe_the_defaults(tmp_path: Path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("steps: 7\ngroups: 5\nenv_kwargs: {a: 1, b: 2}\nupdates_per_step: 1\n")
    config = load_config(str(recipe), {"groups": 9, "env_kwargs": {"b": 3}})
    assert (config.steps, config.groups, config.group_size) == (7, 9, TrainConfig().group_size)
    assert config.env_kwargs == {"a": 1, "b": 3}


@each_row("env", ["sql", "agentgym/sql"])
def test_the_recipe_named_like_the_environment_is_used(env: str):
    assert load_config(None, {"env": env}).context == load_config("sql").context


def test_an_environment_without_a_recipe_has_the_defaults():
    assert load_config(None, {"env": "guess"}) == TrainConfig(env="guess")


def test_another_model_than_tiny_has_defaults_of_its_own_and_not_the_tiny_recipe():
    config = load_config(None, {"env": "sql", "model": "some/model", "group_size": 4})
    assert config == TrainConfig(env="sql", model="some/model", **{**PRETRAINED, "group_size": 4})
    assert config.context > load_config("sql").context
    assert config.learning_rate < load_config("sql").learning_rate


def test_a_recipe_for_another_model_than_tiny_warm_starts_it_only_if_it_says_so(tmp_path: Path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("model: some/model\n")
    assert load_config(str(recipe)).warm_start_steps == 0
    chosen = load_config(str(recipe), {"warm_start_steps": 5})
    assert (chosen.warm_start_steps, chosen.warm_start_learning_rate) == (5, PRETRAINED["warm_start_learning_rate"])


def test_recordings_that_no_step_would_learn_from_are_refused():
    with pytest.raises(UsageError, match="warm_start_from names what to imitate, but warm_start_steps is 0"):
        load_config(None, {"model": "some/model", "warm_start_from": "recorded.jsonl"})


def test_the_recipe_for_a_small_pretrained_model_covers_half_of_the_question_families_on_both_engines():
    from agentgym.tasks.sql.questions import FAMILIES

    chosen = load_config("sql-smollm2").env_kwargs
    assert 2 * len(set(chosen["families"])) >= len(FAMILIES)
    assert chosen["engine"] == "mixed"
    assert not {"domains", "sample_rows", "preview_rows", "show_schema"} & chosen.keys()


def test_the_search_recipe_for_a_small_pretrained_model_leaves_out_of_two_levels_only_what_no_search_answers():
    from agentgym.tasks.search import SearchTasks

    chosen = load_config("search-smollm2").env_kwargs
    known = SearchTasks.known()
    easy = {name for name in known if known[name].level <= 2}
    assert set(chosen["families"]) < easy
    computed = {"age_at_death", "years_in_office"}
    assert {name for name in easy if not name.startswith("given_")} - set(chosen["families"]) == computed
    assert not {"wording", "backend", "relations", "scheme", "solved"} & chosen.keys()


def test_the_recipe_of_code_for_it_asks_for_values_of_all_levels_and_short_functions_worded_as_for_any_model():
    from agentgym.tasks.code import FAMILIES, Kind

    chosen = load_config("code-smollm2").env_kwargs
    families = {FAMILIES[name] for name in chosen["families"]}
    assert not any(family.held_out for family in families)
    values = {family.level for family in families if family.kind is Kind.VALUE}
    others = {(family.kind, family.level) for family in families if family.kind is not Kind.VALUE}
    assert (values, others) == ({1, 2, 3, 4, 5}, {(Kind.FUNCTION, 1)})
    assert chosen.keys() == {"families", "max_turns"}


def test_the_micro_batch_of_a_recipe_is_lowered_and_that_of_a_flag_refused():
    assert load_config("sql", {"groups": 2, "group_size": 4}).micro_batch == 4
    assert load_config("sql", {"groups": 3, "group_size": 18}).micro_batch == 27
    assert load_config("sql").micro_batch == 32
    with pytest.raises(UsageError, match="multiple of micro_batch"):
        load_config("sql", {"groups": 2, "group_size": 4, "micro_batch": 32})


@each_row("name", bundled_recipes())
def test_every_bundled_recipe_is_valid_and_its_environment_can_be_made(name: str):
    config = load_config(name)
    source, _ = probe(env_factory(config))
    assert (config.eval_split, eval_split_of(config, source)) == (None, "test")


@each_row("name, most", [("sql", 290), ("code", 290), ("search", 520)])
def test_tiny_models_are_given_plain_prompts(name: str, most: int):
    config = load_config(name)
    env = make(config.env, **config.env_kwargs, dialect="compact")
    for seed in range(50):
        assert sum(len(text_of(message)) for message in env.reset(seed=seed)[0]) < most
    env.close()


@each_row("devices", [1, 8])
@each_row("name", ["sql-qwen3-lora", "sql-qwen3-full"])
def test_recipes_for_gpus_can_be_spread_over_eight(name: str, devices: int):
    config = load_config(name, {"bf16": False, "use_vllm": False})
    arguments = grpo_config(config, world_size=devices, use_cpu=True)
    per_device = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps
    assert per_device * devices * config.updates_per_step == config.batch
    assert arguments.gradient_checkpointing
    assert (peft_config(config) is None) == (name == "sql-qwen3-full")


def test_settings_for_accelerate_are_not_recipes():
    files = {path.stem for path in RECIPES.glob("*.yaml")}
    assert {"accelerate-fsdp", "accelerate-deepspeed-zero3"} <= files
    assert set(bundled_recipes()) == {name for name in files if not name.startswith("accelerate-")}
    for name in ("accelerate-fsdp", "accelerate-deepspeed-zero3"):
        assert "num_processes" in yaml.safe_load((RECIPES / f"{name}.yaml").read_text())


# The command line.


def test_every_setting_is_a_flag():
    words = [
        "--steps",
        "3",
        "--learning-rate=5e-4",
        "--bf16",
        "--max-tokens",
        "null",
        "--env",
        "null",
        "--report-to",
        "[]",
    ]
    recipe, overrides, wants = parse([*words, "--set", "difficulty=[1, 2]", "--recipe", "sql", "--show-config"])
    assert recipe == "sql"
    assert wants == {"show-config"}
    assert overrides == {
        "steps": 3,
        "learning_rate": 5e-4,
        "bf16": True,
        "max_tokens": None,
        "env": "null",
        "report_to": [],
        "env_kwargs": {"difficulty": [1, 2]},
    }


def test_a_switch_may_be_given_a_value_or_none():
    assert parse(["--bf16", "false", "--resume", "--steps", "1"])[1] == {"bf16": False, "resume": True, "steps": 1}


@each_row("words", [["steps"], ["--steps"], ["--set", "x"], ["--steps", "[1"]])
def test_words_that_make_no_sense_are_refused(words: list[str]):
    with pytest.raises(UsageError):
        parse(words)


# What is refused.


@each_row(
    "name, value, message",
    [
        ("learning_rat", 1, "did you mean 'learning_rate'"),
        ("group-size", 8, "did you mean 'group_size'"),
        ("zzzzzz", 1, "unknown setting 'zzzzzz'. `agentgym train --show-config`"),
        ("steps", "many", "setting 'steps': .*got 'many'"),
        ("credit", "magic", "setting 'credit': .*outcome.*gated.*turn"),
        ("group_size", 1, "group_size must be at least 2"),
        ("steps", 0, "steps must be at least 1, not 0"),
        ("updates_per_step", 7, "multiple of updates_per_step"),
        ("micro_batch", 7, "multiple of micro_batch"),
        ("temperature", 0, "temperature must be above 0"),
        ("warm_start_until", 0, "warm_start_until must be above 0 and at most 1, not 0"),
        ("warm_start_until", 20, "warm_start_until must be above 0 and at most 1, not 20"),
        ("warm_start_tests", 0, "warm_start_tests must be at least 1, not 0"),
        ("warm_start_own_samples", 0, "warm_start_own_samples must be at least 1, not 0"),
        ("warm_start_own", -1, "warm_start_own must be at least 0, not -1"),
        ("keep_checkpoints", 1, "at least 2"),
        ("loss", "ppo", "loss must be one of dapo"),
        ("learning_rate", -1, "learning_rate must be at least 0, not -1"),
        ("learning_rate", float("nan"), "setting 'learning_rate': .*finite"),
        ("lora_rank", -4, "lora_rank must be at least 0, not -4"),
        ("updates_per_step", 0, "updates_per_step must be at least 1, not 0"),
        ("micro_batch", 0, "micro_batch must be at least 1, not 0"),
        ("eval_tasks", 0, "eval_tasks must be at least 1, not 0"),
        ("tool_timeout_s", -3, "tool_timeout_s must be above 0, not -3"),
        ("outage", 3, "outage must be above 0 and at most 1, not 3"),
        ("workers", "threds", "there are no workers 'threds'; did you mean 'threads'"),
    ],
)
def test_a_wrong_setting_gets_a_line_that_says_what_is_wrong(name: str, value: Any, message: str):
    with pytest.raises(UsageError, match=message):
        load_config(None, {"env": "guess", name: value})


def test_every_setting_that_is_a_number_has_bounds_or_is_known_to_have_none():
    unbounded = {"seed", "entropy_weight"}
    for name, kind in ((name, str(field.type)) for name, field in FIELDS.items()):
        if kind.startswith(("int", "float")) and name not in unbounded:
            with pytest.raises(UsageError, match=f"{name} must be "):
                load_config(None, {"env": "guess", name: -1})


@each_row("place, message", [("nowhere", "nowhere is not supported"), ("codecarbon", "requires `?codecarbon")])
def test_a_place_that_nothing_can_be_logged_to_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, message: str
):
    from agentgym.trainers.train import train

    monkeypatch.chdir(tmp_path)
    if find_spec(place):
        pytest.skip(f"{place} is installed")
    with pytest.raises(UsageError, match=f"report_to: .*{message}"):
        train(load_config(None, {"env": "guess", "report_to": [place]}))
    assert not list(tmp_path.iterdir())


def test_an_unknown_recipe_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"there is no recipe 'sqll'; did you mean 'sql'\?.*one of: .*sql-qwen3-full"):
        load_config("sqll")


@each_row("text", ["step: 3\n", "steps: many\n"])
def test_a_wrong_setting_of_a_recipe_is_told_with_its_file_and_one_of_a_flag_without(tmp_path: Path, text: str):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"mine\.yaml: (unknown )?setting 'steps?'"):
        load_config(str(tmp_path / "mine.yaml"))
    with pytest.raises(UsageError, match=r"^setting 'groups'"):
        load_config("sql", {"groups": "many"})


@each_row("text", ["- a\n- b\n", "steps: [1\n", ""])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, text: str):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(UsageError, match=r"bad\.yaml"):
        load_config(str(tmp_path / "bad.yaml"))


def test_a_folder_name_with_unknown_parts_is_refused():
    with pytest.raises(UsageError, match=r"only \{env\}, \{credit\} and \{seed\}"):
        _ = TrainConfig(output_dir="runs/{model}").folder


def test_the_batch_must_fit_the_devices():
    config = load_config(None, {"env": "guess", "groups": 4, "group_size": 2, "updates_per_step": 1})
    with pytest.raises(UsageError, match="number of devices"):
        grpo_config(config, world_size=3, use_cpu=True)
    odd = load_config(None, {"env": "guess", "groups": 5, "group_size": 2, "updates_per_step": 1, "refill_rounds": 1})
    with pytest.raises(UsageError, match="whole groups on each of the 2 devices"):
        grpo_config(odd, world_size=2, use_cpu=True)


# What is shown.


def test_every_setting_is_explained():
    lines = describe(TrainConfig()).splitlines()
    explained = {line.partition(":")[0] for before, line in pairwise(lines) if before[:1] == "#" and before[2:]}
    assert set(FIELDS) <= explained


@each_row("config", [TrainConfig(), load_config("sql"), load_config("sql-qwen3-full")])
def test_what_is_shown_is_a_recipe_for_the_same_run(config: TrainConfig, tmp_path: Path):
    for number, text in enumerate((describe(config), yaml.safe_dump(to_dict(config)))):
        recipe = tmp_path / f"{number}.yaml"
        recipe.write_text(text)
        assert load_config(str(recipe)) == config


def test_the_folder_tells_runs_apart():
    config = TrainConfig(env="agentgym/sql-v0", credit=CreditMode.TURN, seed=3)
    assert str(config.folder) == "runs/sql-v0-turn-3"
    assert "/" not in TrainConfig(env="a.b:Class").folder.name


def test_all_losses_are_known_to_trl():
    import inspect

    from trl import GRPOTrainer  # pyright: ignore[reportPrivateImportUsage]

    source = inspect.getsource(GRPOTrainer._compute_loss)
    assert all(f'"{loss}"' in source for loss in LOSSES)
