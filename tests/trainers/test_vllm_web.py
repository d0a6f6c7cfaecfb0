"""Screenshots of a real page reach a real engine, and nothing is lost between the browser and the recorded tokens.

A model scores its own recorded turns on the recorded pictures with transformers. The scores equal vLLM's records only
if every picture is in its place.
"""

from __future__ import annotations

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

from agentgym.core.messages import shown_pictures
from agentgym.core.policy import Policy
from agentgym.core.trajectory import Trajectory
from agentgym.envs.web import WebEnv
from agentgym.eval.policy_loader import load_policy
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from tests.browsers import need_browser
from tests.seeing_models import save_seeing_model

# Not "needs the [vllm] extra": `.ci/run` has an environment of its own for these tests.
has_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment (see .ci/vllm)")
pytestmark = [pytest.mark.vllm, pytest.mark.train, pytest.mark.web, pytest.mark.filterwarnings("ignore"), has_vllm]
need_browser()

# Short pages: the tiny model has a token for each byte.
SETTINGS: dict[str, Any] = {
    "sites": ["shop"], "screenshots": "plain", "offer": ["scroll", "finish"], "view_chars": 200, "viewport": (320, 240),
    "max_turns": 3,
}  # fmt: skip


class GazingEnv(WebEnv):
    """Scrolls and shows a fresh screenshot in every turn, whatever the model says."""

    def respond(self, text: str) -> Any:
        return self.scroll("down")


FACTORY = EnvFactory("tests.trainers.test_vllm_web:GazingEnv", SETTINGS)
TURNS = SETTINGS["max_turns"]
SAID_TOKENS = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("seeing")
    save_seeing_model(directory, positions=8_192)
    # Many tokens end a turn: the environment does not play turns that are cut off.
    transformers.GenerationConfig(eos_token_id=[*range(29, 285, 32)]).save_pretrained(directory)
    return directory


def play(policy: Policy, episodes: int) -> list[Trajectory]:
    tasks = GazingEnv(**SETTINGS).tasks
    groups = [Group(tasks.get("train", index), index) for index in range(episodes)]
    with RolloutEngine(FACTORY, policy, Limits(max_new_tokens=SAID_TOKENS)) as engine:
        return [played.trajectories[0] for played in engine.collect(groups)]


class Eyes:
    """A model that sees, as transformers runs it."""

    def __init__(self, folder: Path) -> None:
        self.model: Any = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor: Any = transformers.AutoProcessor.from_pretrained(folder)
        self.place: int = self.model.config.image_token_id

    def read(self, pictures: list[bytes]) -> tuple[list[int], dict[str, Any]]:
        """Return the tokens of one picture, which are those of every picture, and the pixels of all."""
        images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
        result = self.processor(text=["<image>" * len(images)], images=[images], return_tensors="pt")
        ids = result["input_ids"][0].tolist()
        return ids[: len(ids) // len(images)], {key: value for key, value in result.items() if key.startswith("pixel")}

    def scores(self, ids: list[int], sampled: list[bool], pictures: list[bytes]) -> list[float]:
        """Return the log-probabilities of the sampled ones among `ids`, which have one place for each picture."""
        picture_ids, pixels = self.read(pictures)
        pairs = zip(ids, sampled, strict=True)
        whole = [(token, was) for id, was in pairs for token, was in self._widened(id, was, picture_ids)]
        read = torch.tensor([[token for token, _ in whole]])
        with torch.inference_mode():
            logits = self.model(input_ids=read, attention_mask=torch.ones_like(read), **pixels).logits[0, :-1]
        result = torch.log_softmax(logits.float(), dim=-1).gather(1, read[0, 1:, None])[:, 0].tolist()
        return [score for score, (_, was) in zip(result, whole[1:], strict=True) if was]

    def _widened(self, id: int, sampled: bool, picture_ids: list[int]) -> list[tuple[int, bool]]:
        return [(token, False) for token in picture_ids] if id == self.place else [(id, sampled)]


def black() -> bytes:
    """A screenshot of nothing."""
    written = io.BytesIO()
    Image.new("RGB", SETTINGS["viewport"]).save(written, "PNG")
    return written.getvalue()


def in_process(folder: Path) -> list[Trajectory]:
    settings: dict[str, Any] = {"concurrency": 4}
    return play(load_policy(f"vllm:{folder}", env_id=FACTORY.env_id, env_kwargs=SETTINGS, **settings), 2)


def test_recorded_tokens_are_what_the_model_says_to_the_screenshots_of_the_browser(folder: Path):
    # On CPUs, two engines in one process fail: threads are bound to the first one.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        result = apart.submit(in_process, folder).result()
    eyes, changes = Eyes(folder), list[float]()
    for trajectory in result:
        assert trajectory.error is None
        assert len(trajectory.turns) == TURNS
        observations = [trajectory.opening, *(turn.observation for turn in trajectory.turns[:-1])]
        pictures = [picture for messages in observations for picture in shown_pictures(messages)]
        assert [Image.open(io.BytesIO(picture)).size for picture in pictures] == [SETTINGS["viewport"]] * TURNS
        assert pictures[0] != pictures[1]
        tokens = trajectory.tokens
        assert tokens is not None
        ids = [*tokens.prompt_ids, *tokens.completion_ids]
        sampled = [*[False] * len(tokens.prompt_ids), *map(bool, tokens.loss_mask)]
        recorded = [score for score, was in zip(tokens.logprobs, tokens.loss_mask, strict=True) if was]
        assert len(recorded) >= TURNS
        assert ids.count(eyes.place) == TURNS
        assert eyes.scores(ids, sampled, pictures) == pytest.approx(recorded, abs=2e-4)
        dark = eyes.scores(ids, sampled, [black()] * TURNS)
        changes += [abs(token - other) for token, other in zip(dark, recorded, strict=True)]
    assert max(changes) > 2e-3
