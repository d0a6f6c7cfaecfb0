"""Our environments in NeMo Gym: its own `gymnasium_agent` plays them on a server of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.messages import ToolCall
from tests.interop.guarantees import Guarantee, Moves, Seen, hold, said_next
from tests.interop.peers import needs, run_page, together
from tests.interop.probe_env import PROBE
from tests.rows import each_row

pytestmark = [pytest.mark.peers, *needs("nemo_gym")]

Say = Callable[[list[Any]], ToolCall | None]


class Answer:
    """An answer of a server, as NeMo Gym's client gives it."""

    def __init__(self, status: int, body: bytes, cookies: Any):
        self.status, self._body, self.cookies = status, body, cookies
        self.ok = status < 400
        self.content = self

    async def read(self) -> bytes:
        return self._body

    async def json(self) -> Any:
        return json.loads(self._body)

    def raise_for_status(self) -> None:
        assert self.ok, self._body


class Client:
    """Stands in for NeMo Gym's client of servers: the environment's is real, the model's is a script."""

    def __init__(self, app: Any, say: Say, cut_off: Collection[int] = ()):
        import httpx

        self._env = httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://env"
        )
        self._say, self._cut_off = say, cut_off
        self.steps: list[dict[str, Any]] = []
        self.asked: list[Any] = []

    async def post(self, server_name: str, url_path: str, json: Any = None, cookies: Any = None) -> Answer:
        data = json.model_dump(mode="json") if hasattr(json, "model_dump") else json
        if server_name == "model":
            self.asked = data["input"]
            move = self._say(as_chat(data["input"]))
            return Answer(200, _response(move, len(self.asked), len(self.steps) in self._cut_off), {})
        self._env.cookies = _cookies(cookies)
        got = await self._env.post(url_path, json=data)
        if url_path == "/step" and got.status_code == 200:
            self.steps.append(got.json())
        return Answer(got.status_code, got.content, dict(got.cookies) or dict(cookies or {}))


def _cookies(cookies: Any) -> Any:
    import httpx

    return httpx.Cookies(dict(cookies or {}))


def _response(move: ToolCall | None, number: int, is_cut_off: bool) -> bytes:
    text = {"type": "output_text", "text": "I am done.", "annotations": []}
    item: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    if move is not None:
        arguments = json.dumps(dict(move.arguments))
        item = {"type": "function_call", "call_id": f"call_{number}", "name": move.name, "arguments": arguments}
    response = {"id": "r", "created_at": 0.0, "model": "m", "object": "response", "output": [item], "tools": []}
    if is_cut_off:
        response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return json.dumps({**response, "parallel_tool_calls": True, "tool_choice": "auto"}).encode()


def as_chat(items: list[Any]) -> list[Any]:
    """A conversation of the Responses API as chat messages."""
    messages = []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            messages.append({"role": "assistant", "content": ""})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "content": item["output"]})
        else:
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
            messages.append({"role": item["role"], "content": text})
    return messages


class FakeRequest:
    cookies: dict[str, str] = {}


def server_of(env: str, **arguments: Any) -> Any:
    from agentgym.interop.trainers.nemo import EnvServer, EnvServerConfig

    base = {"host": "", "port": 0, "entrypoint": "app.py", "name": "env", "domain": "other"}
    config = EnvServerConfig(**base, env=env, arguments=arguments)
    return EnvServer.model_construct(config=config, server_client=None, session_state={})


async def run(
    server: Any, row: dict[str, Any], say: Say, max_steps: int = 10, cut_off: Collection[int] = ()
) -> tuple[Any, Client]:
    from responses_api_agents.gymnasium_agent.app import (  # type: ignore[import-not-found]
        GymnasiumAgent,
        GymnasiumAgentConfig,
        GymnasiumAgentRunRequest,
    )

    client = Client(server.setup_webserver(), say, cut_off)
    refs = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "model"},
    }
    config = GymnasiumAgentConfig(host="", port=0, entrypoint="app.py", name="agent", max_steps=max_steps, **refs)
    agent = GymnasiumAgent.model_construct(config=config, server_client=client)
    return await agent.run(FakeRequest(), GymnasiumAgentRunRequest(**row)), client


def rows_of(env: str, count: int = 1, **options: Any) -> list[dict[str, Any]]:
    from agentgym.interop.trainers.nemo import rows

    return json.loads(json.dumps(rows(env, "agent", count=count, **options)))


class Driver:
    """Plays in NeMo Gym's own agent."""

    adapter, package = "nemo", "nemo-gym"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        async def one(index: int) -> Seen:
            row = {"responses_create_params": {"input": []}, "task_id": f"probe/train/{index}", "seed": seed + index}
            try:
                row = rows_of(PROBE, 1, start=index, seed=seed)[0]
                outcome, client = await run(server, row, lambda messages: said_next(messages, episodes, seed))
            except Exception as error:
                return Seen(error=type(error).__name__)
            texts = [message["content"] for message in as_chat(client.asked)]
            texts += [text for step in client.steps for text in _texts(step)]
            rewards = [step["reward"] for step in client.steps]
            return Seen(texts, [], rewards, outcome.reward, outcome.info["ending"])

        server = server_of(PROBE)
        return together(one, len(episodes), attempts)


def _texts(step: Any) -> list[str]:
    return [output["output"] for output in step["info"]["tool_outputs"]][-1:] if step["terminated"] else []


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)


def test_a_turn_that_was_cut_off_is_not_run():
    moves = iter([ToolCall("pay", {"amount": 0.25}), ToolCall("finish_as", {"what": "solved"})])
    outcome, client = asyncio.run(run(server_of(PROBE), rows_of(PROBE)[0], lambda _: next(moves), cut_off=[0]))
    assert [step["reward"] for step in client.steps] == [0.0, 1.0]
    assert outcome.info["ending"] == "solved"


def test_the_page_s_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run_page("nemo.md")
