"""TRL's own trainer learns on our environments through `environment_factory`; nothing of our trainer takes part."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from benchmarks._trl_factory import Schedule, begun_model, trained

pytestmark = [pytest.mark.real, pytest.mark.train]


def test_a_model_is_trained_by_what_its_episodes_earn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    model, tokenizer = begun_model(tmp_path, count=32, steps=20)
    before = [weight.detach().clone() for weight in model.parameters()]
    log = trained(tmp_path, model, tokenizer, Schedule(steps=2, groups=2, size=4)).log
    assert [entry["step"] for entry in log] == [1, 2]
    assert all(0 <= entry["rewards/errand/mean"] <= 1.2 for entry in log)
    changed = any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert changed == any(entry["reward_std"] for entry in log)
