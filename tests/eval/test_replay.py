from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.core.endings import Reason
from agentgym.core.making import arguments_of
from agentgym.core.messages import user
from agentgym.core.policy import FunctionPolicy, RandomPolicy, ScriptedPolicy, SilentPolicy
from agentgym.core.registry import class_of, list_environments
from agentgym.core.replay import replay
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import Task
from agentgym.core.trajectory import Trajectory, Turn, write_jsonl
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import EnvFactory, Job
from agentgym.rollout.streams import play_jobs
from tests.rows import each_row

TASK = GuessEnv.default_tasks().get("train", 1)


def play(policy: Any, task: Task = TASK, **kwargs: Any) -> Trajectory:
    factory = EnvFactory("agentgym/guess-v0", kwargs)
    return asyncio.run(play_jobs([Job(task, seed=5)], policy, factory))[0]


QUITTER = FunctionPolicy("quitter", lambda conversation: None)


@each_row("policy", [ScriptedPolicy(), RandomPolicy(), SilentPolicy(), QUITTER])
def test_a_replay_reproduces_a_stored_recording(policy: Any):
    trajectory = play(policy, max_turns=5)
    stored = Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict())))
    assert replay(stored) is None


@each_row(
    ("changed", "what"),
    [
        ({"observation": [user("It is colder.")]}, "observation"),
        ({"rewards": {OUTCOME: 0.5, "format": 1.0}}, "rewards"),
        ({"reward": 0.25}, "reward"),
    ],
)
def test_a_planted_difference_is_located(changed: dict[str, Any], what: str):
    trajectory = play(ScriptedPolicy())
    trajectory.turns[1] = replace(trajectory.turns[1], **changed)
    difference = replay(trajectory)
    assert difference is not None
    assert (difference.turn, difference.what) == (2, what)
    assert f"turn 2: {what} was" in str(difference)


@each_row(
    ("change", "turn", "what"),
    [
        (lambda recording: replace(recording, opening=[user("Find it!")]), 0, "opening"),
        (lambda recording: replace(recording, task_hash="0" * 64), None, "task"),
        (lambda recording: replace(recording, reason=Reason.ANSWERED), None, "ending"),
        (lambda recording: replace(recording, turns=[*recording.turns, Turn("more", [], {}, 0.0)]), -1, "ending"),
    ],
)
def test_another_opening_task_or_ending_is_reported(change: Any, turn: int | None, what: str):
    recording = play(ScriptedPolicy())
    difference = replay(change(recording))
    assert difference is not None
    assert difference.what == what
    assert turn is None or difference.turn == (turn if turn >= 0 else len(recording.turns))


def test_a_failed_trajectory_is_compared_as_far_as_it_went():
    trajectory = play(ScriptedPolicy())
    trajectory.turns.pop()
    trajectory.reason, trajectory.error = Reason.INFRASTRUCTURE, "OSError: disk on fire"
    assert replay(trajectory) is None


# Untrusted files.


EVIL = """
import pathlib
pathlib.Path("ran").touch()
from agentgym.envs.guess import GuessEnv
class Evil(GuessEnv):
    pass
"""


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, on the module search path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


def test_a_file_cannot_choose_code(in_folder: Path):
    trajectory = replace(play(ScriptedPolicy()), env_id="evil:Evil")
    for changed in (
        trajectory,
        replace(trajectory, env_id="evil:Evil-v0"),
        replace(trajectory, env_id="guess", env_kwargs={"dialect": "evil:Evil"}),
    ):
        with pytest.raises(UsageError):
            replay(changed)
        write_jsonl("t.jsonl", [changed])
        result = CliRunner().invoke(app, ["replay", "t.jsonl"])
        assert result.exit_code == 2
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (in_folder / "ran").exists()


def test_code_named_on_the_command_line_is_run(in_folder: Path):
    write_jsonl("t.jsonl", [replace(play(ScriptedPolicy()), env_id="evil:Evil")])
    try:
        for options in (["--env", "evil:Evil"], ["--trust-file"], ["--env", "guess"]):
            result = CliRunner().invoke(app, ["replay", "t.jsonl", *options])
            assert "1 of 1 trajectories" in result.output, result.output
    finally:
        sys.modules.pop("evil", None)


SENSITIVE = [
    ("code", {"backend": "rlimits"}),
    ("code", {"allow_weak": True}),
    ("code", {"file": "tasks.jsonl"}),
    ("code", {"call_s": 1e9}),
    ("swe", {"backend": "docker"}),
    ("sql", {"folder": "/"}),
    ("search", {"index": "http://127.0.0.1:1/"}),
    ("search", {"mode": {"name": "zerosearch", "endpoint": {"base_url": "http://127.0.0.1:1", "model": "m"}}}),
    ("search", {"mode": ["reseek", {"name": "zerosearch", "endpoint": {"base_url": "http://a/", "model": "m"}}]}),
    ("web", {"urls": {"shop": "http://127.0.0.1:1"}}),
    ("web", {"executable": "/bin/sh"}),
    ("guess", {"tasks": "m.jsonl"}),
    ("guess", {"scheme": "d_ra"}),
    ("guess", {"scheme": {"weights": {"outcome": 1}}}),
    ("guess", {"split": "../train"}),
]


@each_row(("env_id", "kwargs"), SENSITIVE)
def test_a_file_cannot_choose_unsafe_arguments(env_id: str, kwargs: dict[str, Any], in_folder: Path):
    trajectory = replace(play(ScriptedPolicy()), env_id=env_id, env_kwargs=kwargs)
    (name,) = kwargs
    with pytest.raises(UsageError, match=name):
        replay(trajectory)
    write_jsonl("t.jsonl", [trajectory])
    result = CliRunner().invoke(app, ["replay", "t.jsonl"])
    assert result.exit_code == 2
    (line,) = result.stderr.strip().splitlines()
    assert name in line


def test_settings_of_the_command_line_replace_those_of_the_file(in_folder: Path):
    trajectory = play(ScriptedPolicy(), scheme="outcome")
    assert trajectory.env_kwargs == {"scheme": "outcome"}
    write_jsonl("t.jsonl", [replace(trajectory, env_kwargs={"scheme": "d_ra"})])
    assert CliRunner().invoke(app, ["replay", "t.jsonl"]).exit_code == 2
    assert CliRunner().invoke(app, ["replay", "t.jsonl", "--set", "scheme=outcome"]).exit_code == 0


def test_arguments_that_name_code_or_places_are_never_harmless():
    never = {"tasks", "file", "folder", "format", "index", "backend", "allow_weak", "limits", "urls", "executable",
             "test_timeout_s", "call_s", "render_mode", "max_sessions"}  # fmt: skip
    assert {env_id for env_id in list_environments() if class_of(env_id).harmless_arguments & never} == set()


@each_row("env_id", ["code", "guess", "search", "sql", "swe"])
def test_every_argument_that_is_declared_harmless_exists(env_id: str):
    kind = class_of(env_id)
    assert kind.harmless_arguments <= arguments_of(kind)
