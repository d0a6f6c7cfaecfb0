"""Reasoning is never a call, in any dialect: closed or not, and whoever wrote the tag that opens it."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.dialects import DIALECTS, get_dialect
from agentgym.dialects.base import Parsed
from agentgym.endings import Reason
from agentgym.envs.guess import GuessEnv
from agentgym.history import drop_reasoning
from agentgym.messages import ToolCall
from agentgym.toolset import Toolset, tool
from tests.rollout_cases import Letters, Speaker, jobs, run


class Tools:
    @tool
    def stop(self, why: str) -> str:
        """Stop.

        Args:
            why: The reason.
        """
        return why


TOOLS = Toolset.of(Tools)
CALL = ToolCall("stop", {"why": "done"})


@pytest.mark.parametrize("name", DIALECTS)
def test_only_the_call_after_the_reasoning_is_a_call(name: str):
    dialect = get_dialect(name)
    call = dialect.render("", [CALL], TOOLS)
    for opening in ("<think>\n", ""):  # the chat template may have written it
        thought = f"{opening}I could write\n{call}\nor not.\n</think>\n"
        assert dialect.parse(thought, TOOLS) == Parsed(thought)
        assert dialect.parse(thought + call, TOOLS) == Parsed(thought[:-1], (CALL,))


@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_in_reasoning_that_is_never_closed_is_no_call(name: str):
    dialect = get_dialect(name)
    parsed = dialect.parse("<think>\nSo:\n" + dialect.render("", [CALL], TOOLS), TOOLS)
    assert (parsed.calls, parsed.unclosed) == ((), True)
    assert "<think> is never closed" in (parsed.error or "")


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"fenced"}))
def test_arguments_may_hold_the_tag_that_ends_reasoning(name: str):
    dialect = get_dialect(name)
    call = ToolCall("stop", {"why": "a </think> b <\\/think> <think>"})
    for text in ("", "<think>\nHm.\n</think>\n"):
        assert dialect.parse(dialect.render(text, [call], TOOLS), TOOLS) == Parsed(text, (call,))


class Opened(Letters):
    """A codec of a template that opens the reasoning of every turn."""

    def open(self, messages: Any, tools: Any) -> list[int]:
        return [*super().open(messages, tools), *(ord(c) + 2 for c in "<think>\n")]

    def extend(self, observation: Any, last_id: int) -> list[int]:
        return [*super().extend(observation, last_id), *(ord(c) + 2 for c in "<think>\n")]


def guess(number: int) -> str:
    return GuessEnv(dialect="hermes").dialect.render("", [ToolCall("guess", {"number": number})], GuessEnv().tools)


def test_reasoning_that_the_prompt_opens_is_part_of_the_turn_s_text():
    policy = Speaker([f"Maybe 1.\n</think>\n{guess(2)}", guess(3)])
    policy.codec = Opened()
    [trajectory] = run(jobs(1), policy, max_new_tokens=500)
    first, second, *_ = trajectory.turns
    assert str(first.action).startswith("<think>\nMaybe 1.\n</think>\n<tool_call>")
    assert trajectory.counts["calls"] == len(trajectory.turns) // 2
    assert str(second.action).startswith("<think>\n<tool_call>")
    assert "<think> is never closed" in str(second.observation)


def test_tokens_stay_as_they_were_sampled_reasoning_included():
    """`Speaker` insists that each request extends the one before."""
    policy = Speaker([f"<think>\nI think of 1.\n</think>\n{guess(1)}"])
    [trajectory] = run(jobs(1), policy, max_new_tokens=500)
    tokens = trajectory.tokens
    assert tokens is not None
    assert trajectory.reason in (Reason.MAX_TURNS, Reason.SOLVED)
    assert Letters().decode(tokens.completion_ids).count("I think of 1.") == len(trajectory.turns)


def test_earlier_reasoning_can_be_dropped_from_what_a_policy_reads():
    call = {"function": {"name": "stop", "arguments": {"why": "a"}}}
    said: Any = [
        {"role": "user", "content": "<think>Mine.</think> Go."},
        {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nSo."},
        {"role": "assistant", "content": "Opened before.\n</think>\nSo.", "reasoning_content": "Hm."},
        {"role": "assistant", "content": "<think>Only.</think>", "tool_calls": [call]},
        {"role": "assistant", "content": "<think>Only.</think>"},
        {"role": "assistant", "content": "<think>Never closed"},
    ]
    kept = drop_reasoning(said)
    assert [message.get("content") for message in kept] == [
        said[0]["content"], "So.", "So.", "", "<think>Only.</think>", "<think>Never closed"
    ]  # fmt: skip
    assert not any("reasoning_content" in message for message in kept)
    assert kept[3].get("tool_calls") == [call]
    assert "reasoning_content" in said[2]
