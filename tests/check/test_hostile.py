"""Every hostile action reaches the environment, and the one that trips it is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym.checks.catalog import Check
from agentgym.checks.hostile import hostile_arguments, hostile_messages, hostile_text
from agentgym.checks.hostile_inputs import ARGUMENT_TEXTS, MESSAGES, TEXTS, VALUES
from agentgym.checks.outcomes import CheckFailed
from agentgym.checks.subject import Subject
from agentgym.dialects import dialect_names
from agentgym.engine.steps import StepResult
from agentgym.env import Env
from agentgym.toolset import tool
from tests.check.sound_envs import SoundEnv
from tests.refusals import refusal


class Listening(SoundEnv):
    """Remembers what was done in it, dialect by dialect."""

    heard: list[tuple[str, Any]] = []

    def step(self, action: Any) -> StepResult:
        self.heard.append((self.dialect.name, action))
        return super().step(action)


class Wide(Listening):
    """Has a tool with many arguments."""

    @tool
    def place(self, a: str, b: str, c: str, d: str, e: str) -> str:
        """Place a box.

        Args:
            a: One.
            b: Two.
            c: Three.
            d: Four.
            e: Five.
        """
        return a


class HermesOnly(Listening):
    """Takes no dialect."""

    def __init__(self) -> None:
        super().__init__()


class Stumbling(SoundEnv):
    """Breaks at one action."""

    at: Any = None

    def step(self, action: Any) -> StepResult:
        if type(action) is type(self.at) and action == self.at:
            raise LookupError("stumbled")
        return super().step(action)


class Careless(SoundEnv):
    """Looks its boxes up without asking whether there are such."""

    def see(self, box: str) -> str:
        return self.task.data["boxes"][box]


class Fleeting(Listening):
    """Ends at the first turn."""

    max_turns = 1


class Babbling(SoundEnv):
    """Answers one text with more than a policy may be shown."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        if action != "NaN":
            return result
        return result._replace(observation=[{"role": "user", "content": "x" * 100_000}])


@pytest.fixture(autouse=True)
def _silence_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Listening, "heard", [])


def checked(env: type[Env], check: Check) -> str:
    return check.run(Subject(f"{env.__module__}:{env.__qualname__}")) or ""


def written(dialect: str) -> list[str]:
    return [action for name, action in Listening.heard if name == dialect and isinstance(action, str)]


def messages() -> list[dict[str, Any]]:
    return [action for _, action in Listening.heard if not isinstance(action, str)]


def test_every_text_is_said_in_every_dialect():
    told = checked(Listening, hostile_text)
    for dialect in dialect_names():
        assert written(dialect) == list(TEXTS)
    assert told == f"{len(TEXTS) * len(dialect_names())} actions in {len(dialect_names())} dialects"


def test_an_environment_that_takes_no_dialect_hears_every_text_in_its_own_and_arguments_as_messages():
    assert checked(HermesOnly, hostile_text) == f"{len(TEXTS)} actions"
    assert Listening.heard == [("hermes", text) for text in TEXTS]
    assert checked(HermesOnly, hostile_arguments) == f"{2 * len(VALUES)} actions"


def test_every_malformed_message_is_sent_and_each_tool_called_with_every_malformed_argument_and_twice_at_once():
    told = checked(Listening, hostile_messages)
    sent = messages()
    assert sent[: len(MESSAGES)] == list(MESSAGES)
    calls = [message["tool_calls"] for message in sent[len(MESSAGES) :]]
    single = [(call["function"]["name"], call["function"]["arguments"]) for [call, *more] in calls if not more]
    assert single == [(name, arguments) for name in ("look", "answer") for arguments in ARGUMENT_TEXTS]
    twice = [(first, second) for [first, *more] in calls for second in more]
    assert [[call["function"]["name"] for call in pair] for pair in twice] == [["look"] * 2, ["answer"] * 2]
    assert all(first["id"] == second["id"] and not isinstance(first["id"], str) for first, second in twice)
    assert told == f"{len(sent)} actions"


def test_every_argument_of_every_tool_takes_every_value():
    checked(Wide, hostile_arguments)
    calls = [message["tool_calls"][0]["function"] for message in messages()]
    given = {"look": ["box"], "answer": ["text"], "place": list("abcde")}
    assert len(calls) == len(VALUES) * 7
    for tool_name, names in given.items():
        for name in names:
            taken = [call["arguments"][name] for call in calls if call["name"] == tool_name]
            assert {repr(value) for value in VALUES} <= {repr(value) for value in taken}


def test_what_a_dialect_can_write_is_said_whole_cut_short_and_twice():
    told = checked(Listening, hostile_arguments)
    said = written("hermes")
    # NaN, the infinities, NUL and lone surrogates cannot be written as JSON; everything else can, for each of 2 tools.
    assert len(said) == 3 * 2 * (len(VALUES) - 4)
    for whole, cut, twice in zip(said[::3], said[1::3], said[2::3], strict=True):
        assert json.loads(whole.partition("\n")[2].rpartition("\n")[0])["name"] in ("look", "answer")
        assert whole.startswith(cut)
        assert len(cut) < len(whole)
        assert twice == whole * 2
    assert told == f"{len(Listening.heard)} actions"
    assert {name for name, _ in Listening.heard} == set(dialect_names())


def test_of_many_calls_a_bounded_share_from_all_tools_is_written():
    checked(Wide, hostile_arguments)
    said = written("hermes")[::3]
    assert 30 < len(said) <= 60
    for name in ("look", "answer", "place"):
        assert any(name in text for text in said)


def test_the_action_that_trips_it_is_shown_with_the_error(monkeypatch: pytest.MonkeyPatch):
    rows: list[tuple[Any, Check, str]] = [
        ("{0} {name} {0.__class__} %s %(x)s %n", hostile_text, "the action ‹'{0} {name} {0.__class__} %s %(x)s %n'›"),
        ({"role": "assistant"}, hostile_messages, "the action ‹{'role': 'assistant'}›"),
        (MESSAGES[8], hostile_messages, "'tool_calls': 'call'}›"),
    ]
    for at, check, shown in rows:
        monkeypatch.setattr(Stumbling, "at", at)
        words = refusal(lambda check=check: checked(Stumbling, check), raises=CheckFailed)
        assert f"{shown} raised LookupError: ‹stumbled›; raise ToolError" in words
    words = refusal(lambda: checked(Careless, hostile_arguments), raises=CheckFailed)
    assert "as a message, the action look(‹{'box': " in words
    assert "raised KeyError" in words


def test_an_answer_without_bound_is_named_with_the_text_it_answers():
    words = refusal(lambda: checked(Babbling, hostile_text), raises=CheckFailed)
    assert "in dialect 'hermes', the action ‹'NaN'› was answered by a message of 100000" in words


def test_an_episode_that_a_hostile_action_ended_is_begun_anew():
    checked(Fleeting, hostile_text)
    assert written("hermes") == list(TEXTS)
