"""Sampling from vLLM servers: requests, answers and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from aiohttp import web

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.policy import Generation, TokenPolicy
from agentgym.eval.policy_loader import has_weights, model_of, split_vllm
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.transformers_policy import Sampling
from agentgym.trainers.vllm import server_policy
from agentgym.trainers.vllm.server_policy import Adapters, VLLMServerPolicy
from agentgym.trainers.vllm.servers import refuse_raw_logprobs, served_by
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


class Server:
    """Says the last token of the prompt plus one, two, ...; its `plan` is what it does first instead."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.plan: list[Any] = []
        self.is_healthy = True
        self.model, self.context, self.temperature_counts = "served", 96, True
        self.entries: Any = ()
        self.hangs = False
        self.loaded: list[dict[str, Any]] = []
        self.url = ""

    async def complete(self, request: Any) -> Any:
        body = await request.json()
        self.asked.append(body)
        while self.hangs:
            await asyncio.sleep(0.01)
        if self.plan:
            planned = self.plan.pop(0)
            if planned == "hang up":
                request.transport.close()
                return web.Response()
            return planned() if callable(planned) else planned
        first = body["prompt"][-1] + 1
        ids = list(range(first, first + body["max_tokens"]))
        ids = ids[: ids.index(30) + 1] if 30 in ids else ids
        chance = -0.5 / (body["temperature"] if self.temperature_counts else 1.0)
        logprobs = {"token_logprobs": [-i / 10 for i in ids], "top_logprobs": [{"token_id:9": chance} for _ in ids]}
        finish = "stop" if ids[-1] == 30 else "length"
        return web.json_response({"choices": [{"token_ids": ids, "logprobs": logprobs, "finish_reason": finish}]})

    async def load(self, request: Any) -> Any:
        self.loaded.append(await request.json())
        return web.Response()

    async def health(self, request: Any) -> Any:
        return web.Response(status=200 if self.is_healthy else 503)

    async def models(self, request: Any) -> Any:
        own = [{"id": self.model, "max_model_len": self.context}]
        return web.json_response({"data": own if self.entries == () else self.entries})

    async def __aenter__(self) -> Server:
        application = web.Application()
        application.router.add_post("/v1/completions", self.complete)
        application.router.add_post("/v1/load_lora_adapter", self.load)
        application.router.add_get("/health", self.health)
        application.router.add_get("/v1/models", self.models)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.hangs = False
        await self._runner.cleanup()


@pytest.fixture
def policy_of(tokenizer: Any) -> Callable[..., VLLMServerPolicy]:
    def make(*servers: Server, patience_s: float = 30.0) -> VLLMServerPolicy:
        return VLLMServerPolicy(
            ChatCodec(tokenizer),
            [server.url for server in servers],
            model="served",
            end_ids=[30],
            context=96,
            sampling=Sampling(0.7, seed=5),
            patience_s=patience_s,
        )

    return make


def play(scene: Callable[..., Awaitable[Any]], servers: int = 1) -> Any:
    """Run a scene with some servers."""

    async def run() -> Any:
        running = [await Server().__aenter__() for _ in range(servers)]
        try:
            return await asyncio.wait_for(scene(*running), 60)
        finally:
            for server in running:
                await server.__aexit__()

    return asyncio.run(run())


