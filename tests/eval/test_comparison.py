"""Runs are compared only on the same tasks, and failed episodes do not count as wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.cli.compare import sides_of
from agentgym.core.endings import Reason
from agentgym.core.trajectory import Tokens, Trajectory, write_jsonl
from agentgym.eval.comparison import Comparison, compare, compare_seeds, run_of
from agentgym.eval.comparison.runs import Source
from agentgym.eval.comparison.tables import print_comparison
from agentgym.eval.statistics import paired_difference, wilson
from tests.recorded import episode_of
from tests.refusals import not_refused
from tests.rows import each_row


def results(wins: str, **values: Any) -> list[Trajectory]:
    """Return one attempt at each task, solved where `wins` has a 1."""
    return [episode_of(f"t{number}", result == "1", **values) for number, result in enumerate(wins)]


def results_of(task: str, wins: str) -> list[Trajectory]:
    """Return several attempts at one task."""
    return [episode_of(task, result == "1", attempt) for attempt, result in enumerate(wins)]


def compared(a: list[Trajectory], b: list[Trajectory]) -> Comparison:
    return compare(run_of("a.jsonl", a), run_of("b.jsonl", b))


BEFORE, AFTER = results("1100110000"), results("1111100010")


def test_tasks_are_won_lost_and_tied():
    comparison = compared(BEFORE, AFTER)
    assert (comparison.overall.won, comparison.overall.lost, comparison.overall.tied) == (3, 1, 6)
    verdicts = {task.task_id: task.verdict for task in comparison.tasks}
    assert [task for task, verdict in verdicts.items() if verdict == "won"] == ["t2", "t3", "t8"]
    assert [task for task, verdict in verdicts.items() if verdict == "lost"] == ["t5"]


def test_the_difference_of_means_over_tasks_has_a_bootstrap_interval():
    success = compared(BEFORE, AFTER).overall.success
    assert (success.a, success.b, success.tasks) == (0.4, 0.6, 10)
    before = [float(t.success) for t in BEFORE]
    after = [float(t.success) for t in AFTER]
    assert (success.difference, success.interval) == paired_difference(before, after, seed=0)
    assert success.difference == pytest.approx(0.2)


def test_one_attempt_per_task_has_mcnemars_exact_test():
    assert compared(BEFORE, AFTER).p_value == stats.binomtest(3, 4).pvalue
    assert compared(BEFORE, BEFORE).p_value == 1.0
    assert compared([*BEFORE, episode_of("t0", True, 1)], AFTER).p_value is None


def test_with_several_attempts_a_task_is_won_by_the_higher_rate():
    a = [*results_of("x", "10"), *results_of("y", "1")]
    b = [*results_of("x", "110"), *results_of("y", "11")]
    comparison = compared(a, b)
    assert [(task.task_id, task.a, task.b, task.verdict) for task in comparison.tasks] == [
        ("x", 0.5, pytest.approx(2 / 3), "won"),
        ("y", 1.0, 1.0, "tied"),
    ]


def test_equal_results_do_not_give_a_certain_difference():
    interval = compared(BEFORE, BEFORE).overall.success.interval
    assert interval == pytest.approx((-wilson(0, 10).high, wilson(0, 10).high))


def test_a_failed_episode_does_not_count_as_a_lost_task():
    broken = episode_of("t0", False, reason=Reason.INFRASTRUCTURE)
    comparison = compared(BEFORE, [broken, *AFTER[1:]])
    assert (comparison.overall.lost, comparison.overall.success.tasks) == (1, 9)
    assert (comparison.b.failed, comparison.b.all_failed, comparison.b.attempts, comparison.a.failed) == (1, 1, 10, 0)
    assert "t0" not in {task.task_id for task in comparison.tasks}
    second_try = compared(BEFORE, [broken, episode_of("t0", True, 1), *AFTER[1:]])
    assert (second_try.overall.success.tasks, second_try.b.all_failed) == (10, 0)


def test_the_last_of_several_tries_at_an_attempt_counts():
    retried = [episode_of("t0", False, reason=Reason.INFRASTRUCTURE), *AFTER]
    assert compared(BEFORE, retried).overall == compared(BEFORE, AFTER).overall
    assert run_of("b", retried).failed == 0


def test_tasks_of_only_one_side_are_counted_and_not_compared():
    comparison = compared(BEFORE[2:], AFTER[:9])
    assert (comparison.a.only_here, comparison.b.only_here, comparison.overall.success.tasks) == (1, 2, 7)


def test_success_is_split_by_environment_difficulty_and_tag():
    def some(solved: str) -> list[Trajectory]:
        easy = results(solved[:2], difficulty=1, tags=("x",))
        hard = [episode_of(f"h{i}", digit == "1", difficulty=3, tags=("x", "y")) for i, digit in enumerate(solved[2:4])]
        return [*easy, *hard, episode_of("t0", solved[4] == "1", env_id="agentgym/z-v0")]

    comparison = compared(some("00000"), some("10101"))
    rates = {name: part.success.b for name, part in comparison.by_environment.items()}
    assert rates == {"agentgym/x-v0": 0.5, "agentgym/z-v0": 1.0}
    assert {level: part.success.tasks for level, part in comparison.by_difficulty.items()} == {1: 3, 3: 2}
    assert {tag: (part.won, part.tied) for tag, part in comparison.by_tag.items()} == {"x": (2, 2), "y": (1, 1)}


def test_measures_are_compared_over_tasks_where_both_sides_have_them():
    tokens = Tokens([1] * 3, [2] * 4, [1, 1, 0, 0], [0.0] * 4, [0, 0, -1, -1])
    a = [
        episode_of("x", False, turns=2, tokens=tokens, usage={"cost": 0.1}),
        episode_of("y", True, turns=4),
    ]
    b = [episode_of("x", True, turns=5, tokens=tokens), episode_of("y", True, turns=5, tokens=tokens)]
    a[0].counts, b[0].counts = {"calls": 3, "tool_errors": 2}, {"calls": 1, "tool_errors": 0}
    measures = compared(a, b).measures
    assert (measures["turns"].a, measures["turns"].b, measures["turns"].difference) == (3.0, 5.0, 2.0)
    assert (measures["reward"].a, measures["reward"].b) == (0.5, 1.0)
    assert (measures["tool errors"].difference, measures["tool errors"].tasks) == (-2.0, 1)
    assert (measures["tokens out"].difference, measures["observed tokens"].a) == (0.0, 5.0)
    assert "cost" not in measures


def test_arguments_of_the_policy_may_differ_and_are_shown():
    a, b = results("10", env_kwargs={"dialect": "hermes"}), results("11", env_kwargs={})
    assert compared(a, b).arguments == {"dialect": ("hermes", None)}
    assert compared(a, a).arguments == {}


@each_row(
    ("a", "b", "reason"),
    [
        (results("1"), results("1", env_id="agentgym/y-v0"), "'a.jsonl' is of agentgym/x-v0, but 'b.jsonl' of"),
        (results("1"), results("1", task_hash="other"), "task 't0' is not the same in .*its hash differs"),
        (results("1"), results("1", env_kwargs={"max_turns": 3}), "other arguments of .*: max_turns: not set and 3"),
        (results("1"), [episode_of("other", True)], "have no task in common"),
        (results("1"), results("1", reason=Reason.TOOL_TIME), "no task has an episode that did not fail in both"),
        ([*results("1"), episode_of("u", True, policy="q")], results("1"), "two policies, 'p' and 'q'"),
        ([*results("1"), episode_of("t0", True, 1, task_hash="h")], results("1"), "two versions of task 't0'"),
    ],
)
def test_runs_of_different_tasks_are_refused_with_the_reason(a: list[Trajectory], b: list[Trajectory], reason: str):
    with pytest.raises(UsageError, match=reason):
        compared(a, b)


# Several runs.


def seeds(*wins: str) -> list[Any]:
    return [
        run_of(f"{number}.jsonl", results(results_text, policy=f"p{number}"))
        for number, results_text in enumerate(wins)
    ]


def test_several_runs_are_aggregated_over_runs_and_tasks():
    comparison = compare_seeds(seeds("1000", "1100"), seeds("1111", "1110", "1100"))
    assert (comparison.success.mean.a.value, comparison.success.mean.b.value) == (3 / 8, 9 / 12)
    assert comparison.success.mean.difference.value == pytest.approx(9 / 12 - 3 / 8)
    # By task: 1 against 1 is a tie; 1/2 against 1; 0 against 2/3; 0 against 1/3.
    expected = (0.5 + (0.5 + 0.25) + (2 / 3 + 1 / 6) + (1 / 3 + 1 / 3)) / 4
    assert comparison.success.probability_of_improvement.value == pytest.approx(expected)
    assert comparison.success.profile.a[0] == 3 / 8
    assert comparison.success.mean.difference.interval.low <= 3 / 8 <= comparison.success.mean.difference.interval.high


def test_only_tasks_of_all_runs_with_a_valid_attempt_in_each_are_compared():
    broken = run_of("c", [episode_of("t0", False, reason=Reason.INFRASTRUCTURE), *results("111")[1:]])
    comparison = compare_seeds(seeds("1000"), [*seeds("1111"), broken])
    assert (comparison.tasks, comparison.left_out, comparison.failed) == (2, 1, 1)
    assert comparison.success.mean.b.value == 1.0


def test_runs_of_other_tasks_are_refused():
    other = run_of("other", results("11", task_hash="other"))
    with pytest.raises(UsageError, match="its hash differs"):
        compare_seeds(seeds("11", "11"), [*seeds("11"), other])
    with pytest.raises(UsageError, match="at least one run"):
        compare_seeds(seeds("11"), [])
    failed = run_of("failed", results("11", reason=Reason.TOOL_TIME))
    with pytest.raises(UsageError, match="in each of the 2 runs"):
        compare_seeds(seeds("11"), [failed])


# Printing and the command.


def test_the_printed_verdict_follows_the_interval():
    for before, after, verdict in (
        (BEFORE, AFTER, "No difference is shown"),
        (results("0" * 20), results("1" * 20), "B solves more"),
        (results("1" * 20), results("0" * 20), "B solves less"),
    ):
        console = Console(file=io.StringIO(), width=100)
        print_comparison(compared(before, after), console)
        assert verdict in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    names = [str(tmp_path / f"{name}.jsonl") for name in ("a", "b")]
    for name, trajectories in zip(names, (BEFORE, AFTER), strict=True):
        write_jsonl(name, trajectories)
    return names


def test_the_command_compares_runs_of_two_methods(files: list[str], tmp_path: Path):
    again = str(tmp_path / "again.jsonl")
    write_jsonl(again, BEFORE)
    outcome = CliRunner().invoke(app, ["compare", files[0], again, "vs", files[1], "--json"])
    assert outcome.exit_code == 0, outcome.output
    data = json.loads(outcome.output)
    assert (len(data["a"]), len(data["b"]), data["success"]["mean"]["b"]["value"]) == (2, 1, 0.6)


def test_vs_separates_the_runs_of_two_methods():
    for words, a, b in (("a b", "a", "b"), ("a b vs c", "a b", "c"), ("./vs vs c d", "./vs", "c d")):
        assert sides_of(words.split()) == ([Source(name) for name in a.split()], [Source(name) for name in b.split()])


def test_ambiguous_files_to_compare_are_refused():
    rows = [(words, "compare two files") for words in ("", "a", "a b c", "vs b", "a vs", "a vs b vs c")]
    assert not_refused(lambda words: sides_of(words.split()), [*rows, ("a b vs a", "'a' is given twice")]) == []
