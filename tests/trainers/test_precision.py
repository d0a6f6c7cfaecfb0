"""The precision of a run is one that the machine computes in."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs the [train] extra")

import torch

from agentgym.trainers.config import load_config
from agentgym.trainers.precision import of_this_machine
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


@each_row("is_fast", [True, False])
def test_bfloat16_is_computed_in_only_where_it_is_not_emulated(monkeypatch: pytest.MonkeyPatch, is_fast: bool):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: is_fast)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    recipe = load_config("sql-smollm2")
    assert recipe.bf16
    assert of_this_machine(recipe, "cpu").bf16 == is_fast
