"""vLLM compared with transformers: in this process, behind its server and the gateway, and in whole runs.

Each engine has its own process: this one, the server's, and those of the runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

from importlib.util import find_spec

import torch
from transformers import GenerationConfig

from agentgym.core.policy import TokenPolicy
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.policy_loader import load_policy
from agentgym.trainers.adapters import with_adapters
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.tiny import TinyShape, tiny_model
from agentgym.trainers.vllm.policy import VLLMPolicy
from tests.gateway_talks import Watched, conversation, turns_of
from tests.rows import each_row
from tests.vllm_servers import RUN, served
from tests.waiting import HANG_S

# Not "needs the [vllm] extra": `.ci/run` has an environment of its own for these tests.
has_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment (see .ci/vllm)")
pytestmark = [pytest.mark.vllm, pytest.mark.train, pytest.mark.filterwarnings("ignore"), has_vllm]

PROMPTS = [[40 + 7 * n + i for i in range(5 + 9 * n)] for n in range(8)]


@pytest.fixture(scope="module")
def folder(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint in float32 with heads that vLLM supports, and with clear preferences."""
    shape = TinyShape(vocabulary=320, hidden=64, layers=2, heads=2, feed_forward=64, context=256)
    model = tiny_model(tokenizer, shape, seed=0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(8)
    directory = tmp_path_factory.mktemp("model")
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def brief(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same checkpoint with many tokens that end a turn: turns that are cut off teach nothing."""
    directory = tmp_path_factory.mktemp("brief") / "model"
    shutil.copytree(folder, directory)
    GenerationConfig(eos_token_id=[*range(101, 311, 2)]).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def in_process(folder: Path) -> dict[float, VLLMPolicy]:
    """Policies with one engine, by temperature."""
    cold: Any = policy_at(f"vllm:{folder}", 0.0)
    warm: Any = policy_at(f"vllm:{folder}", 0.7, engine=cold._engine)
    return {0.0: cold, 0.7: warm}


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server of the checkpoint is."""
    with served(folder, tmp_path_factory.mktemp("server") / "log") as address:
        yield address


def policy_at(name: str, temperature: float, engine: Any = None) -> Any:
    if engine is None:
        return load_policy(name, env_id="guess", env_kwargs={}, temperature=temperature, concurrency=16)
    from agentgym.trainers.transformers_policy import Sampling

    folder = name.removeprefix("vllm:")
    transformers: Any = policy_at(folder, temperature)
    directory = VLLMPolicy(
        transformers.codec, end_ids=sorted(transformers._end_ids), context=256, sampling=Sampling(temperature, 0)
    )
    directory.use(engine)
    return directory


def turns(policy: TokenPolicy) -> list[Any]:
    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(policy.generate(ids, 24, str(n)) for n, ids in enumerate(PROMPTS)))

    return asyncio.run(all_at_once())


def model_logprobs(folder: Path, prompt: list[int], sampled: list[int], temperature: float) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, dim=-1).gather(1, torch.tensor(sampled)[:, None])[:, 0]


def test_greedy_gives_the_same_tokens_and_logprobs_everywhere(folder: Path, in_process: Any, url: str):
    expected = turns(policy_at(str(folder), 0.0))
    assert len({tuple(turn.ids) for turn in expected}) > 4
    for policy in (in_process[0.0], policy_at(f"vllm:{folder}@{url}", 0.0)):
        actual = turns(policy)
        assert [(turn.ids, turn.finish) for turn in actual] == [(turn.ids, turn.finish) for turn in expected]
        for here, there in zip(actual, expected, strict=True):
            assert here.logprobs == pytest.approx(there.logprobs, abs=1e-4)


def test_logprobs_are_those_of_the_distribution_that_was_sampled(folder: Path, in_process: Any, url: str):
    for policy in (in_process[0.7], policy_at(f"vllm:{folder}@{url}", 0.7), policy_at(str(folder), 0.7)):
        for prompt, turn in zip(PROMPTS, turns(policy), strict=True):
            expected = model_logprobs(folder, prompt, turn.ids, 0.7)
            assert turn.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_the_gateway_records_what_the_engine_sampled(folder: Path, in_process: Any):
    policy = in_process[0.7]
    engine = Watched(policy._engine)
    policy.use(engine)
    tokens = conversation(policy)
    policy.use(in_process[0.0]._engine)
    assert turns_of(tokens) == engine.said
    for history, sampled, logprobs in engine.said:
        assert logprobs == pytest.approx(model_logprobs(folder, history, sampled, 0.7).tolist(), abs=1e-4)


# Whole runs, each in a process of its own.


