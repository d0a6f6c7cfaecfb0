"""Every hostile action reaches the environment, and failures name the action."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym.check.catalog import Check
from agentgym.check.hostile import (
    ARGUMENT_TEXTS,
    MESSAGES,
    TEXTS,
    VALUES,
    hostile_arguments,
    hostile_messages,
    hostile_text,
)
from agentgym.check.outcomes import CheckFailed
from agentgym.check.subject import Subject
from agentgym.core.dialects import dialect_names
from agentgym.core.engine.steps import StepResult
from agentgym.core.env import Env
from tests.check.sound_envs import SoundEnv
from tests.refusals import refusal


class Listening(SoundEnv):
    """Records dialects and actions."""

    actions: list[tuple[str, Any]] = []

    def step(self, action: Any) -> StepResult:
        self.actions.append((self.dialect.name, action))
        return super().step(action)


class Stumbling(SoundEnv):
    """Breaks on one action."""

    at: Any = None

    def step(self, action: Any) -> StepResult:
        if type(action) is type(self.at) and action == self.at:
            raise LookupError("stumbled")
        return super().step(action)


class HermesOnly(Listening):
    """Has no argument `dialect`."""

    def __init__(self) -> None:
        super().__init__()


@pytest.fixture(autouse=True)
def _no_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listening, "actions", [])


def checked(env: type[Env], check: Check) -> str:
    return check.run(Subject(f"{env.__module__}:{env.__qualname__}")) or ""


def texts_sent(dialect: str) -> list[str]:
    return [action for name, action in Listening.actions if name == dialect and isinstance(action, str)]


def messages() -> list[dict[str, Any]]:
    return [action for _, action in Listening.actions if not isinstance(action, str)]


def test_every_text_is_sent_in_every_dialect():
    finding = checked(Listening, hostile_text)
    for dialect in dialect_names():
        assert texts_sent(dialect) == list(TEXTS)
    assert finding == f"{len(TEXTS) * len(dialect_names())} actions in {len(dialect_names())} dialects"


def test_an_environment_without_a_dialect_argument_gets_all_texts_once():
    assert checked(HermesOnly, hostile_text) == f"{len(TEXTS)} actions"
    assert Listening.actions == [("hermes", text) for text in TEXTS]
    assert checked(HermesOnly, hostile_arguments) == f"{2 * len(VALUES)} actions"


def test_every_malformed_message_and_argument_is_sent():
    finding = checked(Listening, hostile_messages)
    sent = messages()
    assert sent[: len(MESSAGES)] == list(MESSAGES)
    calls = [message["tool_calls"] for message in sent[len(MESSAGES) :]]
    single = [(call["function"]["name"], call["function"]["arguments"]) for [call, *more] in calls if not more]
    assert single == [(name, arguments) for name in ("look", "answer") for arguments in ARGUMENT_TEXTS]
    twice = [(first, second) for [first, *more] in calls for second in more]
    assert [[call["function"]["name"] for call in pair] for pair in twice] == [["look"] * 2, ["answer"] * 2]
    assert all(first["id"] == second["id"] and not isinstance(first["id"], str) for first, second in twice)
    assert finding == f"{len(sent)} actions"


def test_a_call_that_a_dialect_can_write_is_sent_whole_truncated_and_doubled():
    finding = checked(Listening, hostile_arguments)
    texts = texts_sent("hermes")
    # NaN, the infinities, NUL and lone surrogates cannot be written as JSON; everything else can, for each of 2 tools.
    assert len(texts) == 3 * 2 * (len(VALUES) - 4)
    for whole, cut, twice in zip(texts[::3], texts[1::3], texts[2::3], strict=True):
        assert json.loads(whole.partition("\n")[2].rpartition("\n")[0])["name"] in ("look", "answer")
        assert whole.startswith(cut)
        assert len(cut) < len(whole)
        assert twice == whole * 2
    assert finding == f"{len(Listening.actions)} actions"
    assert {name for name, _ in Listening.actions} == set(dialect_names())


def test_the_message_shows_the_fatal_action_with_its_error(monkeypatch: pytest.MonkeyPatch):
    rows: list[tuple[Any, Check, str]] = [
        ("{0} {name} {0.__class__} %s %(x)s %n", hostile_text, "the action ‹'{0} {name} {0.__class__} %s %(x)s %n'›"),
        ({"role": "assistant"}, hostile_messages, "the action ‹{'role': 'assistant'}›"),
        (MESSAGES[8], hostile_messages, "'tool_calls': 'call'}›"),
    ]
    for at, check, action in rows:
        monkeypatch.setattr(Stumbling, "at", at)
        words = refusal(lambda check=check: checked(Stumbling, check), raises=CheckFailed)
        assert f"{action} raised LookupError: ‹stumbled›; raise ToolError" in words
