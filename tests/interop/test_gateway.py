"""The gateway: agents see a chat endpoint, and its records equal those of the rollout engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx

from agentgym import make
from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.messages import calls_of, text_of
from agentgym.core.policy import SilentPolicy
from agentgym.core.trajectory import Trajectory, read_jsonl
from agentgym.interop.episodes import CalledEpisode, RecordedEpisode
from agentgym.interop.served.gateway import Gateway, GatewaySettings
from agentgym.interop.served.gateway.app import make_app
from agentgym.rollout import EnvFactory, RolloutEngine
from agentgym.rollout.jobs import Job
from tests.doc_blocks import ROOT
from tests.interop.peers import run_page
from tests.interop.speaking import Speaker, halving
from tests.rows import each_row
from tests.waiting import HANG_S

TOKEN = "the-owner-of-this-gateway"
SEED = 14
USER = {"role": "user", "content": "Say something."}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def gateway_of(policy: Any, out: Path | None = None, **settings: Any) -> Gateway:
    return Gateway(policy, GatewaySettings(token=TOKEN, out=out, **settings))


class Client:
    """A client of the endpoint, without a socket."""

    def __init__(self, gateway: Gateway, key: str = TOKEN, path: str = ""):
        self.app = make_app(gateway)
        self.key, self.path = key, path

    def post(self, path: str, body: Any, key: str | None = None) -> httpx.Response:
        return asyncio.run(self._post(path, body, key or self.key))

    async def _post(self, path: str, body: Any, key: str) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            return await client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})

    def chat(self, messages: list[Any], **more: Any) -> Any:
        return self.post(f"{self.path}/v1/chat/completions", {"model": "any", "messages": messages, **more})

    def said(self, messages: list[Any], **more: Any) -> dict[str, Any]:
        answer = self.chat(messages, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]["message"]


def agent(client: Client, episode: CalledEpisode, opening: list[Any]) -> list[Any]:
    """A plain agent: run the calls in each answer until an answer has no calls."""
    messages, tools = [*opening], episode.env.tools.schemas
    while True:
        message = client.said(messages, tools=tools)
        messages.append(message)
        if not message.get("tool_calls"):
            return messages
        for call, entry in zip(calls_of(message), message["tool_calls"], strict=True):
            [result] = episode.call(call.name, call.arguments)
            messages.append({"role": "tool", "tool_call_id": entry["id"], "content": text_of(result)})


def played(client: Client) -> Trajectory:
    """Play an episode of `guess` with the agent, and return its environment's record."""
    episode = RecordedEpisode(make("guess", dialect="native"), env_id="agentgym/guess-v0")
    agent(client, episode, episode.begin(seed=SEED))
    episode.end()
    assert episode.trajectory is not None
    return episode.trajectory


def native() -> Trajectory:
    """The same episode, played by the rollout engine."""
    env = make("guess")
    env.reset(seed=SEED)
    with RolloutEngine(EnvFactory("guess", {}), Speaker(halving)) as engine:
        [trajectory] = engine.trajectories([Job(env.task, SEED)])
    return trajectory


def compared(row: Trajectory) -> None:
    """Assert that a row equals the record of the rollout engine for the same episode, token by token."""
    expected = native()
    assert (row.tokens, row.opening) == (expected.tokens, expected.opening)
    assert [(t.action, t.reward, t.rewards, t.span) for t in row.turns] == [
        (t.action, t.reward, t.rewards, t.span) for t in expected.turns
    ]
    assert (row.success, row.reason, row.task_id) == (True, Reason.SOLVED, expected.task_id)
    assert (row.task_hash, row.seed) == (expected.task_hash, SEED)


def test_a_row_equals_the_engines_record_and_late_turns_are_cut_off():
    policy = Speaker(halving)
    gateway = gateway_of(policy)
    session = gateway.session("episode")
    record = played(Client(gateway, session.api_key, "/s/episode"))
    prompt_ids = policy.asked["episode/0"]
    [row] = session.end(record)
    compared(row)
    assert row.env_kwargs == {"dialect": "hermes"}  # for replaying its texts
    assert row.tokens is not None
    assert "Found it." in policy.codec.decode(prompt_ids)
    assert "Found it." not in policy.codec.decode(row.tokens.completion_ids)
    assert row.tokens.completion_ids == prompt_ids[len(row.tokens.prompt_ids) :][: len(row.tokens.completion_ids)]
    assert len(row.turns) == len(record.turns)


