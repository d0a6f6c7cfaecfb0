from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agentgym.base.errors import UsageError
from agentgym.base.output_files import check_file
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import Message
from agentgym.core.policy import RandomPolicy, ScriptedPolicy, Seat
from agentgym.core.task import Task, iterate
from agentgym.core.trajectory import Trajectory, Turn, read_jsonl
from agentgym.envs.guess import GuessEnv
from agentgym.eval.evaluation import Summary, evaluate, print_summary, summarize
from agentgym.eval.results.entry import Entry
from agentgym.eval.results.provenance import record_of, runs_in
from agentgym.eval.statistics import wilson
from agentgym.rollout import EnvFactory, Limits
from tests.recorded import episode_of
from tests.rows import each_row
from tests.suite_cases import LINES

GUESS = EnvFactory("agentgym/guess-v0", {})
TASKS = list(iterate(GuessEnv.default_tasks(), "test", 6))
NO_RETRY = Limits(retries=0)


class Flaky(ScriptedPolicy):
    """Solves tasks, but fails on those in `broken`; counts its episodes."""

    def __init__(self, broken: set[str]):
        super().__init__(self._play, "flaky")
        self._broken, self.played = broken, 0

    def _play(self, env: Env, task: Task) -> Solution:
        self.played += 1
        return self._break_down() if task.id in self._broken else env.solution(task)

    def _break_down(self) -> Solution:
        raise OSError("endpoint is down")
        yield


def test_a_perfect_policy_scores_full_marks():
    summary = evaluate(GUESS, ScriptedPolicy(), TASKS, 2)
    assert summary.success == 1.0
    assert summary.interval == wilson(6, 6)
    assert summary.pass_at == summary.pass_hat == {1: 1.0, 2: 1.0}
    assert summary.endings == {"solved": 12}
    assert (summary.overall.tasks, summary.overall.attempts, summary.failed) == (6, 12, 0)
    assert (summary.tool_error_rate, summary.format_error_rate) == (0.0, 0.0)


# Output files and resuming.


def test_finished_episodes_are_not_run_again(tmp_path: Path):
    out = tmp_path / "t.jsonl"
    policy = Flaky(set())
    first = evaluate(GUESS, policy, TASKS[:3], 2, out=out)
    assert policy.played == 6
    second = evaluate(GUESS, policy, TASKS, 2, out=out)
    assert policy.played == 12
    assert len(list(read_jsonl(out))) == 12
    assert (first.overall.tasks, second.overall.tasks) == (3, 6)


