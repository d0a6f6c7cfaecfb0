"""The gradients of the trainer are those of the loss as it is defined, however its rows are computed."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

import torch

from agentgym.trainers.config import LOSSES
from agentgym.trainers.credit import CreditMode
from tests.rows import each_row
from tests.trainers.loss_runs import Case, Update, fresh_model, run
from tests.trainers.reference_loss import Settings, difference, gradient, update_loss
from tests.waiting import HANG_S

pytestmark = [pytest.mark.real, pytest.mark.train]

ROOT = Path(__file__).parent.parent.parent
EXACT = 1e-5
"""The largest difference from the reference, as a share of the gradient's norm."""


def differences(case: Case, updates: Sequence[Update], processes: int = 1) -> list[float]:
    """Return how far the gradient of each update is from the reference."""
    start = fresh_model().double()
    result = []
    for number, update in enumerate(updates):
        model = copy.deepcopy(start)
        model.load_state_dict(update.weights)
        loss = update_loss(case.settings, model, case.batch, case.update(number, processes), start, start)
        result.append(difference(update.gradient, gradient(model, loss)))
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model that all runs start from."""
    where = tmp_path_factory.mktemp("runs")
    fresh_model().save_pretrained(where / "start")
    return where


@each_row("loss", LOSSES)
@each_row("mode", [str(mode) for mode in CreditMode])
def test_every_loss_and_credit_mode_is_as_defined(mode: str, loss: str, folder: Path):
    case = Case(Settings(mode, loss, updates_per_step=2), micro_batch=5)
    updates = run(case, folder)
    assert len(updates) == 2
    assert max(differences(case, updates)) < EXACT


TURN = Settings("turn", "grpo")
OTHER_TERMS = Settings("turn", "dapo", entropy_weight=0.1, kl_weight=0.1, train_on_truncated=False)


@each_row(
    "case",
    [
        Case(TURN, micro_batch=1),
        Case(TURN, epochs_per_step=2, micro_batch=10),
        Case(TURN, common=40),
        Case(TURN, common=40, micro_batch=4),
        Case(TURN, flat=(0, 1, 2)),
        Case(replace(TURN, temperature=0.7, updates_per_step=2), micro_batch=2),
        *(Case(replace(OTHER_TERMS, loss=loss, updates_per_step=2), micro_batch=2) for loss in LOSSES),
        Case(replace(OTHER_TERMS, loss="bnpo"), micro_batch=1, epochs_per_step=2),
    ],
)
def test_neither_the_division_into_passes_nor_other_terms_change_it(case: Case, folder: Path):
    updates = run(case, folder)
    assert len(updates) == case.epochs_per_step * case.settings.updates_per_step
    assert max(differences(case, updates)) < EXACT


IN_TWO_PROCESSES = [
    *(Case(replace(OTHER_TERMS, loss=loss), micro_batch=2) for loss in LOSSES),
    Case(TURN, common=40, micro_batch=5),
    Case(replace(TURN, loss="bnpo", updates_per_step=2), micro_batch=1),
    Case(TURN, micro_batch=2, flat=(1, 2, 4)),  # leaves the second process without a row
]


@pytest.mark.slow
def test_two_processes_have_the_gradient_of_one(folder: Path):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    cases = json.dumps([asdict(case) for case in IN_TWO_PROCESSES])
    words = [sys.executable, *launcher, "-m", "tests.trainers.loss_runs", cases, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG_S, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    results = torch.load(folder / "updates.pt")
    for case, updates in zip(IN_TWO_PROCESSES, results, strict=True):
        assert max(differences(case, [Update(**update) for update in updates], processes=2)) < EXACT, case
