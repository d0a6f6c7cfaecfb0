"""The numbers of a summary with uneven counts, their order, and the printed tables."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.eval.summary import MAX_TAGS, MIN_GROUP_TASKS, Summary, print_summary, summarize
from tests.recorded import episode_of


def printed(summary: Summary, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_summary(summary, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def lines(summary: Summary) -> list[str]:
    return [line.strip(" │") for line in printed(summary).splitlines()]


UNEVEN = [
    *(episode_of("a", i == 0, i) for i in range(3)),
    episode_of("b", True, turns=3, counts={"calls": 3, "tool_errors": 1, "format_errors": 2}, seconds=6.0),
]


def test_tasks_count_the_same_however_often_they_were_tried():
    summary = summarize(UNEVEN)
    assert summary.success == pytest.approx((1 / 3 + 1) / 2)
    assert (summary.overall.tasks, summary.overall.attempts) == (2, 4)


def test_estimates_over_k_use_tasks_with_enough_attempts():
    summary = summarize(UNEVEN)
    assert summary.pass_at == pytest.approx({1: (1 / 3 + 1) / 2, 2: 2 / 3, 3: 1.0})
    assert summary.pass_hat == pytest.approx({1: (1 / 3 + 1) / 2, 2: 0.0, 3: 0.0})


def test_means_are_over_episodes_and_rates_over_calls_and_turns():
    summary = summarize(UNEVEN)
    assert summary.turns == (1 + 1 + 1 + 3) / 4
    assert summary.seconds_per_episode == 6.0 / 4
    assert summary.tool_error_rate == 1 / 3
    assert summary.format_error_rate == 2 / 6
    assert summary.channels == pytest.approx({"outcome": 2 / 4, "format": 0.25 * 6 / 4})


def test_failed_episodes_are_only_counted():
    failed = episode_of("c", True, turns=9, reason=Reason.INFRASTRUCTURE, tags=("x",), difficulty=7, seconds=99.0)
    summary, without = summarize([*UNEVEN, failed]), summarize(UNEVEN)
    assert (summary.failed, summary.endings) == (1, {"answered": 4, "infrastructure": 1})
    for name in ("overall", "channels", "turns", "reward", "by_tag", "by_difficulty", "seconds_per_episode", "pass_at"):
        assert getattr(summary, name) == getattr(without, name), name
    assert "1 episode(s) failed" in printed(summary)
    assert "failed" not in printed(without)


def test_calls_are_counted_where_they_were_recorded():
    summary = summarize(
        [episode_of("a", True, counts={"calls": 3}), episode_of("b", True, counts={"calls": 0}), *UNEVEN]
    )
    assert summary.calls == (3 + 0 + 3) / 3


def test_rates_without_counts_are_missing():
    summary = summarize([episode_of("a", False, turns=0)])
    assert summary.turns == 0.0
    assert summary.tool_error_rate is summary.format_error_rate is summary.sampled_tokens is None
    nothing = summarize([])
    assert (nothing.env_id, nothing.policy, nothing.success, nothing.failed) == ("", "", None, 0)
    assert (nothing.overall.tasks, nothing.overall.attempts, nothing.pass_at) == (0, 0, {})


def test_endings_are_sorted_by_frequency_and_levels_by_difficulty():
    reasons = [Reason.MAX_TURNS, Reason.ANSWERED, Reason.ANSWERED]
    trajectories = [episode_of(str(i), True, reason=reason, difficulty=3 - i) for i, reason in enumerate(reasons)]
    assert list(summarize(trajectories).endings) == ["answered", "max_turns"]
    assert list(summarize(trajectories).by_difficulty) == [1, 2, 3]


def test_figures_are_computed_on_valid_trajectories():
    broken = episode_of("c", True, reason=Reason.INFRASTRUCTURE)
    summary = summarize([*UNEVEN, broken], figures=lambda valid: {"seen": float(len(valid))})
    assert summary.figures == {"seen": 4.0}
    assert "seen" in printed(summary)
    assert "4.000" in printed(summary)


def test_the_hardest_tags_of_enough_tasks_are_shown_and_the_rest_is_counted():
    def tagged(tags: int, tasks: int = MIN_GROUP_TASKS) -> list[Trajectory]:
        return [episode_of(f"{i}-{n}", i >= 6, tags=(f"tag{i:02}",)) for i in range(tags) for n in range(tasks)]

    text = printed(summarize(tagged(MAX_TAGS + 2)))
    assert all(f"tag{i:02}" in text for i in range(6))
    assert sum(f"tag{i:02}" in text for i in range(MAX_TAGS + 2)) == MAX_TAGS
    assert "2 more tags (--json)" in text
    assert "more tag" not in printed(summarize(tagged(MAX_TAGS)))
    text = printed(summarize([*tagged(2), episode_of("few", False, tags=("scarce",))]))
    assert "1 more tag (--json)" in text
    assert "scarce" not in text


def test_equally_hard_tags_are_sorted_by_frequency():
    counts = {"rare": MIN_GROUP_TASKS, "often": MIN_GROUP_TASKS + 2}
    trajectories = [episode_of(f"{tag}{i}", False, tags=(tag,)) for tag, count in counts.items() for i in range(count)]
    text = printed(summarize(trajectories))
    assert text.index("often") < text.index("rare")


def test_missing_numbers_are_printed_as_a_dash():
    text = lines(summarize(UNEVEN))
    rows = [line.split() for line in text]
    assert ["tool", "errors", "33.3", "%", "of", "calls"] in rows
    assert ["format", "errors", "33.3", "%", "of", "turns"] in rows
    assert ["turns", "1.5"] in rows
    assert ["channels", "outcome", "0.50", "format", "0.38"] in rows
    assert "0.0 s; 1.50 s an episode, median 0.00 s, 95 % within 5.10 s" in printed(summarize(UNEVEN))
    assert any(line.split()[:3] == ["all", "66.7", "%"] and line.split()[-2:] == ["2", "4"] for line in text)
    assert any(line.split()[:1] == ["reward"] and line.split()[1] == "0.500" for line in text)
    silent = printed(summarize([episode_of("a", False, turns=0)]))
    assert "tool errors" not in silent
    assert "– of turns" in silent


def test_estimates_over_k_are_shown_where_there_were_several_attempts():
    text = printed(summarize(UNEVEN))
    assert "@1 66.7 %  @2 66.7 %  @3 100.0 %" in text
    assert "^1 66.7 %  ^2 0.0 %  ^3 0.0 %" in text
    assert "pass@k" not in printed(summarize([episode_of("a", True)]))


def test_kinds_of_mistakes_are_shares_of_calls_and_of_turns_most_frequent_first():
    """The printed shares add up to the rates; kinds missing in old recordings are `unrecorded`."""
    counts = {"calls": 10, "tool_errors": 6, "format_errors": 2, "errors/refused": 1, "errors/unknown_tool": 3}
    summary = summarize([episode_of("a", False, turns=4, counts=counts | {"errors/unreadable": 2})])
    assert summary.tool_errors == {"unknown_tool": 0.3, "unrecorded": 0.2, "refused": 0.1}
    assert list(summary.tool_errors) == ["unknown_tool", "unrecorded", "refused"]
    assert sum(summary.tool_errors.values()) == pytest.approx(summary.tool_error_rate)
    assert summary.format_errors == {"unreadable": 0.5}
    text = printed(summary)
    assert "60.0 % of calls: unknown tool 30.0 %, unrecorded 20.0 %, refused 10.0 %" in text
    assert "50.0 % of turns: unreadable 50.0 %" in text
    assert summarize(UNEVEN).tool_errors == {}


def test_near_misses_are_named_with_what_reads_them():
    counts = {"near_misses/json_fence": 1, "near_misses/hermes": 2}
    summary = summarize([episode_of("a", False, turns=4, counts=counts), episode_of("b", False, turns=4)])
    assert list(summary.near_misses.items()) == [("hermes", 0.25), ("json_fence", 0.125)]
    assert "hermes 25.0 % of turns (--dialect hermes reads them)" in printed(summary, width=160)
    assert "json fence 12.5 % of turns (--lenient runs them)" in printed(summary, width=160)


def test_tokens_are_those_sampled_those_only_read_and_those_of_all_requests():
    tokens = Tokens([1] * 7, [2] * 5, [1, 0, 0, 1, 1], [0.0] * 5, [0, -1, -1, 0, 0])
    endpoint = episode_of("a", True, 1, usage={"prompt_tokens": 99.0, "completion_tokens": 5.0, "cost": 0.5})
    local = episode_of("a", True, turns=2, tokens=tokens)
    local.turns[0].span, local.turns[1].span = (0, 1), (3, 5)
    summary = summarize([local, endpoint])
    assert summary.input_tokens == ((7 + 10) + 99) / 2
    assert "in 58.0  out 4.0  read once 9.0" in printed(summary)
    assert summary.sampled_tokens == (3 + 5) / 2
    assert summary.observed_tokens == 7 + 2
    assert summary.cost == 0.5
    assert "0.5 an episode" in printed(summary)
    assert summarize(UNEVEN).cost is None
    assert "cost" not in printed(summarize(UNEVEN))


def test_success_within_more_turns_includes_success_within_fewer():
    failed = episode_of("d", True, turns=2, reason=Reason.TOOL_TIME)
    attempts = [episode_of("a", True), episode_of("a", False, 1)]
    summary = summarize([*attempts, episode_of("b", True, turns=3), episode_of("c", False, turns=9), failed])
    assert summary.by_turns == pytest.approx({1: 0.5 / 3, 2: 0.5 / 3, 3: 1.5 / 3})
    assert summary.by_turns[3] == pytest.approx(summary.success)
    assert "1: 16.7 %  2: 16.7 %  3: 50.0 %" in printed(summary)
    assert summarize([episode_of("a", False)]).by_turns == {}


def test_a_long_curve_is_shown_from_end_to_end_in_a_few_points():
    trajectories = [episode_of(str(i), True, turns=i) for i in range(1, 101)]
    row = next(line for line in lines(summarize(trajectories)) if line.startswith("solved within"))
    assert row.split()[2:5] == ["1:", "1.0", "%"]
    assert "100: 100.0 %" in printed(summarize(trajectories))


def test_measures_are_split_by_difficulty_and_tag():
    easy = [episode_of("a", True, difficulty=1, tags=("x",), counts={"calls": 2, "tool_errors": 1})]
    hard = [episode_of("b", False, turns=5, difficulty=4, tags=("x", "y"), counts={"calls": 4})]
    summary = summarize([*easy, *hard])
    assert {level: measures.turns for level, measures in summary.measures_by_difficulty.items()} == {1: 1.0, 4: 5.0}
    assert {tag: measures.calls for tag, measures in summary.measures_by_tag.items()} == {"x": 3.0, "y": 4.0}
    assert summary.measures_by_tag["x"].tool_error_rate == 1 / 6


def test_a_wide_console_also_shows_the_measures_of_each_part():
    played = [episode_of(name, True, difficulty=3, counts={"calls": 7}, seconds=2.0) for name in "abcde"]
    summary = summarize([*played, episode_of("f", True, difficulty=4)])
    wide = next(line for line in printed(summary, width=160).splitlines() if "difficulty 3" in line)
    assert wide.strip(" │").split()[-9:] == ["5", "5", "1.000", "1.0", "7.0", "0.0", "%", "2.00", "s"]
    assert "difficulty 4" not in printed(summary, width=160), "one task says nothing"
    usage = {"prompt_tokens": 90.0, "completion_tokens": 8.0, "cost": 0.25}
    spent = [episode_of(name, True, usage=usage) for name in "abcde"]
    row = next(line for line in printed(summarize(spent), width=160).splitlines() if "difficulty 1" in line)
    assert row.strip(" │").split()[-5:-2] == ["90", "8", "0.25"]
    assert "median time" not in printed(summary, width=80)
    assert max(map(len, printed(summary, width=80).splitlines())) <= 80


def test_a_summary_is_json():
    trajectories = [episode_of("a", i > 1, i, turns=i + 1, usage={"cost": 1.0}, tags=("x",)) for i in range(4)]
    again = json.loads(json.dumps(summarize(trajectories).to_dict()))
    assert again["by_turns"] == {"1": 0.0, "2": 0.0, "3": 0.25, "4": 0.5}
    assert again["measures_by_tag"]["x"]["cost"] == 1.0
    assert again["reward"] == 0.5
