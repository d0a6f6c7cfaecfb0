"""The seeds of an evaluation, and the try that counts among several in a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.task import Task, iterate
from agentgym.core.trajectory import read_jsonl, write_jsonl
from agentgym.envs.guess import GuessEnv
from agentgym.eval.evaluation import evaluate, evaluation_jobs
from agentgym.rollout import EnvFactory

GUESS = EnvFactory("agentgym/guess-v0", {})
TASKS = list(iterate(GuessEnv.default_tasks(), "test", 3))


def seeds(names: str, seed: int = 0, attempts: int = 1) -> list[int]:
    return [job.seed for job in evaluation_jobs([Task(name, "test", "?") for name in names], attempts, seed)]


def test_seeds_are_stable_and_fit_into_31_bits():
    assert seeds("ab") == [1_771_091_398, 1_053_646_646]
    assert seeds("a", seed=7) == [873_422_488]
    many = seeds("abcdefghijklmnopqrstuvwxyz")
    assert all(0 <= seed < 2**31 for seed in many)
    assert max(many) > 2**30


def test_attempts_at_a_task_share_its_seed_and_come_after_all_tasks_once():
    jobs = evaluation_jobs([Task("a", "test", "?"), Task("b", "test", "?")], 2, 0)
    assert [job.id for job in jobs] == ["a#0", "b#0", "a#1", "b#1"]
    assert jobs[0].seed == jobs[2].seed != jobs[1].seed


def test_only_a_failed_try_may_be_followed_by_another(tmp_path: Path):
    out = tmp_path / "t.jsonl"
    evaluate(GUESS, ScriptedPolicy(), TASKS, out=out)
    whole = list(read_jsonl(out))
    first, *_ = whole
    broken = replace(first, reason=Reason.INFRASTRUCTURE, error="it broke", seconds=99.0)
    write_jsonl(out, [broken, *whole])
    assert evaluate(GUESS, ScriptedPolicy(), TASKS, out=out).failed == 0
    assert len(list(read_jsonl(out))) == 4
    write_jsonl(out, [*whole, first])
    with pytest.raises(UsageError, match="again after a try that did not fail"):
        evaluate(GUESS, ScriptedPolicy(), TASKS, out=out)


def test_other_tasks_in_a_file_are_left_alone(tmp_path: Path):
    out = tmp_path / "t.jsonl"
    evaluate(GUESS, ScriptedPolicy(), TASKS, out=out)
    before = out.read_text()
    summary = evaluate(GUESS, ScriptedPolicy(), TASKS[:1], out=out)
    assert (summary.overall.tasks, summary.overall.attempts) == (1, 1)
    assert out.read_text() == before
