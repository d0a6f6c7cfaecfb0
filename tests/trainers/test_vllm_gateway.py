"""The gateway in front of vLLM itself, in this process and behind its server: it records what vLLM sampled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")
pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx

from agentgym.interop.gateway import Gateway, GatewaySettings, serving
from agentgym.rollout.limits import Limits
from agentgym.trajectory import Tokens
from tests.serving_cases import raw, until
from tests.trainers.test_vllm_real import folder as folder
from tests.trainers.test_vllm_real import model_logprobs, policy_at
from tests.vllm_servers import served

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore"),  # what libraries want to tell vLLM
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not in this environment (see .ci/vllm)"),
]

TEMPERATURE = 0.7
TURNS = 3
LIMITS = Limits(max_new_tokens=12)


class Watched:
    """An engine that notes what it has sampled."""

    def __init__(self, engine: Any):
        self._engine = engine
        self.said: list[tuple[list[int], list[int], list[float]]] = []
        """The prompt of each turn, its tokens and their log-probabilities."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self) -> list[Any]:
        outputs = self._engine.step()
        for output in outputs:
            if output.finished:
                [said] = output.outputs
                ids = list(said.token_ids)
                logprobs = [chances[token].logprob for token, chances in zip(ids, said.logprobs, strict=True)]
                self.said.append((list(output.prompt_token_ids), ids, logprobs))
        return outputs


@pytest.fixture(scope="module")
def warm(folder: Path) -> Any:
    """A policy with an engine in this process."""
    return policy_at(f"vllm:{folder}", TEMPERATURE)


@contextmanager
def talking(policy: Any, limits: Limits = LIMITS) -> Iterator[tuple[Any, httpx.Client]]:
    """A session of a gateway, and a program that talks to it."""
    gateway = Gateway(policy, GatewaySettings(limits=limits))
    with serving(gateway):
        session = gateway.session("one")
        headers = {"Authorization": f"Bearer {session.api_key}"}
        with httpx.Client(base_url=session.base_url, headers=headers, trust_env=False, timeout=60) as client:
            yield session, client


def conversation(policy: Any) -> Tokens:
    """Talk through both APIs in turn; the tokens of the one row."""
    with talking(policy) as (session, client):
        messages: list[Any] = []
        for turn in range(TURNS):
            messages.append({"role": "user", "content": f"Turn {turn}."})
            path, given = ("/responses", "input") if turn % 2 else ("/chat/completions", "messages")
            answer = client.post(path, json={given: messages, "temperature": 0.1})
            assert answer.status_code == 200, answer.text
            body = answer.json()
            said = body["output"][0]["content"][0]["text"] if turn % 2 else body["choices"][0]["message"]["content"]
            messages.append({"role": "assistant", "content": said})
        [row] = session.reward(1.0)
    assert (len(row.turns), row.failed) == (TURNS, False)
    assert row.tokens is not None
    return row.tokens


def turns_of(tokens: Tokens) -> list[tuple[list[int], list[int], list[float]]]:
    """The history before each turn, its tokens and their log-probabilities."""
    history, ids = tokens.prompt_ids, tokens.completion_ids
    mask = [0, *tokens.loss_mask, 0]
    starts = [at for at in range(len(tokens.loss_mask)) if mask[at : at + 2] == [0, 1]]
    ends = [at + 1 for at in range(len(tokens.loss_mask)) if mask[at + 1 : at + 3] == [1, 0]]
    return [
        (history + ids[:start], ids[start:end], tokens.logprobs[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]


def test_what_is_recorded_is_what_the_engine_sampled(folder: Path, warm: Any):
    engine = Watched(warm._engine)
    warm.use(engine)
    tokens = conversation(warm)
    warm.use(engine._engine)
    assert turns_of(tokens) == engine.said
    for history, said, logprobs in engine.said:
        assert logprobs == pytest.approx(model_logprobs(folder, history, said, TEMPERATURE).tolist(), abs=1e-4)


def test_a_client_that_leaves_frees_its_place_in_the_engine(warm: Any):
    with talking(warm, Limits(max_new_tokens=200)) as (session, client):
        body = b'{"messages": [{"role": "user", "content": "Hello."}]}'
        head = f"POST /s/one/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        assert client.base_url.port is not None
        with raw(client.base_url.port, f"{head}Authorization: Bearer {session.api_key}\r\n\r\n".encode() + body):
            until(lambda: warm._running)
        until(lambda: not warm._running and not warm._engine.has_unfinished_requests())
        assert not session.has_calls


def test_a_server_of_vllm_says_and_scores_the_same(folder: Path, tmp_path: Path):
    with served(folder, tmp_path / "log") as url:
        behind = turns_of(conversation(policy_at(f"vllm:{folder}@{url}", TEMPERATURE)))
        cold = turns_of(conversation(policy_at(f"vllm:{folder}@{url}", 0.0)))
    for history, said, logprobs in behind:
        assert logprobs == pytest.approx(model_logprobs(folder, history, said, TEMPERATURE).tolist(), abs=1e-4)
    plain = turns_of(conversation(policy_at(str(folder), 0.0)))
    assert [(history, said) for history, said, _ in cold] == [(history, said) for history, said, _ in plain]
