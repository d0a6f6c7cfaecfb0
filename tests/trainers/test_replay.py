"""Passes that a GPU replays sample what launched ones sample. On a CPU the same passes run without being recorded."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.trainers.packing import PackedRow
from agentgym.trainers.passes import Replays
from tests.rows import each_row
from tests.trainers.talking import ids, policy, talks

pytestmark = [pytest.mark.nightly, pytest.mark.train]


@pytest.fixture
def replayed_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many conversations take part in each replayed pass."""
    sizes: list[int] = []
    run = Replays.run

    def counted(self: Replays, rows: Sequence[PackedRow]) -> torch.Tensor:
        sizes.append(len(rows))
        return run(self, rows)

    monkeypatch.setattr(Replays, "run", counted)
    return sizes


@each_row("slots", [64, 3])
@each_row("training", [False, True])
def test_the_same_is_sampled(model: Any, tokenizer: Any, replayed_rows: list[int], slots: int, training: bool):
    replayed_rows.clear()
    model.train(training)
    launched = talks(policy(model, tokenizer, slots=slots, replays=False))
    assert not replayed_rows
    replayed = talks(policy(model, tokenizer, slots=slots, replays=True))
    assert ids(replayed) == ids(launched)
    for first, other in zip(chain(*replayed), chain(*launched), strict=True):
        assert first.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    # All but the first token of each turn.
    tokens = [len(turn.ids) for turn in chain(*replayed)]
    assert sum(replayed_rows) == sum(tokens) - len(tokens)
    assert model.training == training


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_recorded_graphs_sample_the_same(model: Any, tokenizer: Any, replayed_rows: list[int]):
    there = copy.deepcopy(model).to("cuda")
    launched, replayed = (policy(there, tokenizer, replays=replays) for replays in (False, True))
    assert ids(talks(replayed)) == ids(talks(launched))
    assert replayed_rows
