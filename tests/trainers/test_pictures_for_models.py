"""Inputs of vision models: placeholders in the tokens, pictures, and an engine that accepts them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("PIL", reason="needs the [web] extra")


from agentgym.core.messages import system, user, with_pictures
from agentgym.core.policy import SeeingPolicy
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.pictures import PictureTokens
from agentgym.trainers.transformers_policy import Sampling
from agentgym.trainers.vllm import loading
from agentgym.trainers.vllm.policy import VLLMPolicy
from tests.chat_templates import idefics_processor
from tests.core.test_pictures import PNG
from tests.seeing_models import save_seeing_model
from tests.trainers.test_vllm_policy import Engine

pytestmark = [pytest.mark.real, pytest.mark.train]

PLACE = "<image>"


class Watching(Engine):
    """An engine that keeps the prompts."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[Any] = []

    def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
        self.prompts.append(prompt)
        super().add_request(request_id, prompt, params)


@pytest.fixture(scope="module")
def processor() -> Any:
    return idefics_processor()


@pytest.fixture
def seeing(tmp_path: Path) -> Path:
    save_seeing_model(tmp_path)
    return tmp_path


def test_the_engine_is_given_the_pictures_of_each_turn_beside_the_tokens(processor: Any):
    engine = Watching()
    codec = ChatCodec(processor, sees=True)
    policy = VLLMPolicy(
        codec,
        end_ids=[30],
        context=512,
        sampling=Sampling(),
        make_params=lambda **arguments: SimpleNamespace(**arguments),
        picture_tokens=PictureTokens(processor),
    )
    policy.use(engine)
    assert isinstance(policy, SeeingPolicy)
    assert policy.sees
    ids = codec.open([with_pictures(user("Look."), [PNG, PNG])], [])
    assert codec.tokenizer.decode(ids).count(PLACE) == 2
    asyncio.run(policy.generate(ids, 2, "s", pictures=[PNG, PNG]))
    asyncio.run(policy.generate(ids, 2, "t"))
    picture_prompt, plain_prompt = engine.prompts
    assert picture_prompt["prompt_token_ids"] == ids
    assert [(image.mode, image.size) for image in picture_prompt["multi_modal_data"]["image"]] == [("RGB", (1, 1))] * 2
    assert plain_prompt == {"prompt_token_ids": ids}


def test_text_leaves_no_place_for_a_picture_that_is_not_there(processor: Any):
    codec = ChatCodec(processor, sees=True)
    page = with_pictures(user(f"The page says {PLACE}{PLACE}."), [PNG])
    opening = codec.open([system(f"Not {PLACE}."), page, user(f"And {PLACE}?")], [])
    place = codec.tokenizer.convert_tokens_to_ids(PLACE)
    assert (opening.count(place), codec.extend([page], codec.end_id).count(place)) == (1, 1)
    assert f"says {PLACE}{PLACE}." in codec.tokenizer.decode(opening)


def test_a_model_that_sees_is_loaded_with_its_processor(seeing: Path, monkeypatch: pytest.MonkeyPatch):
    arguments: dict[str, Any] = {}

    def make_engine(folder: str, config: Any, **settings: Any) -> Any:
        arguments.update(settings, folder=folder)
        return SimpleNamespace(llm_engine=Watching())

    monkeypatch.setattr(loading, "make_engine", make_engine)
    monkeypatch.setattr(loading, "require", lambda *names: None)
    monkeypatch.setattr("agentgym.trainers.vllm.policy._sampling_params", lambda: SimpleNamespace)
    policy: Any = loading.load(f"vllm:{seeing}", env_id="guess", env_kwargs={})
    assert (arguments["folder"], arguments["sees"], policy.sees, policy.context) == (str(seeing), True, True, 512)
    assert policy.picture_tokens(PNG) == 6
    assert PLACE in policy.codec.tokenizer.decode(policy.codec.open([with_pictures(user("?"), [PNG])], []))
