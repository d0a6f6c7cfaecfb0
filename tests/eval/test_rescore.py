from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.cli import rescore as rescoring
from agentgym.cli.app import app
from agentgym.cli.replay import Replay
from agentgym.cli.rescore import print_rescored, rescore_file
from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.core.policy import RandomPolicy, ScriptedPolicy
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import iterate
from agentgym.core.toolset import tool
from agentgym.core.trajectory import Trajectory, read_jsonl, write_jsonl
from agentgym.envs.guess import GuessEnv
from agentgym.eval.evaluation import evaluate
from agentgym.eval.results.annotations import Annotations
from agentgym.eval.results.index import TrajectoryIndex
from agentgym.eval.results.rescore import rescore
from agentgym.rollout import EnvFactory
from tests.rows import each_row

GUESS = EnvFactory("agentgym/guess-v0", {})
TASKS = list(iterate(GuessEnv.default_tasks(), "test", 4))


class Guessing(GuessEnv):
    """The guessing game, with other answers."""

    @tool
    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: Your guess.
        """
        return self.answer(number)

    def answer(self, number: int) -> str:
        return super().guess(number)


class Lenient(Guessing):
    """Pays for an even number as much as for the right one."""

    def answer(self, number: int) -> str:
        if number % 2 == 0:
            self.reward(OUTCOME, 1.0)
            self.finish(Reason.SOLVED)
            return "Correct."
        return "It is higher." if number < self.task.gold["number"] else "It is lower."


class Endless(Guessing):
    """Does not end at the right guess."""

    def answer(self, number: int) -> str:
        return "Correct." if number == self.task.gold["number"] else "Wrong."


class Down(Guessing):
    """Has a grader that is down the first `outages` times."""

    outages = 0

    def answer(self, number: int) -> str:
        type(self).outages -= 1
        if type(self).outages >= 0:
            raise InfrastructureError("the grader is down")
        return super().answer(number)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "eval.jsonl"
    evaluate(GUESS, ScriptedPolicy(), TASKS, out=path)
    return path


def first(file: Path) -> Trajectory:
    return next(read_jsonl(file))


def test_the_same_grader_gives_the_same_score(file: Path):
    report = rescore_file(Replay(file))
    assert (len(report.scored), report.changed, report.refused) == (4, [], {})
    assert report.summary().success == 1.0
    for trajectory in read_jsonl(file):
        grade = Annotations(file).of(trajectory.id)["grade"]
        assert (grade["rewards"], grade["success"], grade["diverged"]) == (trajectory.channels, True, None)


def test_another_grader_changes_the_score_and_not_the_actions(file: Path):
    trajectory = first(file)
    rescored = rescore(trajectory, Lenient())
    assert rescored.changed
    assert rescored.trajectory.success
    assert len(rescored.trajectory.turns) <= len(trajectory.turns)
    assert [t.action for t in rescored.trajectory.turns] == [t.action for t in trajectory.turns][
        : len(rescored.trajectory.turns)
    ]
    assert rescored.before is trajectory


def test_a_diverging_episode_that_no_longer_ends_counts_as_given_up(file: Path):
    trajectory = first(file)
    assert len(trajectory.turns) > 1
    assert "Correct" not in text_of(trajectory.turns[0].observation[0])
    rescored = rescore(trajectory, Endless())
    assert rescored.diverged == 1
    assert rescored.trajectory.reason is Reason.GAVE_UP
    assert (rescored.trajectory.success, rescored.trajectory.outcome) == (False, 0.0)


def test_another_scheme_changes_rewards_but_neither_channels_nor_the_recording(file: Path):
    before = file.read_bytes()
    report = rescore_file(Replay(file, settings={"scheme": "outcome"}))
    assert len(report.scored) == 4
    for score in report.scored:
        assert score.now.channels == score.before.channels
        assert score.now.reward == 1.0 != score.before.reward
    assert file.read_bytes() == before


def test_a_flipped_verdict_is_listed_with_the_rules_that_decided(file: Path):
    recorded = replace(first(file), details={"decision": "the right number"})
    write_jsonl(file, [recorded])
    report = rescore_file(_Strict(file))
    shown = Console(width=200, record=True, file=StringIO())
    print_rescored(report, shown)
    assert report.to_dict()["flipped"] == {recorded.id: "lost"}
    assert report.to_dict()["decisions"] == {recorded.id: ("the right number", "no number is right")}
    assert f"{recorded.id} (the right number → no number is right)" in shown.export_text()


def test_a_task_that_has_changed_is_refused_by_name(file: Path):
    trajectory = replace(first(file), task_hash="another")
    with pytest.raises(UsageError, match=f"{trajectory.task_id}' has changed"):
        rescore(trajectory, GuessEnv())
    write_jsonl(file, [trajectory])
    report = rescore_file(Replay(file))
    assert list(report.refused) == [trajectory.id]
    assert Annotations(file).of(trajectory.id) == {}


def test_a_failed_trajectory_has_nothing_to_score(file: Path):
    failed = replace(first(file), id="guess/test/9#0", reason=Reason.INFRASTRUCTURE, turns=[], error="down")
    write_jsonl(file, [failed], append=True)
    report = rescore_file(Replay(file))
    assert (len(report.scored), report.skipped, report.refused) == (4, 1, {})


def test_only_the_last_of_several_tries_is_scored(file: Path):
    write_jsonl(file, [first(file)], append=True)
    assert len(rescore_file(Replay(file)).scored) == 4


def test_interrupted_scoring_keeps_finished_grades(file: Path, monkeypatch: pytest.MonkeyPatch):
    content = file.read_bytes().splitlines(keepends=True)
    ids = [trajectory.id for trajectory in read_jsonl(file)]
    monkeypatch.setattr(rescoring, "_AHEAD", 1)
    index_before = TrajectoryIndex.open(file)
    monkeypatch.setattr(TrajectoryIndex, "open", lambda path: index_before)
    file.write_bytes(b"".join(content[:3]) + b"{" + content[3][1:].replace(b"schema", b"scheme"))
    with pytest.raises(UsageError, match="has changed"):
        rescore_file(Replay(file), workers=1)
    grades = Annotations(file)
    assert [bool(grades.of(id_)) for id_ in ids] == [True, True, True, False]


@each_row(("outages", "refused"), [(1, 0), (10**6, 1)])
def test_an_outage_of_the_grader_is_retried_and_never_a_score(file: Path, outages: int, refused: int):
    write_jsonl(file, [first(file)])
    Down.outages = outages
    report = rescore_file(_Unreachable(file), workers=1)
    assert len(report.refused) == refused
    assert len(report.scored) == 1 - refused


class _Unreachable(Replay):
    def make_env(self, trajectory: Trajectory) -> GuessEnv:
        return Down(**trajectory.env_kwargs)


def test_the_command_prints_the_changes_and_fails_under_a_share(file: Path, tmp_path: Path):
    evaluate(GUESS, RandomPolicy(), TASKS, out=(other := tmp_path / "random.jsonl"))
    result = CliRunner().invoke(app, ["eval", "--rescore", str(file), "--set", "scheme=outcome"])
    assert result.exit_code == 0, result.output
    assert "no longer solved" in result.output
    result_json = CliRunner().invoke(app, ["eval", "--rescore", str(file), "--json"])
    assert json.loads(result_json.output)["changed"] == []
    assert CliRunner().invoke(app, ["eval", "--rescore", str(other), "--fail-under", "1"]).exit_code == 1
    assert CliRunner().invoke(app, ["eval", "--rescore", str(file), "--fail-under", "1"]).exit_code == 0


class _NamedEndless(Endless):
    def details(self) -> dict[str, str]:
        return {"decision": "no number is right"}


class _Strict(Replay):
    def make_env(self, trajectory: Trajectory) -> GuessEnv:
        return _NamedEndless(**trajectory.env_kwargs)
