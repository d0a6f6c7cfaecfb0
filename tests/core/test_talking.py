"""Conversational environments: prompts, tools and openings per episode, asides, own endings, a second model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentgym import (
    Channel,
    Ending,
    Env,
    InfrastructureError,
    Message,
    Reason,
    SecondModel,
    Task,
    TaskList,
    ToolCall,
    UsageError,
    tool,
)
from agentgym.core.messages import assistant, text_of, user
from agentgym.core.policy import FunctionPolicy
from agentgym.core.trajectory import Trajectory, read_jsonl, write_jsonl
from agentgym.rollout import EnvFactory, Job, Limits
from agentgym.rollout.streams import play_jobs
from tests.refusals import not_refused, refusal

TASKS = TaskList([Task(id=f"talk/train/{n}", split="train", prompt=f"Task {n}.", data={"n": n}) for n in range(4)])


class Talk(Env):
    """Uses every feature for conversations."""

    channels = {"outcome": Channel("1 if done"), "said": Channel("words", high=9.0)}
    system_prompt = "Be kind."
    reasons = {"transferred": Ending.TERMINATED, "hung_up": Ending.TRUNCATED}
    max_turns = 6
    max_calls_per_turn = 4

    def __init__(self, **kwargs: Any):
        super().__init__(tasks=TASKS, **kwargs)
        self.texts: list[str] = []
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
        self.texts.append(text)
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
        return {"heard": list(self.texts)}


def calls(*tool_calls: ToolCall, text: str = "") -> Message:
    return assistant(text, list(tool_calls))


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


def test_an_episode_can_open_with_a_conversation_in_progress(env: Talk):
    messages, _ = opening(env, 2)
    assert [message.get("role") for message in messages] == ["system", "user", "assistant", "user"]
    assert [text_of(message) for message in messages[1:]] == ["Hi.", "Hello!", "Help me."]


def test_text_with_calls_reaches_aside_first_and_may_be_answered(env: Talk):
    opening(env, 0)
    quiet = env.step(calls(SAY, text="hm"))
    assert len(quiet.observation) == 1
    loud = env.step(calls(LEAVE, text="loud"))
    assert text_of(loud.observation[-1]) == "I heard that."
    assert loud.info["heard"] == ["hm", "loud"]
    assert env.reason == "transferred"


def test_own_endings_are_terminated_or_truncated(env: Talk):
    for name, terminated in (("transferred", True), ("hung_up", False)):
        opening(env, 0)
        result = env.step(calls(ToolCall("leave", {"reason": name})))
        assert (result.terminated, result.truncated, result.info["ending"]) == (terminated, not terminated, name)
    opening(env, 0)
    assert "no reason 'solved'" in refusal(lambda: env.step(calls(ToolCall("leave", {"reason": "solved"}))))
    rows = [
        ({"solved": Ending.TERMINATED}, "already exists"),
        ({"broken": Ending.FAILED}, "TERMINATED or Ending.TRUNCATED"),
        ({"Hung up": Ending.TERMINATED}, "a-z"),
    ]
    assert not_refused(lambda reasons: type("Bad", (Talk,), {"reasons": reasons}), rows) == []


def test_rewards_of_a_turn_add_up_until_a_call_ends_the_episode(env: Talk):
    opening(env, 0)
    assert env.step(calls(SAY, SAY, SAY)).info["rewards"]["said"] == 3.0
    result = env.step(calls(SAY, LEAVE, SAY))
    assert result.info["rewards"] == {"outcome": 1.0, "said": 1.0}
    assert "did not run" in text_of(result.observation[2])
    assert len(result.observation) == 3


def test_stop_is_called_once_per_episode(env: Talk):
    opening(env, 0)
    env.step(calls(LEAVE))
    assert env.stopped == ["talk/train/0"]
    opening(env, 1)  # given up by the next reset
    opening(env, 2)
    assert env.stopped == ["talk/train/0", "talk/train/1"]
    env.interrupt(Reason.TIME)
    env.close()
    assert env.stopped == ["talk/train/0", "talk/train/1", "talk/train/2"]


# In a rollout.


def collected(kind: type[Env], say: Callable[[list[Message]], Any], retries: int = 0) -> Trajectory:
    factory = EnvFactory(f"{__name__}:{kind.__name__}", {})
    [trajectory] = asyncio.run(
        play_jobs([Job(TASKS.get("train", 0), seed=0)], FunctionPolicy("talker", say), factory, Limits(retries=retries))
    )
    return trajectory


class Bound(Env):
    """Owns a resource of the event loop that plays its episode."""

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


def test_a_failed_episode_is_stopped_on_its_own_loop():
    Bound.loops.clear()
    assert collected(Bound, lambda _: "Hello", retries=1).ending is Ending.FAILED
    assert Bound.loops == [True, True]


def test_trajectories_keep_tools_details_and_own_endings(tmp_path: Path):
    trajectory = collected(Talk, lambda _: calls(LEAVE, text="bye"))
    assert [entry["function"]["name"] for entry in trajectory.tools] == ["say", "leave"]
    assert trajectory.details == {"heard": ["bye"]}
    write_jsonl(tmp_path / "t.jsonl", [trajectory])
    [again] = read_jsonl(tmp_path / "t.jsonl")
    assert again == trajectory
    assert (again.reason, again.ending, again.success) == ("transferred", Ending.TERMINATED, True)
    reasons: list[Any] = ["transferred", {"name": "x"}, {"name": "x", "ending": "no"}, 5]
    rows = [(reason, "'reason'") for reason in [*reasons, {"name": 1, "ending": "terminated"}]]
    data = trajectory.to_dict()
    assert not_refused(lambda reason: Trajectory.from_dict(data | {"reason": reason}), rows) == []


# A second model.


def model(ask: Callable[..., Any], **options: Any) -> SecondModel:
    second = replace(SecondModel(ask), **options)
    second.begin("You are a customer.")
    return second


def test_a_second_model_separates_its_conversation_from_single_questions():
    second = model(lambda messages: f"{len(messages)} messages")
    assert asyncio.run(second.reply("Hello")) == "2 messages"
    assert asyncio.run(second.ask("Was that right?")) == "1 messages"
    assert asyncio.run(second.reply("And now?")) == "4 messages"
    assert [message.get("role") for message in second.conversation] == ["system", *["user", "assistant"] * 2]
    assert [text_of(message) for message in second.questions] == ["Was that right?", "1 messages"]
    assert second.cost.calls == 3
    assert json.loads(json.dumps(second.record()))["cost"]["characters_out"] == 30
    second.begin()
    assert (second.conversation, second.questions, second.cost.calls) == ([], [], 0)


def test_a_broken_second_model_is_retried_and_then_fails_the_episode():
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


def test_a_second_model_is_bounded_in_calls_time_and_length():
    async def slow(messages: list[Message]) -> str:
        await asyncio.Event().wait()
        return "late"

    with pytest.raises(InfrastructureError, match=re.escape("no answer in 0.01 s")):
        asyncio.run(model(slow, timeout_s=0.01, retries=0).reply("?"))
    second = model(lambda messages: "x" * 99, max_calls=1, max_chars=10)
    assert asyncio.run(second.reply("?")) == "x" * 10
    with pytest.raises(InfrastructureError, match="more than 1 calls"):
        asyncio.run(second.ask("?"))
    with pytest.raises(UsageError):
        SecondModel(str, max_calls=0)
