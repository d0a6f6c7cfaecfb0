"""Scores of value functions, and the parsing of a judge's answers and of `--search`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.core.dialects import get_dialect
from agentgym.core.messages import Message, ToolCall, assistant, text_of, user
from agentgym.core.policy import FunctionPolicy, ScriptedPolicy, SilentPolicy
from agentgym.core.toolset import Toolset
from agentgym.rollout.lookahead import (
    Asking,
    Beam,
    BestOfN,
    Candidate,
    Judge,
    Majority,
    Mcts,
    Oracle,
    Search,
    SearchCost,
    Signals,
)
from agentgym.rollout.lookahead.search import read_search
from agentgym.rollout.lookahead.values import MOST_CHARS, best_in, score_in, to_score, to_vote
from tests.refusals import differing, not_refused

NO_TOOLS = Toolset(())


def line(
    *turns: tuple[Any, str], over: bool = True, answered: bool = True, weight: float = 1.0, **more: Any
) -> Candidate:
    """Return a candidate with turns of an action (text or a call) and its observation."""
    played = [
        (assistant("", [action]) if isinstance(action, ToolCall) else action, [user(result)])
        for action, result in turns
    ]
    return Candidate(
        id=more.pop("id", "0"),
        opening=[user("The question.")],
        turns=played,
        is_over=over,
        is_answered=over and answered,
        weight=weight,
        dialect=get_dialect("hermes"),
        tools=NO_TOOLS,
        **more,
    )


def submit(answer: Any) -> tuple[ToolCall, str]:
    return ToolCall("submit", {"answer": answer}), ""


def scores(value: Any, *candidates: Candidate, cost: SearchCost | None = None) -> list[float | None]:
    return asyncio.run(value.scores(candidates, Asking("key", cost or SearchCost())))


# Majority.


def test_the_share_of_lines_with_the_same_answer_is_the_score():
    lines = [line(submit(4)), line(submit(5)), line(("thinking", "go on"), submit(4))]
    assert scores(Majority(), *lines) == [2 / 3, 1 / 3, 2 / 3]


def test_a_line_that_a_limit_ended_has_no_vote():
    lines = [line(submit(4), answered=False), line(submit(4), answered=False), line(submit(5))]
    assert scores(Majority(), *lines) == [0.0, 0.0, 1.0]
    assert scores(Majority(), *lines[:2]) == [0.0, 0.0]


def test_a_vote_on_results_counts_queries_that_show_the_same():
    def candidate_with(sql: str, result: str) -> Candidate:
        return line((ToolCall("query", {"sql": sql}), result), submit(sql))

    lines = [candidate_with("SELECT 1", "1"), candidate_with("SELECT 2 - 1", "1"), candidate_with("SELECT 3", "3")]
    assert scores(Majority(by="result"), *lines) == [2 / 3, 2 / 3, 1 / 3]
    assert scores(Majority(), *lines) == [1 / 3, 1 / 3, 1 / 3]
    assert scores(Majority(by="result"), line(submit(1)), line(submit(2))) == [0.5, 0.5]  # nothing was shown before


# Signals.


def test_errors_lower_a_score_and_the_last_turn_counts_most():
    clean, early, late = (
        line(*((ToolCall("query", {}), result) for result in results), over=False)
        for results in (("1", "2"), ("Error: no", "2"), ("1", "Error: no"))
    )
    assert scores(Signals(), clean, early, late) == [1.0, 0.75, 0.25]


def test_the_latest_report_of_tests_counts():
    for report, share in (
        ("2 of 4 examples pass.", 0.5),
        ("Tests: 3/4 passed", 0.75),
        ("1 failed, 3 passed in 0.1s", 0.75),
    ):
        candidate = line(("x", "0 of 4 examples pass."), ("y", report), over=False)
        assert scores(Signals(), candidate) == [pytest.approx((1 + 1 + share) / 3)]


def test_a_line_ended_by_a_limit_scores_less_than_an_answered_one():
    answered, ended = scores(Signals(), line(submit(4)), line(submit(4), answered=False))
    assert answered == 1.0
    assert ended == pytest.approx(2 / 3)


def test_channels_that_are_named_count_and_the_outcome_cannot_be_named():
    assert scores(Signals(frozenset({"ran"})), line(submit(4), rewards={"ran": 0.0})) == [0.75]
    assert Signals(frozenset({"ran"})).name == "signals,channels=[ran]"
    with pytest.raises(UsageError, match="value=oracle"):
        Signals(frozenset({"outcome"}))


# Judges.


def judge(answers: Sequence[str], prompts: list[str] | None = None, **settings: Any) -> Judge:
    """Return a judge with these answers in turn."""
    remaining = list(answers)

    def ask(messages: list[Message]) -> str:
        if prompts is not None:
            prompts.append(text_of(messages[-1]))
        return remaining.pop(0)

    return Judge(FunctionPolicy("judge", ask), **settings)


def test_scores_and_votes_are_read_strictly():
    rows: list[tuple[str, float | None]] = [
        ("It looks right.\nScore: 7", 0.7),
        ("score: 10", 1.0),
        ("**Score: 2.5**", 0.25),
        ("Score: 3/10.", 0.3),
        ("Score: 11", None),
        ("Score: 7\nOr maybe not.", None),
        ("7", None),
        ("", None),
    ]
    assert differing(score_in, rows) == []
    votes = [("Best: 2", 1), ("Best: 3", None), ("Best: 0", None), ("2", None)]
    assert differing(lambda text: best_in(text, 2), votes) == []


def test_a_judge_scores_each_line_and_unreadable_answers_are_counted():
    cost = SearchCost()
    assert scores(judge(["Score: 9", "no idea"]), line(submit(4)), line(submit(5)), cost=cost) == [0.9, None]
    assert (cost.value_calls, cost.value_failures) == (2, 1)
    assert scores(judge(["Score: 9", "no idea", "Score: 5"], samples=3), line(submit(4))) == [0.7]


def test_a_vote_is_one_question_about_all():
    prompts: list[str] = []
    lines = [line(submit(4)), line(submit(5))]
    assert scores(judge(["Best: 2"] * 2 + ["Best: 1"], prompts, ask="vote", samples=3), *lines) == [1 / 3, 2 / 3]
    assert all('"answer": 4' in text and '"answer": 5' in text for text in prompts)
    assert scores(judge(["none"], ask="vote"), *lines) == [None, None]


def test_a_silent_judge_scores_nothing_and_a_script_cannot_judge():
    assert scores(Judge(SilentPolicy()), line(submit(4))) == [None]
    with pytest.raises(UsageError, match="cannot judge"):
        Judge(ScriptedPolicy())  # pyright: ignore[reportArgumentType]


def test_a_question_has_the_whole_conversation_but_never_too_much_of_it():
    text = to_score(line(("I look.", "42 rows"), over=False))
    assert all(part in text for part in ("The question.", "I look.", "42 rows", "It goes on."))
    long = line(("I look.", "x" * 3 * MOST_CHARS))
    assert len(to_score(long)) < MOST_CHARS + 1_000
    assert len(to_vote([long, long])) < MOST_CHARS + 1_000


# The option `--search`.


def test_a_parsed_search_has_a_name_that_parses_to_it():
    signals, votes = Signals(frozenset({"ran", "ok"})), Majority("result")
    rows = [
        ("best-of-n:8", Search(BestOfN(8), Majority())),
        ("best-of-n:n=8,value=oracle", Search(BestOfN(8), Oracle())),
        ("beam", Search(Beam(4, 3), Majority())),
        ("beam:width=2,branch=5,value=signals,channels=[ran, ok]", Search(Beam(2, 5), signals)),
        ("mcts:iterations=9,branch=2,explore=0.5,evaluate=value,by=result", Search(Mcts(9, 2, 0.5, "value"), votes)),
    ]
    rows += [(search.name, search) for _, search in rows]
    assert differing(lambda text: read_search(text).loaded(lambda name: SilentPolicy()), rows) == []


def test_the_judge_is_loaded_by_name_or_is_the_policy_that_plays():
    names: list[str | None] = []

    def load(name: str | None) -> SilentPolicy:
        names.append(name)
        return SilentPolicy()

    named = read_search("best-of-n:2,value=judge,judge=openai:m@http://localhost:1/v1,ask=vote")
    assert named.judge == "openai:m@http://localhost:1/v1"
    assert named.loaded(load).value.name == "judge,judge=silent,ask=vote,samples=1"
    read_search("best-of-n:2,value=judge").loaded(load)
    read_search("best-of-n:2").loaded(load)
    assert names == ["openai:m@http://localhost:1/v1", None]


def test_an_invalid_search_is_refused_in_one_line():
    rows = [
        ("bestofn:8", "there is no search 'bestofn'; did you mean 'best-of-n'?"),
        ("best-of-n", "needs a number: best-of-n:8"),
        ("best-of-n:x", "n must be a whole number from 1, not 'x'"),
        ("beam:widht=2", "did you mean 'width'?"),
        ("mcts:explore=-1", "explore must be a number from 0"),
        ("mcts:value=signals,by=call", "has no setting 'by'"),
        ("mcts:value=signals,channels=[outcome]", "value=oracle"),
        ("mcts:value=majority,by=luck", "by must be one of call, result"),
    ]
    assert not_refused(lambda text: read_search(text).loaded(lambda name: SilentPolicy()), rows) == []