def test_each_row_of_an_agent_that_drops_its_history_has_the_episodes_reward():
    gateway = gateway_of(Speaker(halving))
    session = gateway.session("episode")
    client = Client(gateway, session.api_key, "/s/episode")
    client.said([{"role": "user", "content": "Make a plan."}])
    record = played(client)
    plan, work = session.end(record)
    assert (plan.reward, work.reward) == (record.reward, record.reward)
    assert [turn.reward for turn in work.turns] == [turn.reward for turn in record.turns]
    assert (plan.success, work.success, work.tags) == (True, True, ("row 2 of 2",))


def test_rewritten_history_and_other_tools_begin_another_row(out: Path):
    gateway = gateway_of(Speaker(lambda _: "Yes."), out)
    client = Client(gateway, path="/s/one")
    client.said([USER])
    client.said([USER, {"role": "assistant", "content": "Yes."}, USER])
    client.said([{"role": "user", "content": "In short: yes was said."}])
    client.said([USER, {"role": "assistant", "content": "No."}, USER])
    client.said([USER, {"role": "assistant", "content": "Yes."}, USER], tools=[LOOK])
    answer = client.post("/s/one/reward", {"reward": 1.0})
    assert [len(row["turns"]) for row in answer.json()["trajectories"]] == [2, 1, 1, 1]
    rows = [*read_jsonl(out)]
    assert [(row.id, row.tags, row.reward, row.success) for row in rows] == [
        (f"one/{number}", (f"row {number} of 4",), 1.0, True) for number in (1, 2, 3, 4)
    ]
    assert (text_of(rows[2].opening[1]), '"name": "look"' in text_of(rows[3].opening[0])) == ("No.", True)


def test_sessions_are_selected_by_path_or_key():
    gateway = gateway_of(Speaker(lambda conversation: conversation.rsplit("Say ")[-1]))
    for path, key in (("/s/a", TOKEN), ("", gateway.key_of("b")), ("", TOKEN)):
        assert Client(gateway, key, path).said([USER])["content"] == "something."
    names = ("a", "b", "default")
    assert [[row.id for row in gateway.find(name).reward(1.0)] for name in names] == [[name] for name in names]


def test_an_agents_key_is_valid_only_for_calls_in_its_session():
    gateway = gateway_of(Speaker(lambda _: "Yes."))
    mine, other = gateway.session("mine"), gateway.session("other")
    assert Client(gateway, mine.api_key, "/s/mine").chat([USER]).status_code == 200
    assert Client(gateway, mine.api_key).chat([USER]).status_code == 200
    digest = mine.api_key.removeprefix("mine:")
    refused = [
        Client(gateway, mine.api_key, f"/s/{other.name}").chat([USER]),
        Client(gateway, f"other:{digest}").chat([USER]),
        Client(gateway, f"{TOKEN}:mine").chat([USER]),
        Client(gateway, "", "/s/mine").chat([USER]),
        Client(gateway, mine.api_key).post("/s/mine/reward", {"reward": 1.0}),
        Client(gateway, mine.api_key).post("/s/new", {}),
    ]
    assert [answer.status_code for answer in refused] == [401] * 6
    assert refused[0].json()["error"]["code"] == "invalid_api_key"
    assert TOKEN not in mine.api_key
    gateway.close()
    assert Client(gateway, mine.api_key).chat([USER]).status_code == 404, "an ended session is not opened again"


@each_row("again", [True, False])
def test_a_failing_policy_fails_the_episode_unless_the_agent_retries(again: bool):
    answers = iter(["Yes.", OSError("no power"), "Yes."])

    def say(_: str) -> str:
        if isinstance(answer := next(answers), OSError):
            raise answer
        return answer

    gateway = gateway_of(Speaker(say))
    client = Client(gateway, path="/s/one")
    more = [USER, client.said([USER]), USER]
    answer = client.chat(more)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "infrastructure")
    if again:
        client.said(more)
    rows = gateway.find("one").reward(1.0)
    expected = [] if again else [(True, "policy", 0.0)]
    assert [(row.failed, row.component, row.reward) for row in rows if row.failed] == expected


