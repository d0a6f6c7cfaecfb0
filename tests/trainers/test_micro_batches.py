"""Rows of similar length share a pass, and rows that change no gradient have none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the [train] extra")

import torch

from agentgym.trainers.micro_batches import divided, loss_mask, micro_batches, scored, taken
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def positions(sizes: list[int], parts: list[list[int]]) -> int:
    return sum(len(part) * max(sizes[row] for row in part) for part in parts if part)


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 5))
def test_rows_are_divided_with_little_padding(sizes: list[int], count: int):
    parts = divided(sizes, range(len(sizes)), count)
    assert len(parts) == count
    assert sorted(row for part in parts for row in part) == list(range(len(sizes)))
    assert parts == sorted(parts, key=lambda part: -max((sizes[row] for row in part), default=0))
    share = -(-len(sizes) // count)
    by_length = sorted(range(len(sizes)), key=lambda row: -sizes[row])
    equal = [by_length[start : start + share] for start in range(0, len(sizes), share)] if sizes else []
    assert positions(sizes, parts) <= positions(sizes, equal)
    assert all(positions(sizes, [part]) <= share * max(sizes, default=0) for part in parts)


def test_the_division_has_the_least_padding():
    assert divided([9, 1, 1, 8, 1, 1, 1, 1], range(8), 2) == [[0, 3], [1, 2, 4, 5, 6, 7]]
    assert divided([9, 1, 1, 9, 1, 1, 1, 1], range(8), 4) == [[0, 3], [1, 2, 4, 5, 6, 7], [], []]
    assert divided([9, 1, 5, 5], [0, 2, 3], 2) == [[0], [2, 3]]


def batch(lengths: list[tuple[int, int]], needed: list[bool]) -> dict[str, Any]:
    """Return a padded batch, given the tokens of each row's prompt and completion."""
    wide, long = (max(sizes) + 3 for sizes in zip(*lengths, strict=True))
    prompts = torch.stack([torch.arange(wide) >= wide - size for size, _ in lengths]).long()
    completions = torch.stack([torch.arange(long) < size for _, size in lengths]).long()
    return {
        "prompt_ids": prompts * 5,
        "prompt_mask": prompts,
        "completion_ids": completions * 6,
        "completion_mask": completions,
        "tool_mask": torch.ones_like(completions),
        "advantages": completions * 0.5,
        "row": torch.arange(len(lengths)),
        "needed": torch.tensor(needed),
        "num_items_in_batch": completions.sum(),
    }


LENGTHS = [(4, 2), (3, 7), (5, 5), (2, 1)]


def test_a_pass_has_no_columns_of_padding():
    part = taken(batch(LENGTHS, [True] * 4), [3, 0])
    assert part["row"].tolist() == [3, 0]
    assert part["prompt_mask"].tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    assert part["completion_mask"].tolist() == [[1, 0], [1, 1]]
    assert part["advantages"].shape == part["tool_mask"].shape == (2, 2)
    assert part["num_items_in_batch"] == 15


def test_without_rows_a_pass_has_a_filler_without_loss():
    part = taken(batch(LENGTHS, [False] * 4) | {"old_per_token_logps": torch.full((4, 10), torch.nan)}, [])
    assert [part[name].tolist() for name in ("prompt_mask", "old_per_token_logps")] == [[[1]], [[0.0]]]
    assert loss_mask(part).tolist() == [[0]]


@each_row("others", [0, 1])
def test_every_update_has_its_passes_and_totals(others: int):
    """`others` is the number of rows of other processes in each pass."""
    totals = torch.tensor([0, 0, others, others])
    parts = micro_batches(
        batch(LENGTHS, [True, False, False, False]), [[0, 1], [2, 3]], 2, lambda counts: counts + totals
    )
    assert [part["row"].tolist() for part in parts] == [[0], [0], [0], [0]]
    assert [bool(loss_mask(part).any()) for part in parts] == [True, False, False, False]
    assert [part["is_idle"] for part in parts] == [False, not others, not others, not others]
    assert [(part["totals"].rows, part["totals"].tokens) for part in parts] == [(2, 9), (2, 9), (2, 6), (2, 6)]


def test_scores_return_to_their_rows():
    rows = batch(LENGTHS, [True] * 4)
    rows["completion_ids"] += torch.arange(4)[:, None] * rows["completion_mask"]
    scores = scored(rows, [0, 1, 3], 2, lambda part: part["completion_ids"] * 1.0)
    assert torch.equal(scores[[0, 1, 3]], rows["completion_ids"][[0, 1, 3]].float())
    assert scores[2].isnan().all()