def test_tokens_come_back_as_they_were_sampled_with_their_logprobs(policy_of: Any):
    async def scene(server: Server) -> Any:
        policy = policy_of(server)
        assert isinstance(policy, TokenPolicy)
        cut, ended = await policy.generate([7, 10], 3, "s"), await policy.generate([7, 27], 9, "t")
        assert cut == Generation([11, 12, 13], [-1.1, -1.2, -1.3], "length")
        assert (ended.ids, ended.finish) == ([28, 29, 30], "stop")
        return server.asked

    first, second = play(scene)
    assert (first["prompt"], first["temperature"], first["stop_token_ids"]) == ([7, 10], 0.7, [30])
    assert (first["top_p"], first["top_k"], first["min_p"], first["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert first["seed"] != second["seed"]


def test_turns_of_a_conversation_go_to_one_replica(policy_of: Any):
    async def scene(*servers: Server) -> None:
        policy = policy_of(*servers)

        async def conversation(name: int) -> None:
            ids = [name, 10]
            for _ in range(4):
                ids = [*ids, *(await policy.generate(ids, 2, str(name))).ids]
            policy.release(str(name))

        await asyncio.gather(*(conversation(name) for name in range(8)))
        homes = [{body["prompt"][0] for body in server.asked} for server in servers]
        assert [len(home) for home in homes] == [4, 4]
        assert homes[0].isdisjoint(homes[1])

    play(scene, servers=2)


@each_row(
    "fault",
    [
        "hang up",
        lambda: web.Response(status=500, text="dead"),
        lambda: web.Response(text="{cut"),
        lambda: stopped("abort"),
    ],
)
def test_a_replica_that_fails_is_left_and_its_turn_asked_of_another(policy_of: Any, fault: Any):
    async def scene(broken: Server, sound: Server) -> None:
        policy = policy_of(broken, sound)
        broken.plan, broken.is_healthy = [fault], False
        turn = await policy.generate([7, 10], 2, "s")
        assert turn.ids == [11, 12]
        assert [len(server.asked) for server in (broken, sound)] == [1, 1]
        assert sound.asked[0] == broken.asked[0]

    play(scene, servers=2)


def stopped(finish: str) -> web.Response:
    """The answer of a server that is paused or stopped during a turn."""
    choice = {"token_ids": [11], "logprobs": {"token_logprobs": [-0.1]}, "finish_reason": finish}
    return web.json_response({"choices": [choice]})


def test_a_turn_of_a_server_that_ends_without_a_word_is_asked_of_another(
    policy_of: Any, monkeypatch: pytest.MonkeyPatch
):
    """A stopping vLLM server keeps its connections open without an engine."""
    monkeypatch.setattr(server_policy, "_WATCH_EVERY_S", 0.01)

    async def scene(ending: Server, sound: Server) -> None:
        ending.hangs, ending.is_healthy = True, False
        assert (await policy_of(ending, sound).generate([7, 10], 2, "s")).ids == [11, 12]
        assert [len(server.asked) for server in (ending, sound)] == [1, 1]

    play(scene, servers=2)


def test_when_all_are_down_a_turn_waits_until_one_is_healthy_again(policy_of: Any):
    async def scene(server: Server) -> None:
        policy = policy_of(server)
        server.plan, server.is_healthy = ["hang up"], False
        turn = asyncio.create_task(policy.generate([7, 10], 2, "s"))
        while not server.asked:
            await asyncio.sleep(0.01)
        server.is_healthy = True
        assert (await turn).ids == [11, 12]

    play(scene)


def test_a_refused_first_turn_is_the_callers_mistake_and_a_later_one_fails_alone(policy_of: Any):
    async def scene(server: Server) -> None:
        policy = policy_of(server)
        server.plan = [lambda: web.Response(status=400, text="no such model")]
        with pytest.raises(UsageError, match="no such model"):
            await policy.generate([7, 10], 2, "s")
        await policy.generate([7, 10], 2, "s")
        server.plan = [lambda: web.Response(status=422, text="token 999 is out of vocabulary")]
        with pytest.raises(InfrastructureError, match="out of vocabulary"):
            await policy.generate([7, 999], 2, "t")
        assert (await policy.generate([7, 10], 2, "t")).ids == [11, 12]

    play(scene)


@each_row(
    "choice",
    [
        {"text": "said", "finish_reason": "stop"},
        {"token_ids": [1, 2], "logprobs": {"token_logprobs": [-1.0]}, "finish_reason": "stop"},
        {"token_ids": [1], "logprobs": {"token_logprobs": [None]}, "finish_reason": "stop"},
    ],
)
def test_an_answer_without_tokens_or_logprobs_is_never_trained_on(policy_of: Any, choice: dict[str, Any]):
    async def scene(server: Server) -> None:
        server.plan = [lambda: web.json_response({"choices": [choice]})]
        with pytest.raises(InfrastructureError, match="no tokens with log-probabilities"):
            await policy_of(server).generate([7, 10], 2, "s")

    play(scene)


# Before a run.


def test_replicas_serve_one_model_and_may_be_down_at_first():
    async def scene(first: Server, other: Server) -> None:
        other.context = 64
        served = await asyncio.to_thread(served_by, [first.url, "http://127.0.0.1:9", other.url])
        assert (served.url, served.model, served.context) == (first.url, "served", 64)
        other.model = "another"
        with pytest.raises(UsageError, match="different models"):
            await asyncio.to_thread(served_by, [first.url, other.url])

    play(scene, servers=2)


BASE = {"id": "base", "root": "org/base", "max_model_len": 96}


def found_in(entries: Any, model: str) -> Any:
    async def scene(server: Server) -> Any:
        server.entries = entries
        return await asyncio.to_thread(served_by, [server.url], model)

    return play(scene)


def test_of_a_model_and_its_adapters_the_wanted_one_is_played(tmp_path: Path):
    entries = [BASE, {"id": "mine", "root": str(tmp_path), "parent": "base", "max_model_len": None}]
    for wanted, model in (("mine", "mine"), (str(tmp_path), "mine"), (f"{tmp_path}/.", "mine"), ("base", "base")):
        served = found_in(entries, wanted)
        assert (served.model, served.context) == (model, 96)
    with pytest.raises(UsageError, match=r"'base', 'mine', but not 'other'.*--lora-modules"):
        found_in(entries, "other")


@each_row("entries", [None, [5], [{"name": "m"}]])
def test_a_server_that_lists_no_models_is_refused(entries: Any):
    with pytest.raises(UsageError, match="is not a vLLM server"):
        found_in(entries, "m")


def test_logprobs_from_before_the_temperature_are_refused():
    async def scene(server: Server) -> None:
        await asyncio.to_thread(refuse_raw_logprobs, server.url, "served", 0.7)
        server.temperature_counts = False
        with pytest.raises(UsageError, match="processed_logprobs"):
            await asyncio.to_thread(refuse_raw_logprobs, server.url, "served", 0.7)
        await asyncio.to_thread(refuse_raw_logprobs, server.url, "served", 1.0)

    play(scene)


def test_names_say_the_model_and_where_it_is_served():
    assert split_vllm("vllm:tiny") == ("tiny", [])
    assert split_vllm("vllm:a/b@http://h:1/v1,http://h:2/") == ("a/b", ["http://h:1", "http://h:2"])
    assert split_vllm("vllm:run/@2/model") == ("run/@2/model", [])
    assert model_of("org/name") == "org/name"
    assert has_weights("vllm:tiny")
    assert has_weights("vllm:org/name@https://h:1")
    assert not has_weights("vllm:factory")


def test_a_learning_policy_asks_for_its_version_and_offers_it_to_a_server_without(policy_of: Any, tmp_path: Path):
    missing = lambda: web.Response(status=404, text="The model does not exist.")  # noqa: E731

    async def scene(server: Server) -> Any:
        policy = policy_of(server)
        policy.adapters = Adapters("policy", tmp_path)
        policy.updated(3)
        server.plan = [missing]
        turns = [await policy.generate([7, 10], 1, "s")]
        policy.updated(4)
        server.plan = [lambda: (policy.updated(5), missing())[1]]  # an update during the turn
        turns.append(await policy.generate([7, 10], 1, "s"))
        return turns, server

    turns, server = play(scene)
    assert [turn.version for turn in turns] == [3, 5]
    assert [body["model"] for body in server.asked] == ["policy-v3", "policy-v3", "policy-v4", "policy-v5"]
    assert server.loaded == [{"lora_name": "policy-v3", "lora_path": str(tmp_path / "policy-v3")}]
    assert len({body["seed"] for body in server.asked}) == 3


def test_waiting_for_a_replica_does_not_count_as_time_of_the_turn(policy_of: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server_policy, "_FIRST_PAUSE_S", 6.0)

    async def scene(server: Server) -> Any:
        server.plan = ["hang up"]
        return await policy_of(server).generate([7, 10], 1, "s", timeout_s=2.5)  # the pause takes at least 3 s

    assert play(scene).ids == [11]