def test_an_interrupted_evaluation_ends_like_an_uninterrupted_one(tmp_path: Path):
    out, whole = tmp_path / "t.jsonl", tmp_path / "whole.jsonl"

    def stop(entry: Entry, done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(GUESS, RandomPolicy(), TASKS, 2, out=out, on_progress=stop, limits=Limits(max_in_flight=2))
    out.write_text(out.read_text()[:-30])
    assert 0 < len(list(read_jsonl(out))) < 12
    resumed = evaluate(GUESS, RandomPolicy(), TASKS, 2, out=out)
    straight = evaluate(GUESS, RandomPolicy(), TASKS, 2, out=whole)
    assert timeless(resumed) == timeless(straight)
    assert outcomes(out) == outcomes(whole)


def test_failed_episodes_are_run_again_and_never_count_against_the_model(tmp_path: Path):
    out = tmp_path / "t.jsonl"
    broken = evaluate(GUESS, Flaky({TASKS[0].id}), TASKS, out=out, limits=NO_RETRY)
    assert (broken.success, broken.failed) == (1.0, 1)
    assert broken.overall.attempts == 5
    mended = Flaky(set())
    summary = evaluate(GUESS, mended, TASKS, out=out)
    assert mended.played == 1
    assert (summary.success, summary.failed, summary.overall.attempts) == (1.0, 0, 6)


def lines_in(folder: Path, lines: str, **kwargs: Any) -> tuple[EnvFactory, list[Task]]:
    """Return an environment over a file of lines in a folder, and its tasks."""
    folder.mkdir()
    (folder / "lines").write_text(lines)
    factory = EnvFactory(LINES, {"file": str(folder / "lines"), **kwargs})
    return factory, list(iterate(factory().tasks, "test", 2))


@each_row(
    ("lines", "changed", "data", "what"),
    [
        ("one\ntwo\n", {}, ("file",), None),
        ("one\ntwo\n", {}, (), "other environment arguments"),
        ("one\ntwo\n", {"max_turns": 3}, ("file",), "other environment arguments"),
        ("two\none\n", {}, ("file",), "other tasks"),
    ],
)
def test_a_file_is_continued_after_its_data_has_moved(
    tmp_path: Path, lines: str, changed: dict[str, Any], data: tuple[str, ...], what: str | None
):
    here, tasks = lines_in(tmp_path / "here", "one\ntwo\n")
    there, both = lines_in(tmp_path / "there", lines, **changed)
    evaluate(here, ScriptedPolicy(), tasks[:1], out=(out := tmp_path / "t.jsonl"))
    if what is None:
        assert evaluate(there, ScriptedPolicy(), both, out=out, data=data).overall.attempts == 2
        files = [trajectory.env_kwargs["file"] for trajectory in read_jsonl(out)]
        assert files == [here.kwargs["file"], there.kwargs["file"]]
    else:
        with pytest.raises(UsageError, match=what):
            evaluate(there, ScriptedPolicy(), both, out=out, data=data)


@each_row(
    ("changes", "what"),
    [
        ({"policy": RandomPolicy()}, "another policy"),
        ({"seed": 1}, "another seed"),
        ({"factory": EnvFactory("agentgym/guess-v0", {"max_turns": 3})}, "other environment arguments"),
        ({"factory": EnvFactory("agentgym/sql-v0", {})}, "another environment"),
        ({"tasks": [replace(task, prompt=task.prompt + "!") for task in TASKS]}, "other tasks"),
    ],
)
def test_a_file_of_another_evaluation_is_refused(tmp_path: Path, changes: dict[str, Any], what: str):
    out = tmp_path / "t.jsonl"
    evaluate(GUESS, ScriptedPolicy(), TASKS[:1], out=out)
    before = out.read_text()
    with pytest.raises(UsageError, match=what):
        evaluate(**{"factory": GUESS, "policy": ScriptedPolicy(), "tasks": TASKS, "out": out} | changes)
    assert out.read_text() == before
    assert len(runs_in(record_of(out))) == 1, "the refused command has written nothing"


def test_arguments_that_are_not_json_are_refused_with_an_output_file(tmp_path: Path):
    factory = EnvFactory("agentgym/guess-v0", {"tasks": GuessEnv.default_tasks()})
    with pytest.raises(UsageError, match=r"t\.jsonl"):
        evaluate(factory, ScriptedPolicy(), TASKS, out=tmp_path / "t.jsonl")


@each_row("name", [".", "nowhere/t.jsonl", "file/t.jsonl", "/dev/full"])
def test_an_unwritable_file_is_reported_before_the_first_episode(tmp_path: Path, name: str):
    (tmp_path / "file").touch()
    policy = Flaky(set())
    with pytest.raises(UsageError, match="cannot write"):
        evaluate(GUESS, policy, TASKS, out=tmp_path / name)
    assert policy.played == 0


def test_the_check_of_an_output_file_changes_nothing(tmp_path: Path):
    out = tmp_path / "t.jsonl"
    out.write_bytes(b'{"id": ')
    before = out.stat()
    check_file(out)
    assert (out.stat().st_size, out.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_a_trajectory_that_cannot_be_written_is_kept_as_failed(tmp_path: Path):
    class Odd:
        name = "odd"

        def player(self, seat: Seat) -> Any:
            return self

        async def act(self, observation: list[Message]) -> Any:
            return {"role": "assistant", "content": "", "extra": float("nan")}

    out = tmp_path / "t.jsonl"
    summary = evaluate(GUESS, Odd(), TASKS[:2], out=out)
    assert summary.failed == 2
    assert "cannot be written as JSON" in next(iter(summary.errors))
    assert {t.reason for t in read_jsonl(out)} == {Reason.INFRASTRUCTURE}
    assert evaluate(GUESS, Odd(), TASKS[:2], out=out).failed == 2, "it can be resumed"


HOLDS = """
import sys
from pathlib import Path
from agentgym.base.output_files import check_file, held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked `t.jsonl`."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "t.jsonl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.real
def test_two_evaluations_do_not_write_into_one_file(tmp_path: Path, holder: subprocess.Popen[str]):
    out, policy = tmp_path / "t.jsonl", Flaky(set())
    with pytest.raises(UsageError, match=rf"is being written by process {holder.pid} on "):
        evaluate(GUESS, policy, TASKS, out=out)
    assert policy.played == 0
    holder.communicate()
    assert evaluate(GUESS, policy, TASKS, out=out).success == 1.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.jsonl", "t.jsonl.run"]


@pytest.mark.real
def test_the_lock_of_a_dead_process_does_not_count(tmp_path: Path, holder: subprocess.Popen[str]):
    holder.kill()
    holder.wait()
    assert (tmp_path / ".t.jsonl.lock").exists()
    assert evaluate(GUESS, ScriptedPolicy(), TASKS, out=tmp_path / "t.jsonl").success == 1.0


@each_row(
    ("tasks", "attempts", "message"),
    [(TASKS, 0, "at least 1"), ([], 1, "at least one task"), (TASKS[:1] * 2, 1, "appears twice")],
)
def test_evaluations_without_distinct_tasks_or_attempts_are_refused(tasks: list[Task], attempts: int, message: str):
    with pytest.raises(UsageError, match=message):
        evaluate(GUESS, ScriptedPolicy(), tasks, attempts)


def test_progress_counts_every_trajectory_once(tmp_path: Path):
    out, calls = tmp_path / "t.jsonl", []
    evaluate(GUESS, ScriptedPolicy(), TASKS[:2], out=out)
    evaluate(GUESS, ScriptedPolicy(), TASKS, out=out, on_progress=lambda t, done, total: calls.append((done, total)))
    assert calls == [(done, 6) for done in range(1, 7)]


# Numbers, by hand.


def trajectory_of(task: str, attempt: int, solved: bool, **values: Any) -> Trajectory:
    counts = {"calls": 2, "tool_errors": 1, "format_errors": 0}
    trajectory = episode_of(task, solved, attempt, turns=2, **{"counts": counts, "seconds": 2.0} | values)
    trajectory.turns[0].reward = 0.1
    return trajectory


def by_hand() -> list[Trajectory]:
    """Task a: 1 of 4 solved, difficulty 1. Task b: 3 of 4 solved, difficulty 2, and one failed attempt."""
    trajectories = [trajectory_of("a", i, i == 0, difficulty=1, tags=("join",)) for i in range(4)]
    trajectories += [trajectory_of("b", i, i > 0, difficulty=2, tags=("join", "date")) for i in range(4)]
    failed = trajectory_of("b", 4, True, difficulty=2, reason=Reason.INFRASTRUCTURE, tags=("join",))
    return [*trajectories, failed]


def test_the_numbers_are_those_computed_by_hand():
    summary = summarize(by_hand(), seconds=9.0)
    assert summary.success == 0.5
    assert summary.pass_at == pytest.approx({1: 0.5, 2: (1 - 3 / 6 + 1 - 0) / 2, 4: 1.0})
    assert summary.pass_hat == pytest.approx({1: 0.5, 2: (0 + 3 / 6) / 2, 4: 0.0})
    assert {level: rate.success for level, rate in summary.by_difficulty.items()} == {1: 0.25, 2: 0.75}
    assert {tag: (r.success, r.tasks, r.attempts) for tag, r in summary.by_tag.items()} == {
        "date": (0.75, 1, 4),
        "join": (0.5, 2, 8),
    }
    assert summary.endings == {"answered": 8, "infrastructure": 1}
    assert summary.failed == 1
    assert summary.tool_error_rate == 0.5
    assert summary.turns == 2.0
    assert summary.reward == pytest.approx(0.6)
    assert (summary.seconds, summary.seconds_per_episode) == (9.0, 2.0)


def test_the_order_of_trajectories_does_not_matter():
    assert summarize(by_hand()) == summarize(by_hand()[::-1])


def test_the_grading_of_an_interrupted_episode_is_not_a_turn():
    cut = trajectory_of("a", 0, False)
    cut.turns.append(Turn(None, [], {}, 0.0))
    assert summarize([cut]).turns == 2.0


def test_the_commonest_errors_are_counted_over_tasks_and_printed():
    trajectories = [
        trajectory_of(task, 0, False, reason=Reason.INFRASTRUCTURE, error=f"OSError: {task} is full") for task in "abc"
    ]
    trajectories += [trajectory_of("d", 0, False, reason=Reason.INFRASTRUCTURE, error="TimeoutError")]
    summary, all_failed = summarize([*trajectories, trajectory_of("e", 0, True)]), summarize(trajectories)
    assert summary.errors == {"OSError: <task> is full": 3, "TimeoutError": 1}
    for text in (printed(summary), printed(all_failed)):
        assert "3 × OSError: <task> is full" in text
        assert "1 × TimeoutError" in text
    assert all_failed.success is None
    assert "no episode finished; 4 failed" in printed(all_failed)


def printed(summary: Summary) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_summary(summary, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def timeless(summary: Summary) -> dict[str, Any]:
    """Return a summary without durations."""

    def without(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        return {key: without(value) for key, value in part.items() if "seconds" not in str(key)}

    return without(summary.to_dict())


def outcomes(path: Path) -> Sequence[tuple[str, float, int]]:
    return sorted((t.id, t.reward, len(t.turns)) for t in read_jsonl(path))
