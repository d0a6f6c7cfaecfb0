"""Settings of asynchronous runs, and how a server is started for one."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import UsageError
from agentgym.trainers.config import load_config
from tests.rows import each_row
from tests.waiting import eventually

ASYNC: dict[str, Any] = {"async_training": True, "model": "some/model"}


@each_row(
    ("settings", "problem"),
    [
        ({"kl_weight": 0.1}, "reference model"),
        ({"entropy_weight": 0.1}, "entropy bonus"),
        ({"loss": "cispo"}, "the loss is one of dapo, grpo, dr_grpo"),
        ({"updates_per_step": 2}, "updates_per_step: 1"),
        ({"epochs_per_step": 2}, "epochs_per_step: 1"),
        ({"use_vllm": True}, "use_vllm: false"),
        ({"max_staleness": 0}, "max_staleness: 1"),
        ({"servers": ["http://a", "http://b"], "lora_rank": 0}, "set lora_rank"),
    ],
)
def test_what_trls_asynchronous_trainer_lacks_is_refused_in_one_line(settings: dict[str, Any], problem: str):
    with pytest.raises(UsageError, match=rf"^asynchronous training: .*{re.escape(problem)}"):
        load_config(None, {**ASYNC, **settings})


def test_the_defaults_of_pretrained_models_and_the_recipes_of_small_ones_can_be_asynchronous():
    assert load_config(None, ASYNC).updates_per_step == 1
    for recipe in ("sql-smollm2", "code-smollm2", "search-smollm2"):
        assert load_config(recipe, {"async_training": True}).async_training


def test_a_server_gets_the_settings_of_its_run_as_options():
    torch = pytest.importorskip("torch", reason="needs the [train] extra")
    from agentgym.trainers.asynchronous.server import as_options, server_settings

    class Shape:
        num_key_value_heads, num_attention_heads, num_hidden_layers, head_dim, hidden_size = 2, 2, 2, 32, 64

    config = load_config(None, {**ASYNC, "lora_rank": 24, "max_staleness": 3, "context": 512, "bf16": False})
    options = as_options(server_settings(config, Shape))
    pairs = dict(pairwise(options))
    assert {name: pairs[f"--{name}"] for name in ("max-lora-rank", "max-loras", "max-model-len", "dtype")} == {
        "max-lora-rank": "32", "max-loras": "5", "max-model-len": "512", "dtype": "float32",
    }  # fmt: skip
    assert {"--enable-lora", "processed_logprobs"} <= {*options}
    assert ("--enforce-eager" in options) == (not torch.cuda.is_available())


@pytest.mark.real
def test_a_server_that_dies_is_restarted_without_what_it_left_and_ends_with_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("torch", reason="needs the [train] extra")
    from agentgym.trainers.asynchronous import server as module

    class Stub(module.OwnServer):
        def _begin(self) -> Any:
            code = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
            self._command = [sys.executable, "-c", code]
            return super()._begin()

    def left() -> list[int]:
        lines = (tmp_path / "log").read_text().split() if (tmp_path / "log").exists() else []
        return [int(line) for line in lines]

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    monkeypatch.setattr(module, "urlopen", lambda *args, **kwargs: nullcontext())
    server = Stub("model", {}, tmp_path / "log")
    server.wait()
    assert eventually(lambda: len(left()) == 1)
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: len(left()) == 2)
    server.close()
    assert eventually(lambda: not any(map(runs, left())))
