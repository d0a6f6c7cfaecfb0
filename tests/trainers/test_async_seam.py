"""What `async_seam` takes for granted about TRL. If one of these fails, this TRL cannot train asynchronously."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

import numpy as np
import torch
from transformers import AttentionInterface

import agentgym.trainers
from agentgym.base.errors import UsageError
from agentgym.trainers import async_seam
from agentgym.trainers.async_seam import (
    AdapterServers,
    RolloutSample,
    StepTrainer,
    TreeRow,
    VLLMClient,
    async_grpo_trainer,
    packing,
    register_attention,
)
from agentgym.trainers.asynchronous.attention import attend_by_path
from agentgym.trainers.asynchronous.trainer import AgentAsyncTrainer
from agentgym.trainers.asynchronous.worker import EngineWorker
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train, pytest.mark.filterwarnings("ignore")]

TRL: Any = async_grpo_trainer.AsyncGRPOTrainer
SOURCE = inspect.getsource(TRL)


def test_no_other_module_imports_the_asynchronous_trainer():
    room = Path(agentgym.trainers.__file__).parent
    users = {
        path.name
        for path in room.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trl.experimental")
    }
    assert users == {"async_seam.py"}


def test_the_subclasses_hide_no_private_name_of_trl():
    theirs = {*re.findall(r"\bself\.(_[a-z]\w+)", SOURCE), *(n for n in dir(TRL) if re.match("_[a-z]", n))}
    ours = inspect.getsource(AgentAsyncTrainer) + inspect.getsource(StepTrainer)
    used = {"_rollout_dataset", "_metrics", "_lora_sync", "_lora_name", "_lora_dir"}
    assert {*re.findall(r"\bself\.(_[a-z]\w+)", ours), *re.findall(r"def (_[a-z]\w+)", ours)} & theirs == used


@each_row(
    ("name", "use"),
    [
        ("_rollout_dataset", "self._rollout_dataset.wait_s = 0.0"),
        ("_metrics", 'self._metrics["train"]'),
        ("_lora_sync", "if self._lora_sync:"),
        ("_lora_name", 'f"{self._lora_name}-v{version}"'),
        ("_lora_dir", 'os.path.join(self._lora_dir, f"{self._lora_name}-v{version}")'),
        ("model_version", "version = self.model_version + 1"),
        ("VLLMClient", "VLLMClient(self.args.vllm_server_base_url, self.args.vllm_server_timeout)"),
        ("get_peak_flops_per_device", "get_peak_flops_per_device(self.accelerator, dtype)"),
        ("register_tree_attention", "register_tree_attention()"),
        ("token_index", 'inputs["token_index"] >= 0'),
        ("log_probs", "outputs.log_probs.flatten()[token_index]"),
        ("global_n_tokens", "tokens_per_rank = (global_n_tokens / world_size).clamp(min=1.0)"),
    ],
)
def test_trl_uses_a_name_as_the_seam_expects(name: str, use: str):
    assert use in SOURCE


def test_a_worker_has_the_methods_of_trls_protocol():
    protocol: Any = async_grpo_trainer.RolloutWorkerProtocol
    methods = {name for name in vars(protocol) if not name.startswith("_")}
    assert methods == {"start", "stop", "update_model_version", "check_health"}
    assert set(protocol.__annotations__) == {"rollout_buffer", "metrics_queue"}
    for name in methods:
        ours = inspect.signature(getattr(EngineWorker, name)).parameters
        assert list(inspect.signature(getattr(protocol, name)).parameters) == list(ours)


def test_a_sample_and_a_row_have_the_fields_that_steps_fill():
    assert list(RolloutSample.__annotations__) == [
        *("prompt", "completion", "input_ids", "completion_mask", "old_log_probs", "advantage", "model_version"),
        *("group_id", "metrics", "enqueued_at"),
    ]
    row, ones = TreeRow(), np.ones(3, dtype=np.int64)
    for ids in ([1, 2, 3], [1, 2, 4]):
        sample = {"input_ids": np.array(ids), "completion_mask": ones, "old_log_probs": ones, "advantage": 2.0}
        assert row.fits({**sample, "group_id": 0}, 6)
        row.add({**sample, "group_id": 0})
    packed = row.pack()
    assert len(row.tokens) == len(packed["input_ids"]) == 5  # the branch begins one token before they differ
    assert packed["advantages"].tolist() == [2.0] * 4
    assert packed["segment_id"].tolist() == [0, 0, 1, 1]


def test_the_attention_of_this_machine_takes_the_place_of_trls():
    packing.register_tree_attention()
    assert AttentionInterface()[packing.TREE_ATTENTION] is packing.tree_attention
    assert callable(packing._flash_attn)
    if not torch.cuda.is_available():
        assert register_attention() == "SDPA by path"
        assert AttentionInterface()[packing.TREE_ATTENTION] is attend_by_path


def test_adapters_reach_all_servers_that_answer_and_nothing_pauses(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def load(self: Any, name: str, path: str) -> None:
        if self.server_url == "http://b":
            raise ConnectionError("it is down")
        asked.append(f"{self.server_url} {name} {path}")

    monkeypatch.setattr(VLLMClient, "load_lora_adapter", load)
    servers = AdapterServers(["http://a", "http://b", "http://c"], 1.0)
    servers.load_lora_adapter("p-v1", "/there")
    servers.pause()
    servers.resume()
    assert asked == ["http://a p-v1 /there", "http://c p-v1 /there"]


def test_complaints_of_trl_are_one_line():
    with pytest.raises(UsageError, match=r"^asynchronous training: two lines$"), async_seam._explained():
        raise ValueError("two\n  lines")
