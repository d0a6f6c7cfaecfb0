"""Scores of conversations: equal to those from all logits, without ever holding these, in equal shares."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from trl.kernels import chunked_logprob

from agentgym.trainers.adapters import with_adapters
from agentgym.trainers.logprobs import _share, conversation_logprobs
from agentgym.trainers.trl_seam import score_labels_only
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]

CONVERSATIONS = [[*range(20, 20 + length)] for length in (30, 250, 2, 90)]


def from_all_logits(model: Any, ids: list[int], temperature: float) -> torch.Tensor:
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0, :-1] / temperature
    return torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


@each_row("adapters", [False, True])
@each_row("temperature", [1.0, 0.5])
def test_scores_equal_those_from_all_logits(adapters: bool, temperature: float, model: Any):
    if adapters:
        model = with_adapters(model, 4, 8, 0)
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.3)
    model.train()
    before = {**vars(model)}
    scores = conversation_logprobs(model, CONVERSATIONS, temperature=temperature)
    assert vars(model) == before
    for ids, actual in zip(CONVERSATIONS, scores, strict=True):
        assert torch.allclose(actual, from_all_logits(model, ids, temperature), atol=1e-5)


class Sizes(TorchDispatchMode):
    """Records the number of elements of the largest result of any operation."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, list | tuple) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
        return result


def test_no_tensor_has_logits_of_more_positions_than_a_slice(model: Any, monkeypatch: pytest.MonkeyPatch):
    """The vocabulary has 320 entries; a slice, 40 positions and 64 entries."""
    monkeypatch.setattr(chunked_logprob, "TOKEN_CHUNK_SIZE", 40)
    monkeypatch.setattr("trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE", 64)
    score_labels_only()
    # One layer of the backbone: 250 positions with 64 features, and 250 x 250 attention scores of 2 heads.
    model.model.layers = model.model.layers[:0]
    ids = CONVERSATIONS[1]
    with Sizes() as sliced:
        conversation_logprobs(model, [ids])
    assert sliced.largest <= max(model.config.vocab_size * model.config.hidden_size, len(ids) * 64)
    with Sizes() as whole:
        from_all_logits(model, ids, 1.0)
    assert whole.largest >= len(ids) * model.config.vocab_size > 4 * sliced.largest


@each_row("lengths, processes", [([5, 9, 2, 7, 4], 2), ([5, 9], 4), ([3], 2), ([5, 9, 2, 7], 1), ([4, 4, 4], 3)])
def test_processes_score_equally_many_conversations_of_similar_length(lengths: list[int], processes: int):
    conversations = [[0] * length for length in lengths]
    shares = [_share(conversations, process, processes) for process in range(processes)]
    assert len({len(share) for share in shares}) == 1
    assert {number for share in shares for number in share} == {*range(len(lengths))}
    rounds = [number for numbers in zip(*shares, strict=True) for number in numbers]
    assert [lengths[number] for number in rounds] == sorted((lengths[number] for number in rounds), reverse=True)


def test_nothing_is_scored_without_conversations(model: Any):
    assert conversation_logprobs(model, []) == []
