"""Attention over packed conversations computes what each conversation alone does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, Qwen3Config, Qwen3ForCausalLM

from agentgym.base.errors import UsageError
from agentgym.trainers.async_seam import TreeRow
from agentgym.trainers.asynchronous.attention import attend_by_blocks, attend_by_path
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train, pytest.mark.filterwarnings("ignore")]

CONVERSATIONS = [
    *([5, 6, 7, 8, 9], [5, 6, 7, 8, 9, 10, 11, 12], [5, 6, 7, 20, 21, 22], [5, 6, 7, 20, 21, 23, 24]),
    *([30, 31], [30, 32, 33, 34], [40]),
]
"""Some are prefixes of others, and others branch off within."""


def model_with(attention: Callable[..., Any], window: int | None) -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=64, sliding_window=window,
        use_sliding_window=window is not None, max_window_layers=1,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    AttentionInterface.register("test_tree", attention)
    AttentionMaskInterface.register("test_tree", lambda **options: None)
    return model


def in_one_row(model: Any) -> list[torch.Tensor]:
    """The logits of each conversation, computed in one packed row."""
    row = TreeRow()
    for ids in CONVERSATIONS:
        mask = np.ones(len(ids), dtype=np.int64)
        row.add({"input_ids": np.array(ids), "completion_mask": mask, "old_log_probs": mask, "advantage": 1.0,
                 "group_id": 0})  # fmt: skip
    packed = row.pack()
    model.set_attn_implementation("test_tree")
    tree = {name: packed[name] for name in ("tree_kv_index", "tree_cu_seqlens_q", "tree_cu_seqlens_k")}
    longest = dict(zip(("tree_max_seqlen_q", "tree_max_seqlen_k"), packed["tree_max_seqlens"].tolist(), strict=True))
    logits = model(
        input_ids=packed["input_ids"][None],
        position_ids=packed["position_ids"][None],
        use_cache=False,
        **tree,
        **longest,
    ).logits[0]
    # The packed position of each node, from the order in which the rows' own terms point to them.
    places = iter(packed["token_index"].tolist())
    result = []
    for ids in CONVERSATIONS:
        result.append(logits[[next(places) for _ in ids[1:]]])
    return result


def alone(model: Any) -> list[torch.Tensor]:
    model.set_attn_implementation("eager")
    return [model(input_ids=torch.tensor([ids])).logits[0, :-1] for ids in CONVERSATIONS]


@each_row(
    "case",
    [
        ("by path", attend_by_path, None),
        ("by path, with a window", attend_by_path, 3),
        ("by blocks", attend_by_blocks, None),
        ("by blocks, with a window", attend_by_blocks, 3),
    ],
)
def test_a_packed_row_equals_each_conversation_alone(case: Any):
    _, attention, window = case
    model = model_with(attention, window)
    if attention is attend_by_blocks:  # FlexAttention has no backward pass on a CPU
        model.requires_grad_(False)
    packed, expected = in_one_row(model), alone(model)
    for ours, theirs in zip(packed, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    if attention is attend_by_path:
        gradients = []
        for logits in (packed, expected):
            model.zero_grad()
            torch.cat(logits).log_softmax(-1)[:, 7].sum().backward()
            gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
        assert torch.allclose(gradients[0], gradients[1], atol=1e-5)


def test_a_model_that_bounds_its_scores_is_refused():
    with pytest.raises(UsageError, match="softcap"):
        attend_by_path(*[None] * 5, softcap=1.0, tree_kv_index=None, tree_cu_seqlens_q=None, tree_cu_seqlens_k=None)  # type: ignore[arg-type]
