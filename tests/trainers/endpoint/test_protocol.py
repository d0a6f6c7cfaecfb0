"""Conversations as strict chat servers accept them, whatever the model does: in every environment and turn."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentgym import Env, GeneratedTasks, Reason, Task, tool
from agentgym.core.messages import Message, Pictured, ToolCall, text_of, user
from agentgym.core.policy import Script, Seat
from agentgym.core.registry import make
from agentgym.core.replay import replay
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Job
from agentgym.rollout.streams import play_jobs

pytest.importorskip("aiohttp", reason="needs the [endpoint] extra")

from tests.endpoints import Fake, Said, call, calling, completion, guessing, policy_at
from tests.rows import each_row

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")


class Albums(Env):
    """Shows a picture of each page, and takes several calls in a turn."""

    max_calls_per_turn = 3

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("album", lambda split, index: Task(f"album/{split}/{index}", split, "?"), {"train": 1})

    def start(self, task: Task) -> Pictured:
        return Pictured("What is in the album?", (PNG,))

    def aside(self, text: str) -> str:
        return f"You said {text!r}."

    @tool
    def page(self, number: int) -> Pictured:
        """Show a page.

        Args:
            number: Which.
        """
        return Pictured(f"Page {number}.", (PNG,))

    @tool
    def close_album(self) -> str:
        """Stop looking."""
        self.finish(Reason.ANSWERED)
        return "closed"


def play(
    env: Env, responses: list[Said], *, turns: int | None = None, strict: bool = True, **settings: Any
) -> tuple[Fake, list[list[Message]]]:
    """Let a model that says this play; return the server and all observations."""
    fake = Fake(lambda request, number: responses[number], strict=strict)
    observations: list[list[Message]] = []

    async def episode(url: str) -> None:
        policy = policy_at(url, retries=0, **settings)
        observation, _ = await env.areset(seed=0)
        player = policy.player(Seat.at(env, 0))
        for _ in responses[:turns]:
            observations.append(observation)
            action = await player.act(observation)
            assert action is not None
            observation = (await env.astep(action)).observation
        observations.append(observation)

    with fake.serving() as url:
        asyncio.run(episode(url))
    return fake, observations


def stumbles(move: ToolCall | str, number: int) -> Iterator[Said]:
    """Yield mistakes before a move, and then the move. All ids are the same."""
    if not isinstance(move, ToolCall):
        yield completion(move)
        return
    right = call(move.name, dict(move.arguments))
    if number % 2:
        yield completion("Let me think.")
        yield calling(call("no such tool!", "[1]"), right | {"id": ""})
    else:
        yield calling(call(move.name, '{"broken": '), content="I try.")
    yield calling(right)


@pytest.mark.real
@each_row(
    "env_id, dialect",
    [("guess", "hermes"), ("errand", "native"), ("sql", "native"), ("code", "fenced"), ("search", "native")],
)
def test_a_strict_server_accepts_every_turn_of_a_stumbling_solution(env_id: str, dialect: str):
    queue: list[Said] = []
    fake = Fake(lambda request, number: queue.pop(0), strict=True)

    async def episode(url: str, env: Env) -> None:
        observation, _ = await env.areset(seed=3)
        player = policy_at(url, retries=0).player(Seat.at(env, 0))
        script, number = Script(env.solution(env.task)), 0
        while env.reason is None and (move := script.next_move(observation)) is not None:
            queue.extend(stumbles(move, number) if dialect == "native" else [completion(written(env, move))])
            number += 1
            while queue and env.reason is None:
                action = await player.act(observation)
                assert action is not None
                observation = (await env.astep(action)).observation
        # One more request shows the server how the episode ended.
        queue[:] = [completion("Bye.")]
        await player.act(observation or [user("Is that all?")])

    with fake.serving() as url:
        env = make(env_id, dialect=dialect, max_turns=60)
        try:
            asyncio.run(episode(url, env))
        finally:
            env.close()
    assert env.reason is Reason.SOLVED
    assert ("tools" in fake.requests[0]) == (dialect == "native")


def written(env: Env, move: ToolCall | str) -> str:
    return env.dialect.render("Hm.", [move], env.tools) if isinstance(move, ToolCall) else move


def test_calls_of_a_refused_turn_and_after_the_end_of_the_episode_are_answered():
    two = calling(call("guess", {"number": 1}, "a"), call("guess", {"number": 2}, "b"))
    _, [_, answers, _] = play(make("guess", dialect="native"), [two, calling(call("guess", {"number": 1}, "c"))])
    assert [message.get("tool_call_id") for message in answers] == ["a", "b"]
    assert all("None of them ran" in text_of(message) for message in answers)
    last = calling(call("close_album", {}, "a"), call("page", {"number": 1}, "b"), call("page", {"number": 2}, "c"))
    _, [_, answers] = play(Albums(dialect="native"), [last])
    assert [message.get("tool_call_id") for message in answers] == ["a", "b", "c"]
    assert ["has ended" in text_of(message) for message in answers] == [False, True, True]


def test_ids_that_the_server_repeats_or_leaves_out_become_unique():
    responses = [calling(call("guess", {"number": 1}, id)) for id in ("same", "same", "", None, "call_3")]
    fake, _ = play(make("guess", dialect="native"), [*responses, completion("?")])
    ids = [entry["id"] for message in fake.requests[-1]["messages"] for entry in message.get("tool_calls", ())]
    assert len(set(ids)) == len(ids) == 5
    assert ids[0] == "same"


def episode(answer: Callable[[dict[str, Any], int], Said]) -> Trajectory:
    """Play a task of `guess` at a strict server."""
    with Fake(answer, strict=True).serving() as url:
        jobs = [Job(make("guess").tasks.get("test", 0), 0)]
        [trajectory] = asyncio.run(
            play_jobs(jobs, policy_at(url), EnvFactory("agentgym/guess-v0", {"dialect": "native"}))
        )
    return trajectory


def test_a_wrong_call_is_explained_to_the_model_and_recorded_as_it_was():
    responses = [
        calling(call("guess", '{"number": }')),
        calling(call("gess", {"number": 1})),
        calling(call("guess", "[3]")),
    ]
    trajectory = episode(lambda request, number: responses[number] if number < 3 else guessing_later(request))
    first: Any = trajectory.turns[0].action
    assert first["tool_calls"][0]["function"]["arguments"] == '{"number": }'
    errors = [text_of(turn.observation[0]) for turn in trajectory.turns[:3]]
    assert "not valid JSON" in errors[0]
    assert "Did you mean 'guess'" in errors[1]
    assert "JSON object" in errors[2]
    assert not trajectory.failed


@each_row("arguments", ['{"number": NaN}', "[3]", "null", '{"number": 1e999}'])
def test_arguments_that_the_server_has_read_are_the_models_mistake_if_they_are_wrong(arguments: str):
    entry = f'{{"id": "a", "type": "function", "function": {{"name": "guess", "arguments": {arguments}}}}}'
    body = f'{{"choices": [{{"message": {{"content": null, "tool_calls": [{entry}]}}}}]}}'
    trajectory = episode(lambda request, number: guessing_later(request) if number else Said(body))
    assert not trajectory.failed
    assert text_of(trajectory.turns[0].observation[0]).startswith("Error: ")
    json.dumps(trajectory.to_dict(), allow_nan=False)


def guessing_later(request: dict[str, Any]) -> Said:
    return calling(call("guess", {"number": len(request["messages"])}))


@each_row("arguments", ['{"number": NaN}', '{"number": "\ud800"}', "[" * 9999])
def test_arguments_that_only_lenient_readers_read_are_sent_inside_of_an_object(arguments: str):
    fake, _ = play(make("guess", dialect="native"), [calling(call("guess", arguments)), completion("?")])
    [entry] = fake.requests[1]["messages"][-2]["tool_calls"]
    assert list(json.loads(entry["function"]["arguments"])) == ["unreadable"]


@each_row("responses", [" \n", {"content": None}, {"content": "", "reasoning_content": "Hm."}])
def test_a_turn_with_nothing_in_it_is_explained_and_not_sent_back(responses: Any):
    fake, _ = play(make("guess", dialect="native"), [completion(responses), completion("?")])
    opening, later = (request["messages"] for request in fake.requests)
    assert [message["role"] for message in later] == [message["role"] for message in opening]
    assert "Your message is empty" in later[-1]["content"]


@each_row("role, opening", [("user", ["user"]), ("developer", ["developer", "user"])])
def test_system_messages_are_sent_in_the_configured_role(role: str, opening: list[str]):
    env = make("guess", dialect="native")
    fake, _ = play(env, [completion("?"), completion("?")], strict=role == "user", system=role)
    assert [message["role"] for message in fake.requests[1]["messages"]] == [*opening, "assistant", "user"]


def test_extra_content_of_calls_and_turns_is_sent_back_as_it_is():
    sealed = {"google": {"thought_signature": "c2ln"}}
    responses = [
        calling(call("guess", {"number": 1}, "a") | {"extra_content": sealed}),
        completion({"content": "Hm.", "extra_content": sealed}),
        completion("?"),
    ]
    fake, _ = play(make("guess", dialect="native"), responses, strict=False)
    called, spoken = (message for message in fake.requests[2]["messages"] if message["role"] == "assistant")
    assert called["tool_calls"][0]["extra_content"] == spoken["extra_content"] == sealed


DETAILS = [{"type": "reasoning.text", "text": "H", "signature": "x"}, {"type": "reasoning.summary", "summary": "m."}]


@each_row("field, keep", [("reasoning_content", "keep"), ("reasoning", "keep"), ("reasoning", "drop")])
def test_reasoning_is_sent_back_in_the_field_in_which_it_came(field: str, keep: str):
    responses = [completion({"content": "?", field: "Hm.", "reasoning_details": DETAILS}), completion("?")]
    fake, _ = play(make("guess", dialect="native"), responses, strict=False, reasoning=keep)
    [turn] = [message for message in fake.requests[1]["messages"] if message["role"] == "assistant"]
    expected = {field: "Hm.", "reasoning_details": DETAILS} if keep == "keep" else {}
    assert turn == {"role": "assistant", "content": "?", **expected}


def test_one_call_at_a_time_is_asked_for_where_more_are_refused():
    requests = [
        play(env, [completion("?")], **settings)[0].requests[0].get("parallel_tool_calls")
        for env, settings in (
            (make("guess", dialect="native"), {}),
            (make("guess", dialect="native"), {"forbid_parallel_calls": False}),
            (Albums(dialect="native"), {}),
        )
    ]
    assert requests == [False, None, None]


def test_pictures_are_sent_as_data_urls_after_the_results_of_the_turn():
    responses = [calling(call("page", {"number": 1}, "a"), call("page", {"number": 2}, "b")), completion("?")]
    fake, _ = play(Albums(dialect="native"), responses, pictures=True)
    opening, _, *results, last_message = fake.requests[1]["messages"]
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    picture = {"type": "image_url", "image_url": {"url": url}}
    assert opening["content"] == [{"type": "text", "text": "What is in the album?"}, picture]
    assert [result["content"] for result in results] == ["Page 1.", "Page 2."]
    assert last_message == {"role": "user", "content": [picture, picture]}


@each_row(
    "settings, roles, blocks",
    [
        ({"results": "user", "pictures": False}, ["assistant", "user"], 0),
        ({"results": "tool", "pictures": False}, ["tool", "tool"], 0),
        ({"results": "tool", "pictures": True}, ["assistant", "user"], 4),
    ],
)
def test_text_dialects_send_results_in_their_role_and_pictures_as_user_messages(
    settings: dict[str, Any], roles: list[str], blocks: int
):
    env = Albums(dialect="hermes")
    text = env.dialect.render("", [ToolCall("page", {"number": 1})] * 2, env.tools)
    fake, _ = play(env, [completion(text), completion("?")], strict=settings["results"] == "user", **settings)
    messages = fake.requests[1]["messages"]
    assert [message["role"] for message in messages][-2:] == roles
    last = json.dumps(messages[-1]["content"])
    assert (last.count("<tool_response>"), last.count("image_url")) == (2 if roles[-1] == "user" else 0, blocks)


@each_row("keep", [False, True])
def test_reasoning_in_the_text_of_earlier_turns_is_treated_alike(keep: bool):
    env = Albums(dialect="hermes")
    written = env.dialect.render("<think>\nHm.\n</think>\n", [ToolCall("page", {"number": 1})], env.tools)
    fake, _ = play(env, [completion(written), completion("?")], reasoning="keep" if keep else "drop")
    sent = fake.requests[1]["messages"][2]["content"]
    assert sent == (written if keep else written.partition("</think>\n\n")[2])


def test_the_whole_episode_is_solved_and_replays():
    trajectory = episode(lambda request, number: guessing(request))
    assert trajectory.success
    assert replay(trajectory) is None
