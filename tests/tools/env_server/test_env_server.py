"""An environment server over a WebSocket and plain HTTP: tokens, limits, errors, and the command."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from websockets.exceptions import ConnectionClosed, InvalidStatus

from agentgym import UsageError
from agentgym.cli.app import app
from agentgym.core.task import KEYED
from agentgym.interop.served.wire import PROTOCOL
from agentgym.tools.env_server.offer import EnvServing
from tests.rows import each_row
from tests.served_envs import CANARY, HELD, TOKEN, HeldEnv, RawStream, Served, call, post, served, served_process
from tests.serving_cases import HANG_S
from tests.waiting import eventually

pytestmark = pytest.mark.real


ADD = call("add")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    HeldEnv.forget()


@pytest.fixture
def server() -> Iterator[Served]:
    with served(HELD, request_bytes=20_000) as running_server:
        yield running_server


def opened(server: Served) -> str:
    return post(server, "/sessions").json()["session"]


# Tokens.


def test_every_path_needs_the_token(server: Served):
    server.client.headers.pop("Authorization", None)
    for path in ("/", "/metrics", "/openapi.json", "/docs", "/nowhere"):
        for headers in ({}, {"Authorization": TOKEN}, {"Authorization": f"Bearer {TOKEN[:-1]}"}):
            refused = server.client.get(path, headers=headers)
            assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")


def test_a_websocket_needs_the_token(server: Served):
    for token in (None, TOKEN[:-1], TOKEN + "x"):
        with pytest.raises(InvalidStatus) as refused:
            RawStream(server.port, token)
        assert refused.value.response.status_code == 403


def test_a_short_token_is_refused():
    with pytest.raises(UsageError, match="at least 16 characters"):
        EnvServing("short")


def test_session_names_are_unguessable(server: Served):
    names = [opened(server) for _ in range(3)]
    assert len(set(names)) == 3
    assert all(len(name) >= 20 for name in names)
    refused = post(server, f"/sessions/{names[0][:-1]}/reset")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (410, "gone")


# Plain HTTP.


def test_an_episode_over_plain_http_equals_one_over_the_websocket(server: Served):
    session = opened(server)
    reset = post(server, f"/sessions/{session}/reset", seed=3)
    with RawStream(server.port) as stream:
        other = stream.open()
        assert stream.ask("reset", session=other, seed=3)["result"] == reset.json()
        played = post(server, f"/sessions/{session}/step", action=ADD)
        assert stream.ask("step", session=other, action=ADD)["result"] == played.json()
        assert "count 1" in str(played.json()["observation"])
        ended = post(server, f"/sessions/{session}/interrupt", reason="time").json()
        assert stream.ask("interrupt", session=other, reason="time")["result"] == ended
        assert ended["truncated"]
    assert server.client.delete(f"/sessions/{session}").status_code == 200
    assert eventually(lambda: HeldEnv.closed >= 1)


@each_row(
    "path, body, status, kind",
    [
        ("reset", {"seed": -1}, 422, "usage"),
        ("reset", {"options": {"task": "held/train/9"}}, 404, "task"),
        ("step", {"action": "x"}, 409, "reset_needed"),
        ("interrupt", {"reason": "boredom"}, 422, "usage"),
        ("step", {"action": "x", "number": 5}, 422, "usage"),
    ],
)
def test_http_errors_have_a_status_and_a_kind(server: Served, path: str, body: Any, status: int, kind: str):
    refused = post(server, f"/sessions/{opened(server)}/{path}", **body)
    assert (refused.status_code, refused.json()["error"]["kind"]) == (status, kind)
    assert "\n" not in refused.json()["error"]["message"]


def test_a_failure_around_the_model_is_an_http_error(server: Served):
    session = opened(server)
    post(server, f"/sessions/{session}/reset", seed=1)
    broken = post(server, f"/sessions/{session}/step", action=call("fail"))
    assert broken.status_code == 502
    assert broken.json() == {"error": {"kind": "infrastructure", "message": "the disk is full"}}


def test_a_repeated_http_request_is_not_played_twice(server: Served):
    session = opened(server)
    post(server, f"/sessions/{session}/reset", seed=1, number=1)
    first = post(server, f"/sessions/{session}/step", action=ADD, number=2)
    assert post(server, f"/sessions/{session}/step", action=ADD, number=2).json() == first.json()
    assert "count 2" in str(post(server, f"/sessions/{session}/step", action=ADD, number=3).json())


def test_an_http_request_beyond_the_time_limit_is_answered_with_504():
    with served(HELD, request_s=0.3) as server:
        session = opened(server)
        post(server, f"/sessions/{session}/reset", seed=1)
        late = post(server, f"/sessions/{session}/step", action=call("wait"))
        assert (late.status_code, late.json()["error"]["kind"]) == (504, "out_of_time")
        assert late.json()["error"]["facts"]["reason"] == "step_time"


def test_metrics_count_sessions_requests_and_seconds(server: Served):
    session = opened(server)
    post(server, f"/sessions/{session}/reset", seed=1)
    for _ in range(3):
        post(server, f"/sessions/{session}/step", action=ADD)
    post(server, f"/sessions/{session}/step", action=call("fail"))
    assert server.metric("agentgym_sessions") == 1
    assert server.metric('agentgym_requests_total{op="step",outcome="ok"}') == 3
    assert server.metric('agentgym_requests_total{op="step",outcome="infrastructure"}') == 1
    assert server.metric('agentgym_request_seconds_total{op="step"}') > 0


# Malformed and oversized requests.


@each_row("sent", ["", "[]", "[" * 5_000, "\x00", '{"op": 1}', '{"op": "__class__"}'])
def test_a_malformed_message_is_refused_without_side_effects(server: Served, sent: str):
    with RawStream(server.port) as stream, RawStream(server.port) as other:
        session = other.open()
        stream.socket.send(sent)
        assert stream.reply()["error"]["kind"] in ("usage", "gone")
        assert "session" in stream.ask("open", protocol=PROTOCOL)["result"]  # the connection stays usable
        assert other.ask("reset", session=session, seed=1)["result"]["task"]["id"] == "held/train/0"


def test_a_message_that_is_too_large_closes_only_its_connection(server: Served):
    with RawStream(server.port) as greedy, RawStream(server.port) as other:
        session = other.open()
        with pytest.raises(ConnectionClosed) as closed:
            greedy.exchange("x" * 50_000)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009
        assert "result" in other.ask("reset", session=session, seed=1)


def test_another_version_of_the_protocol_is_refused(server: Served):
    with RawStream(server.port) as stream:
        error = stream.ask("open", protocol=PROTOCOL + 1)["error"]
        assert (error["kind"], "update agentgym" in error["message"]) == ("usage", True)


# Permissions of clients.


def test_only_offered_environments_are_made():
    with served(HELD, "guess") as server:
        for name in ("sql", "agentgym/guess-v0", "os:system", "", None):
            refused = post(server, "/sessions", env=name)
            assert (refused.status_code, refused.json()["error"]["kind"]) == (422, "usage"), name
        assert post(server, "/sessions", env="guess").status_code == 200


def test_clients_cannot_change_the_servers_settings():
    with served("guess", settings={"max_turns": 3}) as server:
        for argument in ("tasks", "__class__", "render_mode"):
            assert post(server, "/sessions", arguments={argument: "x"}).status_code == 422
        refused = post(server, "/sessions", arguments={"max_turns": 99})
        assert "clients cannot set 'max_turns'" in refused.json()["error"]["message"]
        described = post(server, "/sessions", arguments={"dialect": "tags"}).json()["description"]
        assert (described["max_turns"], described["dialect"]) == (3, "tags")
        assert post(server, "/sessions", arguments={"dialect": "no such"}).status_code == 422


def test_gold_never_leaves_a_server_without_reveal(server: Served):
    with RawStream(server.port) as stream:
        session = stream.open()
        task = "held/train/0"
        stream.ask("task", session=session, wanted={"split": "train", "index": 0})
        stream.ask("task", session=session, wanted={"task": task})
        for op in ("attempt", "failing_exists"):
            assert "--reveal" in stream.ask(op, session=session, task=task, kind="solution")["error"]["message"]
        assert "error" in stream.ask("move", session=session)
        stream.ask("reset", session=session, seed=1)
        stream.ask("reset", session=session, options={"task": {"id": task}})
        for action in (ADD, call("fail"), "text", call("done")):
            stream.ask("step", session=session, action=action)
        stream.ask("close", session=session)
        assert not [reply for reply in stream.replies if CANARY in reply]


def test_the_hash_of_a_task_tells_no_gold_and_no_guess_is_confirmed(server: Served):
    own_hash = HeldEnv().tasks.get("train", 0).hash
    with RawStream(server.port) as stream:
        session = stream.open()
        served_hash = stream.ask("task", session=session, wanted={"task": "held/train/0"})["result"]["task"]["hash"]
        assert served_hash.startswith(KEYED)
        assert own_hash not in served_hash
        rows = [(served_hash, False), (own_hash, False), ("0" * 64, False), (f"{KEYED}{'0' * 64}", True)]
        for sent_hash, is_refused in rows:
            options = {"task": {"id": "held/train/0", "hash": sent_hash}}
            assert ("error" in stream.ask("reset", session=session, options=options)) is is_refused, sent_hash


# The command.


def test_a_stopping_server_closes_its_environments(tmp_path: Path):
    (tmp_path / "leaving.py").write_text(
        "from pathlib import Path\nfrom tests.served_envs import HeldEnv\n"
        "class Leaving(HeldEnv):\n"
        "    def release(self):\n"
        f"        (Path({str(tmp_path)!r}) / f'closed-{{id(self)}}').touch()\n",
        encoding="utf-8",
    )
    paths = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    program = f"{paths}; from agentgym.cli.app import main; main()"
    with served_process("leaving:Leaving", program=program) as (url, process):
        before = len(list(tmp_path.glob("closed-*")))
        port = int(url.rpartition(":")[2])
        with RawStream(port) as stream, RawStream(port) as idle:
            session = stream.open()
            idle.open()
            stream.ask("reset", session=session, seed=1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG_S) == 0
    assert len(list(tmp_path.glob("closed-*"))) == before + 2


@each_row("words", [["nowhere"], ["guess", "--set", "no=1"], ["guess", "--stdio"]])
def test_environments_that_cannot_be_made_are_not_served(words: list[str]):
    assert CliRunner().invoke(app, ["serve", "env", *words]).exit_code != 0
