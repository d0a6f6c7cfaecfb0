"""The fused head scores only what carries loss, and the same as before."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch
import trl.trainer.utils as trl_utils

from agentgym.trainers.trl_seam import score_labels_only, without_labels

pytestmark = [pytest.mark.real, pytest.mark.train]


def scored(model: Any, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return model(input_ids=ids, labels=labels, fused_lm_head=True).log_probs


def test_scores_and_gradients_do_not_change(model: Any, monkeypatch: pytest.MonkeyPatch):
    trl_utils.add_fused_lm_head(model)
    ids = torch.arange(24).reshape(2, 12)
    labels = ids.clone()
    labels[:, 3:8] = -100
    results = []
    for compact in (False, True):
        monkeypatch.setattr(trl_utils, "_use_triton", lambda device: False)
        if compact:
            score_labels_only()
        model.zero_grad()
        scores = scored(model, ids, labels)
        scores.sum().backward()
        results.append((scores.detach(), model.get_input_embeddings().weight.grad.clone()))
    assert torch.allclose(results[0][0], results[1][0], atol=1e-5)
    assert torch.allclose(results[0][1], results[1][1], atol=1e-4)


def test_masked_tokens_score_zero_and_the_rest_the_same(model: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trl_utils, "_use_triton", lambda device: True)
    trl_utils.add_fused_lm_head(model)
    ids = torch.arange(24).reshape(2, 12)
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0]])
    whole = scored(model, ids, ids)
    with without_labels(model, mask):
        partial = scored(model, ids, ids)
    assert torch.equal(partial[:, -4:] == 0, mask == 0)
    assert torch.allclose(partial[:, -4:][mask == 1], whole[:, -4:][mask == 1], atol=1e-5)
    assert torch.allclose(scored(model, ids, ids), whole)
