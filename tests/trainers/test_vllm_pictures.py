"""vLLM itself samples from what a model sees: its log-probabilities are those of transformers on the same pictures."""

from __future__ import annotations

import asyncio
import io
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("PIL", reason="needs the [web] extra")

import torch
import transformers
from PIL import Image

from agentgym.messages import user, with_pictures
from agentgym.policy import SeeingPolicy
from agentgym.policy_loader import load_policy
from tests.seeing_models import save_seeing_model

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.vllm,
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore"),  # what libraries want to tell vLLM
    # Not "needs the [vllm] extra": `.ci/run` has an environment of its own for these tests.
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment (see .ci/vllm)"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that sees."""
    made = tmp_path_factory.mktemp("seeing")
    save_seeing_model(made)
    return made


def png(*colour: int) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (100, 60), colour).save(written, "PNG")
    return written.getvalue()


def compare(folder: Path) -> tuple[list[float], list[float], list[list[float]]]:
    """Return the log-probabilities of what vLLM samples, as it and as transformers gives them; and first choices."""
    policy: Any = load_policy(f"vllm:{folder}", env_id="guess", env_kwargs={}, concurrency=4, context=256)
    assert isinstance(policy, SeeingPolicy) and policy.sees  # noqa: PT018
    tokenizer: Any = policy.codec.tokenizer  # type: ignore[attr-defined]
    model: Any = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor: Any = transformers.AutoProcessor.from_pretrained(folder)
    found: list[float] = []
    wanted: list[float] = []
    firsts: list[list[float]] = []
    for number, shown in enumerate(([png(250, 0, 0)], [png(0, 0, 250)], [png(250, 0, 0), png(0, 250, 0)])):
        ids = policy.codec.open([with_pictures(user("Look."), shown)], [])
        said = asyncio.run(policy.generate(ids, 6, f"s{number}", pictures=shown))
        images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in shown]
        read = processor(text=[tokenizer.decode(ids)], images=[images], return_tensors="pt")
        start = read["input_ids"].shape[1]
        assert start == len(ids) + sum(map(policy.picture_tokens, shown))
        whole = torch.cat([read["input_ids"], torch.tensor([said.ids])], dim=1)
        pixels = {name: value for name, value in read.items() if name.startswith("pixel")}
        with torch.inference_mode():
            logits = model(input_ids=whole, attention_mask=torch.ones_like(whole), **pixels).logits[0, start - 1 : -1]
        scores = torch.log_softmax(logits.float(), dim=-1)
        wanted += scores.gather(1, whole[0, start:, None])[:, 0].tolist()
        found += said.logprobs
        firsts.append(scores[0].tolist())
    return found, wanted, firsts


def test_what_is_sampled_depends_on_the_pictures_as_in_transformers(folder: Path):
    # On CPUs, two engines in one process fail: threads are bound to the first one.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        found, wanted, (red, blue, _) = apart.submit(compare, folder).result()
    assert found == pytest.approx(wanted, abs=1e-4)
    assert max(abs(one - other) for one, other in zip(red, blue, strict=True)) > 1e-2
