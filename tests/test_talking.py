"""Environments that talk: prompts, tools and openings of an episode, text beside calls, own endings, a second model."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from agentgym import (
    Channel,
    Ending,
    Env,
    InfrastructureError,
    Message,
    Reason,
    SchemaTool,
    SecondModel,
    Task,
    TaskList,
    ToolCall,
    ToolError,
    UsageError,
    schema_tools,
    tool,
)
from agentgym.checks import run_checks
from agentgym.messages import assistant, system, text_of, user
from agentgym.policy import FunctionPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.trajectory import Trajectory, read_jsonl, write_jsonl

ROOT = Path(__file__).parent.parent
TASKS = TaskList([Task(id=f"talk/train/{n}", split="train", prompt=f"Task {n}.", data={"n": n}) for n in range(4)])


class Talk(Env):
    """Everything that a conversation may need, in small."""

    channels = {"outcome": Channel("1 if done"), "said": Channel("words", high=9.0)}
    system_prompt = "Be kind."
    reasons = {"transferred": Ending.TERMINATED, "hung_up": Ending.TRUNCATED}
    max_turns = 6
    max_calls_per_turn = 4

    def __init__(self, **kwargs: Any):
        super().__init__(tasks=TASKS, **kwargs)
        self.heard: list[str] = []
        self.stopped: list[str] = []

    def start(self, task: Task) -> Any:
        if task.data["n"] == 1:
            self.system_prompt = "Be brief."
            self.tools = self.tools.only("leave")
        if task.data["n"] == 2:
            return [user("Hi."), assistant("Hello!"), user("Help me.")]
        return None

    def respond(self, text: str) -> str:
        return f"You said: {text}"

    def aside(self, text: str) -> str | None:
        self.heard.append(text)
        return "I heard that." if "loud" in text else None

    def stop(self) -> None:
        self.stopped.append(self.task.id)

    @tool
    def say(self, word: str) -> str:
        """Say a word.

        Args:
            word: To say.
        """
        self.reward("said", 1.0)
        return word

    @tool
    def leave(self, reason: str = "transferred") -> str:
        """Leave.

        Args:
            reason: Why.
        """
        self.reward("outcome", 1.0)
        self.finish(reason)
        return "Bye."

    def details(self) -> dict[str, Any]:
        return {"heard": list(self.heard)}


def calls(*wanted: ToolCall, text: str = "") -> Message:
    return assistant(text, list(wanted))


SAY, LEAVE = ToolCall("say", {"word": "a"}), ToolCall("leave")


@pytest.fixture
def env() -> Iterator[Talk]:
    env = Talk()
    yield env
    env.close()


def opening(env: Env, index: int) -> tuple[list[Message], list[str]]:
    messages, info = env.reset(seed=0, options={"split": "train", "index": index})
    return messages, [entry["function"]["name"] for entry in info["tools"]]


def test_a_prompt_and_tools_that_start_sets_hold_for_one_episode(env: Talk):
    usual, names = opening(env, 0)
    assert names == ["say", "leave"]
    assert "Be kind." in text_of(usual[0])
    own, names = opening(env, 1)
    assert names == ["leave"]
    assert "Be brief." in text_of(own[0])
    assert '"say"' not in text_of(own[0])
    assert "no tool 'say'" in text_of(env.step(calls(SAY)).observation[-1])
    assert opening(env, 0) == (usual, ["say", "leave"])
    assert "call" in str(env.action_space.sample())


def test_an_episode_can_open_with_a_conversation_under_way(env: Talk):
    messages, _ = opening(env, 2)
    assert [message.get("role") for message in messages] == ["system", "user", "assistant", "user"]
    assert [text_of(message) for message in messages[1:]] == ["Hi.", "Hello!", "Help me."]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "list of chat messages"),
        ([{"role": "user"}], "list of chat messages"),
        ([system("x"), user("y")], "self.system_prompt"),
        ([user("x"), assistant("y")], "the policy speaks next"),
    ],
)
def test_an_opening_that_makes_no_sense_is_refused(messages: list[Any], problem: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Talk, "start", lambda self, task: messages)
    with pytest.raises(UsageError, match=problem):
        Talk().reset(seed=0)


def test_text_beside_calls_is_heard_before_they_run_and_may_be_answered(env: Talk):
    opening(env, 0)
    quiet = env.step(calls(SAY, text="hm"))
    assert [text_of(message) for message in quiet.observation] == [text_of(quiet.observation[0])]
    loud = env.step(calls(LEAVE, text="loud"))
    assert text_of(loud.observation[-1]) == "I heard that."
    assert loud.info["heard"] == ["hm", "loud"]
    assert env.step if env.reason is None else env.reason == "transferred"


@pytest.mark.parametrize(("name", "terminated"), [("transferred", True), ("hung_up", False), ("solved", None)])
def test_endings_that_an_environment_names_are_terminated_or_truncated(env: Talk, name: str, terminated: bool | None):
    opening(env, 0)
    if terminated is None:
        with pytest.raises(UsageError, match="no reason 'solved'"):
            env.step(calls(ToolCall("leave", {"reason": name})))
        return
    result = env.step(calls(ToolCall("leave", {"reason": name})))
    assert (result.terminated, result.truncated, result.info["ending"]) == (terminated, not terminated, name)


@pytest.mark.parametrize(
    ("reasons", "problem"),
    [
        ({"solved": Ending.TERMINATED}, "already exists"),
        ({"broken": Ending.FAILED}, "TERMINATED or Ending.TRUNCATED"),
        ({"Hung up": Ending.TERMINATED}, "a-z"),
    ],
)
def test_reasons_that_cannot_be_are_refused_with_the_class(reasons: dict[str, Ending], problem: str):
    with pytest.raises(UsageError, match=problem):
        type("Bad", (Talk,), {"reasons": reasons})


def test_calls_after_one_that_ended_the_episode_do_not_run(env: Talk):
    opening(env, 0)
    result = env.step(calls(SAY, LEAVE, SAY))
    assert result.info["rewards"] == {"outcome": 1.0, "said": 1.0}
    assert "did not run" in text_of(result.observation[2])
    assert len(result.observation) == 3


def test_rewards_of_one_turn_add_up(env: Talk):
    opening(env, 0)
    assert env.step(calls(SAY, SAY, SAY)).info["rewards"]["said"] == 3.0


def test_stop_is_called_once_an_episode_whatever_its_end(env: Talk):
    opening(env, 0)
    env.step(calls(LEAVE))
    assert env.stopped == ["talk/train/0"]
    opening(env, 1)  # given up by the next reset
    opening(env, 2)
    assert env.stopped == ["talk/train/0", "talk/train/1"]
    env.interrupt(Reason.TIME)
    env.close()
    assert env.stopped == ["talk/train/0", "talk/train/1", "talk/train/2"]


def test_a_stop_that_fails_is_logged_and_changes_no_result(env: Talk, caplog: pytest.LogCaptureFixture):
    def fail() -> None:
        raise SystemExit("gone")

    env.stop = fail  # type: ignore[method-assign]
    opening(env, 0)
    assert env.step(calls(LEAVE)).reward == 1.0
    assert "the stop() of a Talk failed: SystemExit: gone" in caplog.text


def test_what_a_start_that_breaks_has_set_does_not_last(env: Talk, monkeypatch: pytest.MonkeyPatch):
    usual = opening(env, 0)

    def broken(self: Talk, task: Task) -> None:
        self.system_prompt, self.tools = "Be rude.", self.tools.only("leave")
        raise OSError("away")

    with monkeypatch.context() as patch:
        patch.setattr(Talk, "start", broken)
        with pytest.raises(InfrastructureError):
            env.reset(seed=0)
    assert opening(env, 0) == usual


class Bound(Env):
    """Holds something that belongs to the event loop on which its episode is played."""

    channels = {"outcome": Channel("1 if done")}
    loops: ClassVar[list[bool]] = []

    def __init__(self, **kwargs: Any):
        super().__init__(tasks=TASKS, **kwargs)

    async def start(self, task: Task) -> None:
        self.loop = asyncio.get_running_loop()

    async def respond(self, text: str) -> str:
        raise OSError("the other side is away")

    async def stop(self) -> None:
        self.loops.append(asyncio.get_running_loop() is self.loop)


def test_an_episode_that_fails_is_stopped_on_the_loop_that_played_it():
    Bound.loops.clear()
    jobs = [Job(TASKS.get("train", 0), seed=0)]
    factory = EnvFactory("tests.test_talking:Bound", {})
    (found,) = asyncio.run(collect(jobs, FunctionPolicy("talker", lambda _: "Hello"), factory, Limits(retries=1)))
    assert found.ending is Ending.FAILED
    assert Bound.loops == [True, True]


class Unsayable(Talk):
    """Says of its episodes what no file can hold."""

    def details(self) -> dict[str, Any]:
        return {"bytes": b"\xff", "number": float("nan")}


def test_details_that_are_no_data_lose_no_trajectory(tmp_path: Path):
    jobs = [Job(TASKS.get("train", 0), seed=0)]
    factory = EnvFactory("tests.test_talking:Unsayable", {})
    policy = FunctionPolicy("leaver", lambda _: calls(LEAVE))
    (found,) = asyncio.run(collect(jobs, policy, factory, Limits(retries=0)))
    assert (found.success, found.details) == (
        True,
        {"bytes": "(bytes: no JSON data)", "number": "(float: no JSON data)"},
    )
    write_jsonl(tmp_path / "t.jsonl", [found])
    assert list(read_jsonl(tmp_path / "t.jsonl")) == [found]


class Meeting(Env):
    """Two may wait for each other only if they run at the same time."""

    channels = {"outcome": Channel("1 if met")}
    max_calls_per_turn = 3

    def start(self, task: Task) -> None:
        self.there, self.order = asyncio.Event(), []

    @tool(concurrent=True)
    async def wait(self) -> str:
        """Wait for the other."""
        await asyncio.wait_for(self.there.wait(), 20)
        return "met"

    @tool(concurrent=True)
    async def come(self) -> str:
        """Come."""
        self.there.set()
        return "here"

    @tool
    async def fail(self) -> str:
        """Fail."""
        raise ToolError("no")


def test_calls_of_concurrent_tools_run_together_and_answer_in_order():
    env = Meeting(tasks=TASKS)
    env.reset(seed=0)
    result = env.step(calls(ToolCall("wait"), ToolCall("come"), ToolCall("fail")))
    assert [re.findall("met|here|no", text_of(message))[-1] for message in result.observation] == ["met", "here", "no"]
    env.close()


BOOK = {
    "name": "book",
    "description": "Book a table.",
    "inputSchema": {
        "type": "object",
        "properties": {"day": {"type": "integer", "minimum": 1}, "from": {"type": ["string", "null"]}},
        "required": ["day"],
        "additionalProperties": False,
    },
}


class Booking(Env):
    """Tools that each task brings along."""

    channels = {"outcome": Channel("1 if booked")}

    def start(self, task: Task) -> None:
        async def run(name: str, arguments: dict[str, Any]) -> Any:
            if arguments["day"] > 31:
                raise ToolError("There is no such day.")
            self.finish(Reason.ANSWERED)
            return {"tool": name, **arguments}

        self.tools = self.tools.plus(
            *schema_tools([BOOK, {"type": "function", "function": {**BOOK, "name": "b"}}], run)
        )


def test_tools_can_come_from_json_schemas():
    env = Booking(tasks=TASKS)
    _, info = env.reset(seed=0)
    assert [entry["function"]["name"] for entry in info["tools"]] == ["book", "b"]
    assert info["tools"][0]["function"]["parameters"] == BOOK["inputSchema"]
    assert "no such day" in text_of(env.step(calls(ToolCall("book", {"day": 40}))).observation[0])
    assert "'day' is missing" in text_of(env.step(calls(ToolCall("book", {}))).observation[0])
    result = env.step(calls(ToolCall("b", {"day": 3, "from": None})))
    assert '"tool": "b", "day": 3, "from": null' in text_of(result.observation[0])
    assert result.terminated
    env.reset(seed=1)
    env.close()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "'day' is missing"),
        ({"day": "3"}, "'3' is not of type 'integer'"),
        ({"day": 0}, "less than the minimum of 1"),
        ({"day": 1, "x": 2}, "there is no argument 'x'"),
        ({"day": 1, "from": [1]}, "argument 'from'"),
        (5, "must be an object"),
        ({"day": {1}}, "not a JSON object"),
    ],
)
def test_arguments_that_a_schema_refuses_are_explained_to_the_model(arguments: Any, problem: str):
    with pytest.raises(ToolError, match=re.escape(problem)) as told:
        SchemaTool(BOOK, dict).check(arguments)
    assert "Usage: book(day: integer, from: any (optional))" in str(told.value) or "from" in str(told.value)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({}, "'name'"),
        ({"name": "a"}, "'description'"),
        ({"name": "a b", "description": "x"}, "tool name"),
        ({"name": "a", "description": "x", "parameters": {"type": "array"}}, "type 'object'"),
        ({"name": "a", "description": "x", "parameters": {"type": "nonsense"}}, "not a valid JSON Schema"),
        ({"name": "a", "description": "x", "parameters": {"x": {1}}}, "not JSON"),
    ],
)
def test_schemas_that_describe_no_tool_are_refused(schema: dict[str, Any], problem: str):
    with pytest.raises(UsageError, match=problem):
        SchemaTool(schema, dict)


def test_references_out_of_a_schema_are_never_fetched():
    away = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x.json"}}}
    found = SchemaTool({"name": "a", "description": "x", "parameters": away}, dict)
    with pytest.raises(UsageError, match="refers to what is not in it"):
        found.check({"a": 1})


def test_schema_tools_can_be_pickled():
    again = pickle.loads(pickle.dumps(SchemaTool(BOOK, dict, max_chars=7)))
    assert (again.schema, again.max_chars) == (SchemaTool(BOOK, dict).schema, 7)


def played(action: Callable[[list[Message]], Any]) -> Trajectory:
    jobs = [Job(TASKS.get("train", 0), seed=0)]
    factory = EnvFactory("tests.test_talking:Talk", {})
    return asyncio.run(collect(jobs, FunctionPolicy("one", action), factory, Limits(retries=0)))[0]


def test_trajectories_keep_tools_details_and_own_endings(tmp_path: Path):
    found = played(lambda messages: calls(LEAVE, text="bye"))
    assert [entry["function"]["name"] for entry in found.tools] == ["say", "leave"]
    assert found.details == {"heard": ["bye"]}
    write_jsonl(tmp_path / "t.jsonl", [found])
    (again,) = read_jsonl(tmp_path / "t.jsonl")
    assert again == found
    assert (again.reason, again.ending, again.success) == ("transferred", Ending.TERMINATED, True)


@pytest.mark.parametrize(
    "reason", ["transferred", {"name": "x"}, {"name": "x", "ending": "no"}, 5, {"name": 1, "ending": "terminated"}]
)
def test_a_reason_that_is_none_is_refused(reason: Any, tmp_path: Path):
    data = {**played(lambda messages: calls(LEAVE)).to_dict(), "reason": reason}
    with pytest.raises(UsageError, match="'reason'"):
        Trajectory.from_dict(json.loads(json.dumps(data)))


def model(ask: Callable[..., Any], **options: Any) -> SecondModel:
    found = replace(SecondModel(ask), **options)
    found.begin("You are a customer.")
    return found


def test_a_second_model_keeps_its_conversation_apart_from_single_questions():
    second = model(lambda messages: f"{len(messages)} messages")
    assert asyncio.run(second.reply("Hello")) == "2 messages"
    assert asyncio.run(second.ask("Was that right?")) == "1 messages"
    assert asyncio.run(second.reply("And now?")) == "4 messages"
    assert [message.get("role") for message in second.conversation] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert [text_of(message) for message in second.questions] == ["Was that right?", "1 messages"]
    assert second.cost.calls == 3
    assert json.loads(json.dumps(second.record()))["cost"]["characters_out"] == 30
    second.begin()
    assert (second.conversation, second.questions, second.cost.calls) == ([], [], 0)


def test_a_second_model_that_breaks_is_tried_again_and_then_fails_the_episode():
    answers = iter([OSError("away"), "", "at last"])

    def ask(messages: list[Message]) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    second = model(ask)
    assert asyncio.run(second.reply("?")) == "at last"
    assert second.cost.retries == 2
    with pytest.raises(InfrastructureError, match=r"could not be asked: .*StopIteration"):
        asyncio.run(second.reply("?"))
    assert len(second.conversation) == 3


@pytest.mark.parametrize("wait", [asyncio.sleep])
def test_a_second_model_is_bounded_in_calls_time_and_length(wait: Any):
    async def slow(messages: list[Message]) -> str:
        await wait(60)
        return "late"

    with pytest.raises(InfrastructureError, match=re.escape("no answer in 0.01 s")):
        asyncio.run(model(slow, timeout_s=0.01, retries=0).reply("?"))
    second = model(lambda messages: "x" * 99, max_calls=1, max_chars=10)
    assert asyncio.run(second.reply("?")) == "x" * 10
    with pytest.raises(InfrastructureError, match="more than 1 times"):
        asyncio.run(second.ask("?"))
    with pytest.raises(UsageError):
        SecondModel(str, max_calls=0)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The environment of the documentation, as a module."""
    text = (ROOT / "docs" / "talking.md").read_text(encoding="utf-8")
    code = re.search(r"^```python\n# shop.py\n(.*?)^```$", text, re.M | re.S)
    assert code is not None
    assert len(code[1].splitlines()) < 150
    (tmp_path / "shop.py").write_text(code[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("shop")
    sys.modules.pop("shop", None)


def test_the_documented_environment_passes_every_check(shop: ModuleType):
    report = run_checks("shop:ShopEnv")
    assert report.passed, [row for row in report.rows if row.status == "fail"]


def test_a_customer_that_breaks_is_never_the_policys_fault(shop: ModuleType):
    def broken(messages: list[Message]) -> str:
        raise OSError("the endpoint is away")

    env = shop.ShopEnv(ask_customer=broken)
    env.customer.retries = 0
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="the endpoint is away"):
        env.step("Hello")
    assert env.reason is Reason.INFRASTRUCTURE
    env.close()
