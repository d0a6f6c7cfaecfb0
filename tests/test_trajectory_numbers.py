"""What a trajectory counts, and which records are refused because their numbers do not fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym.endings import Ending, Reason
from agentgym.errors import UsageError
from agentgym.messages import assistant, user
from agentgym.trajectory import Tokens, Trajectory, Turn, read_jsonl, write_jsonl


def record(**values: Any) -> Trajectory:
    known: dict[str, Any] = {"id": "a", "env_id": "e", "task_id": "t", "task_hash": "h", "seed": 0, "policy": "p"}
    return Trajectory(**{**known, "opening": [user("start")], **values})


def earned(*outcomes: float | None, reason: Reason | None = Reason.ANSWERED) -> Trajectory:
    """An episode of turns with these outcomes; `None` is a turn that says nothing of it."""
    turns = [Turn("a", [], {} if outcome is None else {"outcome": outcome}, 0.5) for outcome in outcomes]
    return record(turns=turns, reason=reason)


def stream() -> tuple[Tokens, list[tuple[int, int]]]:
    """Two sampled turns with an observation after each."""
    tokens, spans = Tokens(prompt_ids=[1, 2, 3]), []
    spans.append(tokens.append_sampled([10, 11], [-0.1, -0.2], 4))
    tokens.append_observed([20, 21, 22])
    spans.append(tokens.append_sampled([12], [-0.3], 5))
    tokens.append_observed([23])
    return tokens, spans


def test_tokens_are_one_stream_in_which_the_policys_own_are_marked():
    tokens, spans = stream()
    assert tokens.completion_ids == [10, 11, 20, 21, 22, 12, 23]
    assert tokens.loss_mask == [1, 1, 0, 0, 0, 1, 0]
    assert tokens.logprobs == [-0.1, -0.2, 0.0, 0.0, 0.0, -0.3, 0.0]
    assert tokens.versions == [4, 4, -1, -1, -1, 5, -1]
    assert spans == [(0, 2), (5, 6)]
    assert (tokens.sampled, len(tokens)) == (3, 10)


@pytest.mark.parametrize(
    ("outcomes", "outcome", "success"),
    [
        ((0.0, 1.0), 1.0, True),
        ((0.999,), 0.999, False),
        ((0.5, None, 0.5), 1.0, True),
        ((2.0, -0.5), 1.5, True),
        ((), 0.0, False),
    ],
)
def test_the_outcome_is_the_sum_over_turns_and_one_is_a_success(
    outcomes: tuple[float | None, ...], outcome: float, success: bool
):
    trajectory = earned(*outcomes)
    assert (trajectory.outcome, trajectory.success, trajectory.reward) == (outcome, success, 0.5 * len(outcomes))
    assert len(trajectory.channels) == len(outcomes)


def test_what_failed_was_never_solved_and_what_goes_on_has_no_ending():
    assert not earned(1.0, reason=Reason.INFRASTRUCTURE).success
    assert earned(1.0, reason=Reason.MAX_TURNS).success
    assert earned(1.0, reason=None).ending is None
    assert earned(1.0, reason=Reason.INFRASTRUCTURE).ending is Ending.FAILED


def test_the_conversation_has_what_was_said_in_both_forms_and_no_turn_for_a_grading():
    spoken = assistant("look")
    turns = [Turn("hm", [user("1")], {}, 0.0), Turn(spoken, [user("2")], {}, 0.0), Turn(None, [user("3")], {}, 0.0)]
    said = record(turns=turns).messages
    assert said == [user("start"), assistant("hm"), user("1"), spoken, user("2"), user("3")]


def test_a_record_says_no_more_than_it_was_given():
    plain = record()
    assert (plain.difficulty, plain.attempt, plain.seconds, plain.split, plain.tags) == (1, 0, 0.0, "", ())
    assert (plain.turns, plain.counts, plain.tokens, plain.error, plain.training_step) == ([], {}, None, None, None)


def with_tokens(spans: list[tuple[int, int] | None], **changes: Any) -> dict[str, Any]:
    tokens, _ = stream()
    turns = [Turn("a", [], {}, 0.0, span) for span in spans]
    data = record(turns=turns, tokens=tokens).to_dict()
    data["tokens"] |= changes
    return data


@pytest.mark.parametrize("spans", [[(0, 2), (5, 6)], [(0, 0), (0, 7)], [None, (7, 7)], [(0, 2), None, (2, 3)], []])
def test_spans_follow_each_other_within_the_completion(spans: list[tuple[int, int] | None]):
    assert [turn.span for turn in Trajectory.from_dict(with_tokens(spans)).turns] == spans


@pytest.mark.parametrize(
    ("spans", "number"),
    [([(0, 8)], 1), ([(0, 2), (1, 6)], 2), ([(2, 1)], 1), ([(0, 5), None, (4, 6)], 3), ([(8, 8)], 1)],
)
def test_spans_that_do_not_are_refused_by_turn(spans: list[tuple[int, int] | None], number: int):
    with pytest.raises(UsageError, match=rf"the span of turn {number}, \["):
        Trajectory.from_dict(with_tokens(spans))


def test_a_span_without_tokens_is_refused():
    data = with_tokens([(0, 1)]) | {"tokens": None}
    with pytest.raises(UsageError, match="the 0 completion tokens"):
        Trajectory.from_dict(data)


@pytest.mark.parametrize("name", ["loss_mask", "logprobs", "versions"])
@pytest.mark.parametrize("change", [-1, 1])
def test_every_token_has_one_entry_in_every_list(name: str, change: int):
    entries = [0] * (7 + change)
    with pytest.raises(UsageError, match=rf"'tokens' has 7 completion_ids but {7 + change} {name}"):
        Trajectory.from_dict(with_tokens([], **{name: entries}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss_mask", [2] * 7), ("loss_mask", [-1] * 7), ("versions", [-2] * 7), ("completion_ids", [-1] * 7)],
)
def test_numbers_outside_their_range_are_refused(name: str, value: list[int]):
    with pytest.raises(UsageError, match=f"field '{name}' of 'tokens'"):
        Trajectory.from_dict(with_tokens([], **{name: value}))


def test_appending_begins_a_file_that_is_not_there_or_empty_and_writing_replaces(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    for _ in range(2):
        write_jsonl(path, [record(id="a")], append=True)
    assert [t.id for t in read_jsonl(path)] == ["a", "a"]
    write_jsonl(path, [record(id="b")])
    assert [t.id for t in read_jsonl(path)] == ["b"]
    path.write_text("")
    write_jsonl(path, [record(id="c"), record(id="d")], append=True)
    assert [t.id for t in read_jsonl(path)] == ["c", "d"]
    assert path.read_text().count("\n") == 2
