"""Checks of the gold detect leaks to the policy, and only leaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from agentgym.check.catalog import Check
from agentgym.check.gold import gold_hidden_at_start, gold_hidden_in_play, secrets_of, shows
from agentgym.check.outcomes import CheckFailed
from agentgym.check.subject import Subject
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool
from tests.check.sound_envs import SPLITS, SoundEnv, SoundOpenEnv, boxes_task, closed_task
from tests.refusals import differing


def checked(env: type[Env], check: Check, **kwargs: Any) -> str:
    return check.run(Subject(f"{env.__module__}:{env.__qualname__}", kwargs)) or ""


class Boxes(SoundEnv):
    """Boxes with the additional gold of `gold_of`."""

    @classmethod
    def default_tasks(cls) -> Any:
        def task(split: str, index: int) -> Task:
            plain = boxes_task(split, index)
            return replace(plain, gold={**plain.gold, **cls.gold_of(split, index)})

        return GeneratedTasks("boxes", task, SPLITS)

    @classmethod
    def gold_of(cls, split: str, index: int) -> dict[str, Any]:
        return {}


# Canaries.


class Watched(Boxes):
    """Records the gold of every task."""

    golds: ClassVar[list[Mapping[str, Any]]] = []

    @classmethod
    def gold_of(cls, split: str, index: int) -> dict[str, Any]:
        return {
            "short": "abc",
            "sure": True,
            "nothing": None,
            "number": 10_000_000 + index,
            "share": 0.123456789,
            "nested": [{"note": "the first note"}, {"note": "the second note"}],
        }

    def start(self, task: Task) -> str:
        self.golds.append(task.gold)
        return super().start(task)


def test_every_telling_piece_of_gold_is_replaced_by_a_unique_canary():
    Watched.golds.clear()
    finding = checked(Watched, gold_hidden_in_play)
    plain = [str(value) for gold in Watched.golds if "canary" not in gold["rubric"] for value in gold.values()]
    marked = [gold for gold in Watched.golds if "canary" in gold["rubric"]]
    assert marked
    for gold in marked:
        assert [gold[name] for name in ("sure", "nothing")] == [True, None]
        notes = [part["note"] for part in gold["nested"]]
        pieces = [gold["rubric"], gold["number"], gold["share"], gold["short"], *notes]
        assert [type(piece) for piece in pieces] == [str, int, float, str, str, str]
        assert len({str(piece) for piece in pieces}) == 6
        assert not {str(piece) for piece in pieces} & set(plain)
        assert gold["content"] in plain, "the task's data has it"
    assert finding is not None
    canaries, episodes = (int(word) for word in finding.split() if word.isdigit())
    assert canaries >= 6 * episodes > 0


def test_telling_pieces_are_long_and_absent_from_the_data():
    rows: list[tuple[dict[str, Any], list[str]]] = [
        ({"a": "7 chars"}, []),
        ({"a": "8 chars."}, ["8 chars."]),
        ({"a": ["of a list", ("of a tuple",)], "b": {"c": "of a dict"}}, ["of a dict", "of a list", "of a tuple"]),
        ({"a": 12345678, "b": 1234567, "c": -0.25, "d": 1.234567}, ["1.234567", "12345678"]),
        ({"a": True, "b": None}, []),
        ({"a": "in the data", "b": "is a key", "c": 98765432}, []),
        ({"keys of gold are its form": "a"}, []),
    ]
    task = Task("t", "train", "Say it.", data={"is a key": ["it is in the data", (98765432,)]})
    assert differing(lambda gold: secrets_of(replace(task, gold=gold)), rows) == []


def test_a_piece_is_detected_verbatim_or_escaped_as_json():
    leaks = ['He said "héllo"\n.', r"{'x': 'He said \"h\u00e9llo\"\n.'}", r"{'x': 'He said \"héllo\"\n.'}"]
    others = [r"He said \"h\u00e9llo\"\n", r"He said \"héllo\"\n", r"e said \"h\u00e9llo\"\n."]
    others += [r"e said \"héllo\"\n.", 'He said "hallo"\n.', ""]
    rows = [(text, text in leaks) for text in leaks + others]
    assert differing(lambda text: shows(text, 'He said "héllo"\n.'), rows) == []


# Openings.


class CommonWords(Boxes):
    """Lists all possible answers in every opening."""

    @classmethod
    def gold_of(cls, split: str, index: int) -> dict[str, Any]:
        return {"colour": ["dark blue 01", "light red 02"][index % 2], "table": "customers", "index": index}

    def start(self, task: Task) -> str:
        return f"{super().start(task)} It is dark blue 01 or light red 02. Look into customers."


def test_common_words_and_answers_visible_in_the_world_are_not_leaks():
    # For each of 8 tasks: the rubric and the colour, but not the word; the rubric and the content.
    for env in (CommonWords, SoundOpenEnv):
        assert str(checked(env, gold_hidden_at_start)).startswith("looked for 16 pieces of gold")
    checked(SoundOpenEnv, gold_hidden_in_play)


# Tool results.


class Guarded(SoundEnv):
    """Shows the real rubric, but never a canary."""

    def see(self, box: str) -> str:
        rubric = self.task.gold["rubric"]
        return f"{super().see(box)} {rubric if rubric.startswith('Full marks') else ''}"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": task.gold["content"]})


class ShownAtTheEnd(SoundEnv):
    """Shows the rubric after the end."""

    def take(self, text: str) -> str:
        return f"{super().take(text)} {self.task.gold['rubric']}"


class Confirming(SoundEnv):
    """Repeats a right answer to ask for confirmation."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", closed_task, SPLITS)

    @tool
    def answer(self, text: str, sure: bool) -> str:
        """Answer, and end if it is sure.

        Args:
            text: The content of the box.
            sure: Whether to end.
        """
        return super().answer(text) if sure else self.reply(text)

    def reply(self, text: str) -> str:
        return f"You mean {text}, sure?" if text == self.task.gold["content"] else "Are you sure?"

    def see(self, box: str) -> str:
        return "It is dark."

    def solution(self, task: Task) -> Solution:
        for sure in (False, True):
            yield ToolCall("answer", {"text": task.gold["content"], "sure": sure})


def test_gold_shown_at_the_end_or_said_before_is_not_a_leak():
    for env in (ShownAtTheEnd, Confirming):
        for dialect in ("hermes", "tags"):
            checked(env, gold_hidden_in_play, dialect=dialect)


class RevealedTooEarly(Confirming):
    """Reveals the right answer on the first attempt."""

    def reply(self, text: str) -> str:
        content = self.task.gold["content"]
        return f"{super().reply(text)}{f' Not {content}?' if 'lantern' in content else ''}"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("answer", {"text": "a guess", "sure": False})
        yield from super().solution(task)


def test_gold_shown_before_the_policy_has_said_it_is_detected():
    rows = [
        (Guarded, r"turn 1 of the \w+ player: a tool result or info shows ‹Full marks for"),
        (RevealedTooEarly, r"player: a tool result or info shows ‹\w+ lantern \d+›"),
    ]
    for env, pattern in rows:
        with pytest.raises(CheckFailed, match=pattern):
            checked(env, gold_hidden_in_play)
