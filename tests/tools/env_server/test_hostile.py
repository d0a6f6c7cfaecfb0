"""An environment server with hostile requests, environments with odd answers, and clients of broken servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from gymnasium.error import ResetNeeded

pytest.importorskip("websockets", reason="needs the [serve] extra")
pytest.importorskip("fastapi", reason="needs the [serve] extra")

from agentgym import InfrastructureError, Reason, UsageError
from agentgym.interop.served.wire import PROTOCOL
from agentgym.tools.env_server import app as stream
from agentgym.tools.env_server.offer import EnvOffer
from tests.odd_envs import ODD, VALUES, OddEnv
from tests.served_envs import HELD, HeldEnv, RawStream, Served, call, post, served

pytestmark = pytest.mark.real


ODD_VALUES = """null true false 1 -1 1.0 1.5 NaN -Infinity 1e999 18446744073709551616 [] {} [1] "" "x" "5" "\\ud800"
"\\u0000" {"a":1} {"a":1,"a":2} {"\\ud800":1} {"a":NaN}""".split()  # noqa: SIM905
ODD_VALUES += ["1" + "0" * 4_400, "[" * 3_000 + "]" * 3_000, "[" * 90_000, '{"a":' * 700 + "1" + "}" * 700, "\xff", ""]
ARGUMENTS = ("dialect", "scheme", "split", "max_turns", "max_calls_per_turn", "time_limit_s")
OPTIONS = ("task", "split", "index", "training_step", "other")
CALL = '{"action":{"role":"assistant","tool_calls":[@]}}'
# Each @ is replaced by an odd value.
PLACES = {
    "": [
        "@",
        '{"env":@}',
        '{"arguments":@}',
        *(f'{{"env":"guess","arguments":{{"{argument}":@}}}}' for argument in ARGUMENTS),
    ],
    "/reset": [
        "@",
        '{"seed":@}',
        '{"options":@}',
        '{"number":@}',
        *(f'{{"options":{{"{option}":@}}}}' for option in OPTIONS),
    ],
    "/step": [
        "@",
        '{"action":@}',
        '{"action":"x","number":@}',
        '{"action":{"role":@}}',
        '{"action":{"role":"assistant","content":@}}',
        '{"action":{"role":"assistant","tool_calls":@}}',
        CALL,
        CALL.replace("@", '{"function":@}'),
        CALL.replace("@", '{"id":@,"function":{"name":"add","arguments":@}}'),
    ],
    "/interrupt": ["@", '{"reason":@}', '{"reason":"time","number":@}'],
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


@pytest.mark.parametrize("path", PLACES)
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


@pytest.mark.parametrize(
    "form",
    [
        '{"op":"open","protocol":1,"env":"guess","arguments":{"dialect":%s}}',
        '{"op":"reset","session":"S","seed":%s}',
        '{"op":"reset","session":"S","options":{"index":%s}}',
        '{"op":"reset","session":"S","number":%s}',
        '{"op":"task","session":"S","wanted":{"split":"train","index":%s}}',
        '{"op":"attempt","session":"S","kind":%s,"task":"held/train/0"}',
        '{"id":%s,"op":"nothing","session":"S"}',
    ],
)
def test_every_odd_message_is_answered_as_the_clients_mistake(server: Served, form: str):
    with RawStream(server.port) as stream:
        session = stream.open(env=HELD)
        for value in filter(str.isascii, ODD_VALUES):
            reply = strict(stream.exchange((form % value).replace('"S"', json.dumps(session))))
            assert reply.get("error", {"kind": "usage"})["kind"] in ("usage", "task"), (value, reply)


def test_booleans_and_text_are_refused_as_numbers(server: Served):
    session = post(server, "/sessions", env=HELD).json()["session"]
    for name in ("seed", "number"):
        for value in (True, "1", 1.5):
            assert post(server, f"/sessions/{session}/reset", **{name: value}).status_code == 422
    assert post(server, f"/sessions/{session}/reset", options={"index": True}).status_code == 422
    assert post(server, f"/sessions/{session}/reset", seed=2**64).status_code == 200


def test_lone_surrogates_play_over_http_as_they_do_here(server: Served):
    session = post(server, "/sessions", env=HELD).json()["session"]
    post(server, f"/sessions/{session}/reset", seed=1)
    played = sent(server, f"/sessions/{session}/step", '{"action":"\\ud800"}')
    here = HeldEnv()
    here.reset(seed=1)
    assert played.json()["observation"] == here.step("\ud800").observation


@pytest.mark.parametrize("named", ["os:abort", "tests.odd_envs:OddEnv", "template:org/name", "template:/etc", "../up"])
@pytest.mark.parametrize("argument", ["dialect", "scheme", "split"])
def test_a_client_cannot_name_code_or_files(named: str, argument: str):
    with pytest.raises(UsageError, match=f"sets '{argument}' to something other than plain names"):
        EnvOffer(("guess",)).make("guess", {argument: named})


def test_arguments_that_an_environment_refuses_are_the_clients_mistake(server: Served):
    refused = post(server, "/sessions", env="guess", arguments={"dialect": 5})
    assert (refused.status_code, "not a dialect" in refused.text) == (422, True)


def test_errors_of_unknown_paths_and_methods_have_the_usual_form(server: Served):
    for method, path in (("GET", "/nowhere"), ("PUT", "/sessions"), ("GET", "/sessions/a/reset")):
        response = server.client.request(method, path)
        assert response.status_code in (404, 405)
        assert response.json()["error"]["kind"] == "usage"


def test_every_response_matches_the_openapi_schema(server: Served):
    schemas = server.client.get("/openapi.json").json()
    paths, parts = schemas["paths"], schemas["components"]["schemas"]
    opened = post(server, "/sessions", env=HELD)
    session = opened.json()["session"]
    under = f"/sessions/{session}"
    answers = [
        ("/sessions", opened),
        ("/sessions", post(server, "/sessions", env="nothing")),
        ("/sessions/{session}/step", post(server, f"{under}/step", action="x")),
        ("/sessions/{session}/reset", post(server, f"{under}/reset", options={"task": "no"})),
        ("/sessions/{session}/reset", post(server, f"{under}/reset")),
        ("/sessions/{session}/step", post(server, f"{under}/step", action="x")),
        ("/sessions/{session}/step", post(server, f"{under}/step", action=call("fail"))),
        ("/sessions/{session}/step", post(server, "/sessions/none/step", action="x")),
    ]
    for path, answered in answers:
        content = paths[path]["post"]["responses"][str(answered.status_code)]["content"]["application/json"]
        form = parts[content["schema"]["$ref"].rpartition("/")[2]]
        assert set(form["required"]) <= set(answered.json()) <= set(form["properties"]), (path, answered.text)
    assert {answered.status_code for _, answered in answers} == {200, 404, 409, 410, 422, 502}


# Odd answers of environments.


@pytest.mark.parametrize("odd", VALUES)
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


def test_an_opening_that_is_not_json_is_an_infrastructure_error():
    with served("tests.odd_envs:OddOpening") as server:
        session = post(server, "/sessions").json()["session"]
        response = post(server, f"/sessions/{session}/reset")
        assert (response.status_code, response.json()["error"]["kind"]) == (502, "infrastructure")
        env = server.env()
        with pytest.raises(InfrastructureError, match="as JSON"):
            env.reset()
        env.close()


def test_an_error_without_a_text_is_still_infrastructure(server: Served):
    session = post(server, "/sessions", env=ODD).json()["session"]
    post(server, f"/sessions/{session}/reset", seed=1)
    broke = post(server, f"/sessions/{session}/step", action=call("fail"))
    assert (broke.status_code, broke.json()["error"]["kind"]) == (502, "infrastructure")


def test_long_errors_are_cut(server: Served):
    with RawStream(server.port) as stream:
        message = stream.ask("open", protocol=PROTOCOL, env="x" * 100_000)["error"]["message"]
        assert len(message) < 3_000


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
    "infinite": with_result(reward=float("inf")),
    "text": with_result(reward="1"),
    "true": with_result(reward=True),
    "null": with_result(reward=None),
    "no end": with_result(terminated="no"),
    "an end without a reason": with_result(terminated=True),
    "a reason without an end": with_result(info={"rewards": {}, "ending": "solved"}),
    "an unknown reason": with_result(terminated=True, info={"rewards": {}, "ending": "bored"}),
    "no observation": with_result(observation="well"),
    "no messages": with_result(observation=["well"]),
    "no info": with_result(info=None),
    "channels of text": with_result(info={"rewards": {"outcome": "1"}}),
    "nothing in it": lambda reply: {**reply, "result": {}},
    "a list": lambda reply: {**reply, "result": [1]},
    "neither result nor error": lambda reply: {"id": reply["id"]},
    "an error without a kind": lambda reply: {"id": reply["id"], "error": "no"},
    "late, without the facts": lambda reply: {"id": reply["id"], "error": {"kind": "out_of_time"}},
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
    if kind == "null":
        with pytest.raises(ResetNeeded):
            env.step(call("add"))
    env.close()


def test_a_request_that_was_not_sent_does_not_count(server: Served):
    env = server.env(env=HELD)
    env.reset(seed=1)
    for unfit in ("x" * 300_000, {"role": "assistant", "content": "x" * 300_000}):
        with pytest.raises(UsageError, match="at most"):
            env.step(unfit)
    with pytest.raises(UsageError, match="as JSON"):
        env.reset(options={"task": 10**6_000})
    assert "count 1" in str(env.step(call("add")).observation)
    env.close()


def test_a_lost_request_does_not_affect_the_next_episode():
    with served(HELD) as server:
        env = server.env(reconnect_s=0.1)
        env.reset(seed=1)
        connection, address = env._connection, env._connection._address
        connection._disconnect()
        connection._address = replace(address, url="http://127.0.0.1:9")
        with pytest.raises(InfrastructureError, match="cannot reach"):
            env.step(call("add"))
        connection._address = address
        env.reset(seed=1)
        assert "count 1" in str(env.step(call("add")).observation)
        env.close()


@pytest.mark.parametrize("value", ["nan", "no Unicode"])
def test_an_odd_action_plays_as_it_does_here(server: Served, value: str):
    action, here, env = call("end", odd=VALUES[value]()), OddEnv(), server.env(env=ODD)
    here.reset(seed=1)
    env.reset(seed=1)
    assert env.step(action) == here.step(action)
    env.close()


@pytest.mark.parametrize("value", ["deep", "many digits", "looped"])
def test_an_action_that_json_cannot_represent_is_the_models_mistake(server: Served, value: str):
    env = server.env(env=ODD)
    env.reset(seed=1)
    played = env.step(call("end", odd=VALUES[value]()))
    assert (played.reward, played.terminated, env.reason) == (0.0, False, None)
    assert played.observation
    env.close()
