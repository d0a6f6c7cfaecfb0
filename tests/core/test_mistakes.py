"""Each mistake with a tool counts under one kind, and the kinds add up to the errors."""

from __future__ import annotations

import pickle
from typing import Any

from agentgym.base.errors import OF_CALLS, OF_TURNS, Mistake, ToolError, count_of
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, assistant
from agentgym.core.toolset import tool
from agentgym.tools.database.base import QueryError, QueryErrorKind
from tests.counter_env import Counter, call
from tests.refusals import differing


class Slow(Counter):
    """A counter whose tool can give up."""

    max_calls_per_turn = 2
    max_turns = 50

    @tool
    def wait(self, seconds: int, why: str = "") -> str:
        """Wait.

        Args:
            seconds: How long.
            why: What for.
        """
        if seconds > 1:
            raise ToolError("That took too long.", mistake=Mistake.TIMEOUT)
        if seconds < 0:
            # A tool cannot report a mistake of a whole turn.
            raise ToolError("No.", mistake=Mistake.UNREADABLE)
        return "done"


def broken_arguments(arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "wait", "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


ACTIONS: list[tuple[Any, Mistake]] = [
    ("what?", Mistake.REFUSED_TEXT),
    ("", Mistake.UNREADABLE),
    ("<tool_call>{", Mistake.UNREADABLE),
    (broken_arguments("{"), Mistake.UNREADABLE),
    (broken_arguments("[1]"), Mistake.UNREADABLE),
    (assistant("", [ToolCall("add", {"number": 1})] * 3), Mistake.TOO_MANY_CALLS),
    (call("sub", number=1), Mistake.UNKNOWN_TOOL),
    (call("wait", seconds=0, soon=True), Mistake.UNKNOWN_ARGUMENT),
    (call("wait", secnds=0), Mistake.UNKNOWN_ARGUMENT),
    (call("wait", soon=True, seconds="x"), Mistake.UNKNOWN_ARGUMENT),
    (call("wait"), Mistake.MISSING_ARGUMENT),
    (call("wait", why=1, seconds=None), Mistake.WRONG_ARGUMENT),
    (call("wait", seconds="x"), Mistake.WRONG_ARGUMENT),
    (call("wait", seconds=2), Mistake.TIMEOUT),
    (call("wait", seconds=-1), Mistake.REFUSED),
    (call("add", number=-1), Mistake.REFUSED),
]


def counts_after(env: Env, *actions: Any) -> dict[str, int]:
    """The counts of an episode that ends in a last, harmless call."""
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env.interrupt(Reason.GAVE_UP).info["counts"]


def test_a_mistake_counts_once_and_under_its_kind():
    def counted(action: Any) -> tuple[dict[Mistake, int], int, int]:
        counts = counts_after(Slow(), action)
        kinds = {kind: count for kind in Mistake if (count := count_of(kind, counts))}
        return kinds, counts["tool_errors"], counts["format_errors"]

    rows = [(action, ({kind: 1}, int(kind in OF_CALLS), int(kind in OF_TURNS))) for action, kind in ACTIONS]
    assert differing(counted, rows) == []


def test_kinds_add_up_to_the_errors_of_an_episode():
    actions = [
        "?",
        call("wait"),
        call("nope"),
        assistant("", [ToolCall("add", {"number": -1}), ToolCall("wait", {"seconds": 9})]),
    ]
    counts = counts_after(Slow(), *actions, "", call("add", number=0))
    assert sum(count_of(kind, counts) for kind in OF_CALLS) == counts["tool_errors"] == 4
    assert sum(count_of(kind, counts) for kind in OF_TURNS) == counts["format_errors"] == 2
    assert counts["calls"] == 5


def test_a_slow_query_is_a_timeout_and_any_other_error_a_refusal():
    assert QueryError("slow", QueryErrorKind.TIMEOUT).mistake is Mistake.TIMEOUT
    assert QueryError("wrong", QueryErrorKind.SYNTAX).mistake is Mistake.REFUSED


def test_a_pickled_mistake_keeps_its_kind():
    for error in (ToolError("no", mistake=Mistake.TIMEOUT), QueryError("slow", QueryErrorKind.TIMEOUT)):
        assert pickle.loads(pickle.dumps(error)).mistake is Mistake.TIMEOUT