def test_an_ended_session_does_not_change_and_is_written_once(out: Path):
    gateway = gateway_of(Speaker(lambda _: "Yes."), out)
    session = gateway.session("one")
    Client(gateway, path="/s/one").said([USER])
    [row] = session.reward(1.0, channels={"outcome": 1.0, "style": 0.5}, reason=Reason.SOLVED)
    assert (row.channels, row.reason) == ([{"outcome": 1.0, "style": 0.5}], Reason.SOLVED)
    assert Client(gateway, path="/s/one").chat([USER]).status_code == 409
    with pytest.raises(UsageError, match="has already ended"):
        session.reward(1.0)
    assert session.fail("too late") == [row]
    assert gateway.close_session(session) == gateway.close_session(session) == [row]
    gateway.session("one")
    gateway.close_session(session)
    assert not gateway.find("one").is_over, "it is another session of the same name"
    unpaid = gateway.session("left")
    Client(gateway, path="/s/left").said([USER])
    unpaid.reward(0.5)
    gateway.close()
    assert [(row.id, row.reward, row.failed) for row in read_jsonl(out)] == [
        ("one", 1.0, False), ("one", 0.0, True), ("left", 0.5, False)
    ]  # fmt: skip


def test_sessions_and_policies_that_cannot_be_served_are_refused():
    gateway = gateway_of(Speaker(lambda _: "Yes."), sessions=1, idle_s=1000.0)
    first = gateway.session("a")
    with pytest.raises(InfrastructureError, match="all 1 sessions"):
        gateway.session("b")
    first.used_at -= 2000
    gateway.session("b")
    with pytest.raises(UsageError, match="session 'b'"):
        gateway.session("b")
    with pytest.raises(UsageError, match="name"):
        gateway.session("../etc")
    with pytest.raises(UsageError, match="records tokens"):
        Gateway(SilentPolicy())


def test_owners_open_and_reward_sessions_over_http():
    gateway = gateway_of(Speaker(halving))
    owner = Client(gateway)
    opened = owner.post("/s/seven", {"env_id": "guess", "task_id": "guess/train/7", "seed": 3}).json()
    record = played(Client(gateway, opened["api_key"], "/s/seven"))
    [row] = owner.post("/s/seven/reward", {"record": record.to_dict()}).json()["trajectories"]
    assert Trajectory.from_dict(row).reward == record.reward
    Client(gateway, path="/s/eight").said([USER])
    assert owner.post("/s/eight/reward", {"error": "the disk is full"}).json()["trajectories"][0]["error"]
    assert owner.post("/s/nine/reward", {"reward": 1}).status_code == 404
    assert owner.post("/s/ten", {"colour": "red"}).status_code == 422


def test_each_token_has_the_version_of_its_weights():
    policy = Speaker(lambda _: "Yes.")
    gateway = gateway_of(policy)
    client = Client(gateway, path="/s/one")
    messages = [USER, client.said([USER]), USER]
    gateway.updated(3)
    client.said(messages)
    [row] = gateway.find("one").reward(1.0)
    assert row.tokens is not None
    assert sorted(set(row.tokens.versions)) == [-1, 0, 3]
    assert policy.released == ["one/0"]


@pytest.mark.real
def test_the_command_serves_a_policy_and_writes_rewarded_sessions(tmp_path: Path, out: Path):
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    command = [sys.executable, "-m", "agentgym", "gateway", "--policy", "tests.interop.speaking:make_halving"]
    command += ["--token-file", str(tmp_path / "token"), "--out", str(out)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        policy, address = process.stdout.readline(), process.stdout.readline().removeprefix("Listening on ").strip()
        assert policy == "Policy: speaker, dialect hermes\n"
        url, headers = address.removesuffix("/v1"), {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
            for name in ("paid", "left"):
                client.post(f"/s/{name}/v1/chat/completions", json={"messages": [USER]}).raise_for_status()
            client.post("/s/paid/reward", json={"reward": 1.0}).raise_for_status()
    finally:
        process.terminate()
        process.wait(HANG_S)
        process.stdout.close()
    assert [(row.id, row.reward, row.failed) for row in read_jsonl(out)] == [("paid", 1.0, False), ("left", 0.0, True)]


def test_the_example_of_the_documentation():
    run_page("gateway.md", policy=Speaker(lambda _: "Paris."))
