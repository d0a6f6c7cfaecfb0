"""An environment server with hostile requests, environments with odd answers, and clients of broken servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from agentgym import InfrastructureError, Reason, UsageError
from agentgym.tools.env_server import app as stream
from agentgym.tools.env_server.offer import EnvOffer
from tests.odd_envs import ODD, VALUES, OddEnv
from tests.rows import each_row
from tests.served_envs import HELD, HeldEnv, Served, call, post, served

pytestmark = pytest.mark.real


ODD_VALUES = """null true -1 1.5 NaN 1e999 18446744073709551616 [] {} [1] "" "5" "\\ud800" "\\u0000" {"a":1,"a":2}
{"\\ud800":1} {"a":NaN}""".split()  # noqa: SIM905
ODD_VALUES += ["1" + "0" * 4_400, "[" * 3_000 + "]" * 3_000, "[" * 90_000, "\xff", ""]
ARGUMENTS = ("dialect", "scheme", "split", "max_turns", "max_calls_per_turn", "time_limit_s")
OPTIONS = ("task", "split", "index", "training_step", "other")
CALL = '{"action":{"role":"assistant","tool_calls":[@]}}'
# Each @ is replaced by an odd value.
PLACES = {
    "": ["@", '{"env":@}', *(f'{{"env":"guess","arguments":{{"{name}":@}}}}' for name in ARGUMENTS)],
    "/reset": ["@", '{"seed":@}', '{"number":@}', *(f'{{"options":{{"{name}":@}}}}' for name in OPTIONS)],
    "/step": [
        "@",
        '{"action":@}',
        '{"action":{"role":"assistant","content":@}}',
        CALL,
        CALL.replace("@", '{"id":@,"function":{"name":"add","arguments":@}}'),
    ],
    "/interrupt": ["@", '{"reason":@}'],
}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    HeldEnv.forget()


@pytest.fixture
def server() -> Iterator[Served]:
    with served(HELD, "guess", ODD, request_bytes=200_000) as running_server:
        yield running_server


def strict(text: str) -> Any:
    """Parse JSON like clients in other languages, which refuse NaN."""

    def refuse(name: str) -> Any:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def sent(server: Served, path: str, body: str) -> httpx.Response:
    content = body.encode("utf-8" if body.isascii() else "latin-1")
    return server.client.post(path, content=content, headers={"content-type": "application/json"})


# Requests.


@each_row("path", PLACES)
def test_every_odd_body_is_answered_as_the_clients_mistake(server: Served, path: str):
    described = server.client.get("/openapi.json").json()["paths"]
    declared = described["/sessions" + (path and "/{session}" + path)]["post"]["responses"]
    session = post(server, "/sessions", env=HELD).json()["session"]
    for form in PLACES[path]:
        for value in ODD_VALUES:
            if path in ("/step", "/interrupt"):
                post(server, f"/sessions/{session}/reset")
            answered = sent(server, f"/sessions/{session}{path}" if path else "/sessions", form.replace("@", value))
            content = strict(answered.text)
            assert str(answered.status_code) in declared, (form, value, content)
            if answered.status_code != 200:
                assert answered.status_code in (400, 404, 422), (form, value, content)
                assert "\n" not in content["error"]["message"]
            elif path == "":
                server.client.delete(f"/sessions/{content['session']}")


@each_row("named", ["os:abort", "tests.odd_envs:OddEnv", "template:org/name", "template:/etc", "../up"])
@each_row("argument", ["dialect", "scheme", "split"])
def test_a_client_cannot_name_code_or_files(named: str, argument: str):
    with pytest.raises(UsageError, match=f"sets '{argument}' to something other than plain names"):
        EnvOffer(("guess",)).make("guess", {argument: named})


# Odd answers of environments.


@each_row("odd", VALUES)
def test_details_that_are_not_json_become_notes(server: Served, odd: str):
    session = post(server, "/sessions", env=ODD).json()["session"]
    post(server, f"/sessions/{session}/reset", seed=1)
    over_http = strict(sent(server, f"/sessions/{session}/step", json.dumps({"action": call("end", odd=odd)})).text)
    env = server.env(env=ODD)
    env.reset(seed=1)
    played = env.step(call("end", odd=odd))
    env.close()
    assert (played.reward, played.info["ending"], played.info["fine"]) == (1.0, "solved", 1)
    assert over_http["info"] == played.info
    strict(json.dumps(played.info))


# Broken servers.


def with_result(**changed: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda reply: {**reply, "result": {**reply["result"], **changed}}


def lie(server: Served, change: Callable[[dict[str, Any]], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the server's replies to turns."""
    real = server.sessions.answer

    async def answer(content: Any) -> Any:
        reply = await real(content)
        return change({"id": content["id"], **reply}) if "reward" in reply.get("result", ()) else reply

    monkeypatch.setattr(server.sessions, "answer", answer)
    monkeypatch.setattr(stream, "encoded_reply", lambda reply: json.dumps(reply).encode())


LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no number": with_result(reward=float("nan")),
    "text": with_result(reward="1"),
    "null": with_result(reward=None),
    "an end without a reason": with_result(terminated=True),
    "a reason without an end": with_result(info={"rewards": {}, "ending": "solved"}),
    "an unknown reason": with_result(terminated=True, info={"rewards": {}, "ending": "bored"}),
    "no messages": with_result(observation=["well"]),
    "channels of text": with_result(info={"rewards": {"outcome": "1"}}),
    "nothing in it": lambda reply: {**reply, "result": {}},
    "neither result nor error": lambda reply: {"id": reply["id"]},
    "an error without a kind": lambda reply: {"id": reply["id"], "error": "no"},
    "an error of no request": lambda _: {"id": None, "error": {"kind": "infrastructure", "message": "no"}},
}


@pytest.mark.parametrize("kind", LIES)
def test_a_malformed_reply_is_an_infrastructure_error_and_never_a_reward(
    server: Served, kind: str, monkeypatch: pytest.MonkeyPatch
):
    lie(server, LIES[kind], monkeypatch)
    env = server.env(env=HELD)
    env.reset(seed=1)
    with pytest.raises(InfrastructureError):
        env.step(call("add"))
    assert env.reason is Reason.INFRASTRUCTURE
    env.close()


def test_an_odd_action_plays_as_it_does_here(server: Served):
    action, here, env = call("end", odd="\ud800"), OddEnv(), server.env(env=ODD)
    here.reset(seed=1)
    env.reset(seed=1)
    assert env.step(action) == here.step(action)
    env.close()


@each_row("value", ["deep", "looped"])
def test_an_action_that_json_cannot_represent_is_the_models_mistake(server: Served, value: str):
    env = server.env(env=ODD)
    env.reset(seed=1)
    played = env.step(call("end", odd=VALUES[value]()))
    assert (played.reward, played.terminated, env.reason) == (0.0, False, None)
    env.close()
