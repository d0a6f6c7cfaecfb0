"""Rows of SWE-smith and SWE-rebench as they are published: read, played without Docker, and graded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.messages import ToolCall, assistant
from agentgym.core.policy import steps
from agentgym.envs.swe import SWEEnv
from agentgym.tools.patches import apply_patch, diff_trees
from tests.rows import each_row
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE

pytestmark = pytest.mark.real

MENDED = apply_patch(FILES, INSTANCE.gold_patch)
TESTS = {"tests/test_words.py": HIDDEN_TESTS.encode()}


def smith_row() -> dict[str, Any]:
    """Return a row of SWE-smith: the patch creates the bug, and the repository already has its tests."""
    return {
        "instance_id": "kit__textkit.1a2b3c4d.func_basic__x0y1z2",
        "patch": diff_trees(MENDED | TESTS, FILES | TESTS),
        "FAIL_TO_PASS": list(INSTANCE.fail_to_pass),
        "PASS_TO_PASS": list(INSTANCE.pass_to_pass),
        "image_name": "jyangballin/swesmith.x86_64.kit_1776_textkit.1a2b3c4d",
        "repo": "swesmith/kit__textkit.1a2b3c4d",
        "problem_statement": INSTANCE.prompt,
    }


def rebench_row() -> dict[str, Any]:
    """Return a row of SWE-rebench: lists of tests, and the commands that install and test the repository."""
    return {
        "instance_id": "kit__textkit-12",
        "repo": "kit/textkit",
        "base_commit": "0f" * 20,
        "patch": INSTANCE.gold_patch,
        "test_patch": diff_trees(FILES, FILES | TESTS),
        "problem_statement": INSTANCE.prompt,
        "hints_text": "",
        "created_at": "2024-05-01 10:00:00",
        "version": "0.1",
        "environment_setup_commit": "0e" * 20,
        "license_name": "MIT License",
        "FAIL_TO_PASS": list(INSTANCE.fail_to_pass),
        "FAIL_TO_FAIL": [],
        "PASS_TO_PASS": list(INSTANCE.pass_to_pass),
        "PASS_TO_FAIL": [],
        "install_config": {
            "env_vars": None,
            "install": "pip install -e .[dev]",
            "log_parser": "parse_log_pytest",
            "no_use_env": None,
            "packages": "requirements.txt",
            "pip_packages": ["pytest"],
            "pre_install": None,
            "python": "3.9",
            "reqs_path": ["requirements.txt"],
            "test_cmd": "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider -W ignore::DeprecationWarning",
        },
        "meta": {"commit_name": "head_commit", "failed_lite_validators": [], "has_test_patch": True, "is_lite": True},
    }


FORMS = {"swe-smith": (smith_row, MENDED | TESTS), "swe-rebench": (rebench_row, FILES)}
"""Function that returns a row, and the files of its repository at the base commit."""


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[[str], SWEEnv]]:
    environments: list[SWEEnv] = []

    def begin(form: str) -> SWEEnv:
        row, files = FORMS[form]
        for name, data in files.items():
            place = tmp_path / "repositories" / row()["instance_id"] / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        (tmp_path / "rows.jsonl").write_text(json.dumps(row()) + "\n")
        env = SWEEnv(file=tmp_path / "rows.jsonl", repositories=tmp_path / "repositories", solution_style="short")
        environments.append(env)
        env.reset(options={"index": 0})
        return env

    yield begin
    for env in environments:
        env.close()


@each_row("form", FORMS)
def test_row_starts_from_the_bug_and_only_its_gold_patch_is_paid(play: Callable[[str], SWEEnv], form: str):
    env = play(form)
    assert env.task.tags[0] == "kit/textkit"
    assert env.workspace.sandbox.download()["textkit/words.py"] == FILES["textkit/words.py"]
    assert list(steps(env, env.solution(env.task)))[-1].info["rewards"]["outcome"] == 1.0
    assert play(form).step(assistant("", [ToolCall("submit")])).info["rewards"]["outcome"] == 0.0
