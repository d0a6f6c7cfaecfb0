"""The common prefix of a batch is computed once, with the same result."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

import torch

from agentgym.trainers.shared_prefix import common_length, share_prefixes
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

COMMON = list(range(10, 60))
ROWS = [[*COMMON, 1, 2, 3], [*COMMON, 4], [*COMMON, 5, 6, 7, 8, 9]]


def padded(padding: list[int], width: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask of the rows, each after some padding."""
    ids, mask = torch.zeros(len(ROWS), width, dtype=torch.long), torch.zeros(len(ROWS), width, dtype=torch.long)
    for number, (row, start) in enumerate(zip(ROWS, padding, strict=True)):
        ids[number, start : start + len(row)] = torch.tensor(row)
        mask[number, start : start + len(row)] = 1
    return ids, mask


def outcome(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the hidden states without padding, and the gradient of a weight."""
    model.zero_grad()
    hidden = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state[mask.bool()]
    hidden.square().sum().backward()
    return hidden.detach(), model.base_model.layers[0].mlp.up_proj.weight.grad.clone()


@pytest.mark.parametrize("padding", [[0, 0, 0], [2, 4, 0], [7, 9, 5]])
def test_hidden_states_and_gradients_are_the_same(model: Any, padding: list[int]):
    ids, mask = padded(padding)
    alone = outcome(model, ids, mask)
    share_prefixes(model)
    shared = outcome(model, ids, mask)
    for first, other in zip(alone, shared, strict=True):
        assert torch.allclose(first, other, rtol=1e-3, atol=1e-3)


def test_the_common_beginning_is_computed_once(model: Any):
    tokens: list[int] = []
    layer = model.base_model.layers[0]
    layer.register_forward_pre_hook(lambda module, args: tokens.append(args[0].shape[0] * args[0].shape[1]))
    share_prefixes(model)
    ids, mask = padded([2, 4, 0])
    model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    assert tokens == [50, 3 * 5]


@each_row(
    "rows, common",
    [([[1, 2, 3], [1, 2, 4]], 2), ([[1, 2], [1, 2, 4]], 1), ([[1, 2, 3], [1, 2, 3]], 2), ([[1, 2], [3, 2]], 0)],
)
def test_each_row_computes_at_least_its_last_token(rows: list[list[int]], common: int):
    assert common_length([torch.tensor(row) for row in rows]) == common