SETTINGS = {
    "env": "letters_env:LettersEnv", "steps": 3, "groups": 2, "group_size": 4, "updates_per_step": 2, "context": 256,
    "max_new_tokens": 4, "learning_rate": 1e-2, "warmup_steps": 0, "eval_tasks": 3, "eval_attempts": 1,
    "report_to": [], "use_vllm": True, "output_dir": "run", "ahead": 0,
    # All weights in full precision, as the engine's: the log-probabilities can then be compared closely.
    "lora_rank": 0, "bf16": False, "gradient_checkpointing": False,
}  # fmt: skip
SCRIPT = """
import sys, json, torch
torch.set_num_threads(2)
settings, cut_off = json.loads(sys.argv[1]), sys.argv[2] == "cut off"
from trl.generation.vllm_generation import VLLMGeneration
from agentgym.base.errors import InfrastructureError
from agentgym.trainers.config import load_config
from agentgym.trainers.train import train
if cut_off:
    VLLMGeneration.sync_weights = lambda self: self.llm.reset_prefix_cache()
try:
    train(load_config(None, settings))
except InfrastructureError as error:
    print("stopped:", error)
"""


def run(settings: dict[str, Any], *, cut_off: bool = False) -> str:
    """Train in a process of its own; return why it stopped, if it did."""
    command = [sys.executable, "-c", SCRIPT, json.dumps(settings), "cut off" if cut_off else "sound"]
    done = subprocess.run(command, env=os.environ | RUN, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 0, done.stderr[-4_000:]
    return done.stdout.partition("stopped: ")[2]


@each_row("lora_rank", [0, 4])
def test_a_run_samples_from_the_weights_of_each_step(
    lora_rank: int, brief: Path, letters: Any, sampled_from: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert run(SETTINGS | {"model": str(brief), "lora_rank": lora_rank}) == ""
    lines = list(read_metrics(Path("run") / "metrics.jsonl"))
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(line["sampler_gap_max"] < 1e-4 for line in lines)
    assert lines[-1]["kl_to_start"] > 1e-3
    assert sampled_from(brief, Path("run") / "eval-before.jsonl") < 1e-4
    assert sampled_from(Path("run") / "model", Path("run") / "eval-after.jsonl") < 1e-4


def test_episodes_that_run_ahead_continue_with_the_new_weights_of_the_engine(folder: Path, letters: Any):
    more = {"env": "letters_env:WaitingEnv", "ahead": 1, "steps": 5, "record_groups": None}
    assert run(SETTINGS | more | {"model": str(folder)}) == ""
    lines = list(read_metrics(Path("run") / "metrics.jsonl"))
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5]
    assert all(line.get("sampler_gap_max", 0.0) < 1e-4 for line in lines)
    recorded = list(read_jsonl(Path("run") / "trajectories.jsonl"))
    assert sorted(trajectory.attempt for trajectory in recorded) == [*range(5 * 8)]
    assert max(line.get("staleness_max", 0.0) for line in lines) >= 1


def test_an_engine_that_is_cut_off_from_the_weights_stops_the_run(brief: Path, letters: Any):
    why = run(SETTINGS | {"model": str(brief)}, cut_off=True)
    assert why.startswith("the vLLM engine still samples from old weights")
    assert not any(line["grad_norm"] for line in list(read_metrics(Path("run") / "metrics.jsonl"))[:-1])


def test_a_folder_of_adapters_plays_as_it_does_in_process(folder: Path, tokenizer: Any, tmp_path: Path):
    from transformers import AutoModelForCausalLM

    adapted = with_adapters(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), 4, 8, 0)
    torch.manual_seed(0)
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    adapted.save_pretrained(tmp_path / "adapters")
    tokenizer.save_pretrained(tmp_path / "adapters")
    expected = turns(policy_at(str(tmp_path / "adapters"), 0.0))
    actual = turns(policy_at(f"vllm:{tmp_path / 'adapters'}", 0.0))
    assert [(turn.ids, turn.finish) for turn in actual] == [(turn.ids, turn.finish) for turn in expected]
    assert [turn.ids for turn in actual] != [turn.ids for turn in turns(policy_at(str(folder), 0.0))]


def test_the_command_trains_the_tiny_model_end_to_end():
    command = [str(Path(sys.executable).with_name("agentgym")), "train", "--env", "sql", "--use-vllm", "--steps", "2"]
    command += ["--groups", "2", "--group-size", "4", "--micro-batch", "4", "--eval-tasks", "4", "--eval-attempts", "1"]
    command += ["--warm-start-steps", "30", "--warm-start-tasks", "64", "--output-dir", "run", "--report-to", "[]"]
    command += ["--vllm", "enable_prefix_caching=false"]
    done = subprocess.run(command, env=os.environ | RUN, capture_output=True, text=True, check=False, timeout=HANG_S)
    assert done.returncode == 0, done.stderr[-4_000:]
    assert "held-out success before" in done.stdout
    assert "vLLM's cache holds " in done.stdout
    lines = list(read_metrics(Path("run") / "metrics.jsonl"))
    assert [line["failed"] for line in lines] == [0.0, 0.0]
    assert all(line["seconds/sync"] > 0 for line in lines)
    assert all(line["sampler_gap_max"] < 1e-4 for line in lines)
