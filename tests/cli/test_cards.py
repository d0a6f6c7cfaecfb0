"""Cards match the classes: those in docs/envs are up to date, and any environment can have one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym import Channel, Env, GeneratedTasks, Reason, Task, ToolCall, tool
from agentgym.base.errors import UsageError
from agentgym.check.cards import CardSubject, card, overview, read_speeds, subjects
from agentgym.check.cards.card import EXAMPLE, SCORES, Speed
from agentgym.cli.app import app
from agentgym.core.registry import load_class
from agentgym.envs.catalog import ENVIRONMENTS
from agentgym.tools.sandbox.registry import automatic
from tests.browsers import why_no_browser
from tests.refusals import not_refused

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "docs" / "envs"
SPEEDS = ROOT / "benchmarks" / "results" / "step_times.json"
REGENERATE = "an environment has changed; write its card again: scripts/docs cards"
LIGHT = ("guess", "errand", "sql", "search")
SANDBOXED = ("code", "swe")
WEB = ("miniwob", "web")
SLOW = (*WEB, "swe")
"""The scores of these take minutes, so only the rest of their cards is compared."""
ALL = (*LIGHT, *SANDBOXED, *WEB)


@cache
def bundled() -> dict[str, CardSubject]:
    return {subject.name: subject for subject in subjects() if subject.ids[0] in ENVIRONMENTS}


def card_text(name: str, played: int) -> str:
    return card(bundled()[name], played=played, speed=speeds().get(name))


def speeds() -> Mapping[str, Speed]:
    return read_speeds(SPEEDS) if SPEEDS.is_file() else {}


def without(text: str, heading: str) -> str:
    """Return a card without one section."""
    return re.sub(rf"^{heading}$.*?(?=^## )", "", text, flags=re.M | re.S)


def card_file(name: str) -> str:
    return (CARDS / f"{name}.md").read_text(encoding="utf-8")


def marked(name: str) -> Any:
    marks = [pytest.mark.web] * (name in WEB) + [pytest.mark.real] * (name not in LIGHT)
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name) for name in ALL])
def test_cards_in_the_documentation_are_up_to_date(name: str):
    if name in WEB and why_no_browser():
        pytest.skip(why_no_browser())
    if name in SANDBOXED and automatic() is None:
        pytest.skip("no backend of the sandbox works here")
    if name in SLOW:
        assert without(card_text(name, 1), SCORES) == without(card_file(name), SCORES), REGENERATE
    else:
        assert card_text(name, 10) == card_file(name), REGENERATE


def test_every_class_has_a_card_and_the_overview_lists_all():
    assert {path.stem for path in CARDS.glob("*.md")} == {*bundled(), "README"} == {*ALL, "README"}
    assert overview(list(bundled().values()), speeds()) == card_file("README"), REGENERATE
    for name in ALL:
        [path] = re.findall(r"^\| class \| `(.+)` \|$", card_file(name), re.M)
        assert load_class(path) is bundled()[name].kind


def test_players_without_the_gold_earn_less_than_half_of_the_solutions_reward():
    for name in ALL:
        rows = re.findall(r"^\| (.+?) \| (\d+) of (\d+)[^|]*\| [\d.]+ \| ([\d.-]+) \|", card_file(name), re.M)
        (_, solved, tasks, most), *others = rows
        assert int(solved) >= int(tasks) - 1, name
        assert len(others) == 4, name
        assert all(float(paid) < float(most) / 2 for _, _, _, paid in others), name


# Any environment.


class EchoEnv(Env):
    """Say a word | or `two`.

    Task: a word
        to say.
    Version history: v1, says.

    Args:
        loud: Whether it | shouts.
    """

    channels = {"outcome": Channel("1 if it was said"), "tries": Channel("tries", per_turn=True, per_call=True)}

    def __init__(self, *, loud: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.loud = loud

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        """One task for each split."""
        return GeneratedTasks(
            "echo", lambda split, index: Task(f"echo/{split}/0", split, f"Say {split}: ```"), {"train": 1, "test": 1}
        )

    @tool
    def say(self, word: str, times: int = 1) -> str:
        """Say a word.

        Args:
            word: The | word.
            times: How often.
        """
        self.reward("outcome", float(word == self.task.split))
        self.finish(Reason.ANSWERED)
        return "```\nsaid\n```"

    def solution(self, task: Task):
        yield ToolCall("say", {"word": task.split})


ECHO = CardSubject("echo", EchoEnv, ("tests.cli.test_cards:EchoEnv",))


@pytest.fixture(autouse=True)
def _make_echo_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    make = CardSubject.make
    monkeypatch.setattr(CardSubject, "make", lambda self: self.kind() if self is ECHO else make(self))


def test_a_card_shows_the_class_an_episode_and_scores():
    text = card(ECHO, played=3)
    lines = [
        "# echo",
        "**Task:** a word to say.",
        "| `word` | string | required | The \\| word. |",
        "| `times` | integer | `1` | How often. |",
        "| `tries` | 0 to 1 | each call | tries |",
        "| `train` | 1 |",
        "| `loud` | `False` | Whether it \\| shouts. |",
        "v1, says.",
    ]
    assert [line for line in lines if f"\n{line}\n" not in f"\n{text}"] == []
    parts = (
        "**Turn 1**: paid 1, `outcome` 1",
        "| its solution | 1 of 1 | 1 | 1 | 1 |",
        "| silence | 0 of 1 | 3 | 0 | 0 |",
    )
    assert [part for part in parts if part not in text] == []
    example = text.partition(EXAMPLE)[2].partition("## Tools")[0]
    assert "````text" in example
    assert re.findall(r"^(`{3,})(?:text)?$", example, re.M).count("````") == 4, (
        "fences in the text do not end the block"
    )
    bare = card(ECHO, played=0)
    assert (EXAMPLE in bare, SCORES in bare) == (False, False)


def test_families_have_one_card_and_members_their_own():
    [miniwob] = subjects(["miniwob"])
    assert (miniwob.is_family, len(miniwob.members)) == (True, len(miniwob.ids))
    assert "click-button" in miniwob.members
    [page] = subjects(["miniwob-click-button"])
    assert (page.name, page.ids) == ("miniwob-click-button", ("agentgym/miniwob-click-button-v0",))
    with pytest.raises(UsageError, match="did you mean 'guess'"):
        subjects(["gues"])


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["cards", *words])


def test_the_command_prints_a_card_or_writes_it(tmp_path: Path):
    assert run("guess", "-n", "1").stdout.startswith("# guess\n")
    assert run("guess", "-n", "1", "--out", str(tmp_path / "cards")).exit_code == 0
    assert [path.name for path in (tmp_path / "cards").iterdir()] == ["guess.md"]


def test_measured_speeds_are_shown_as_magnitudes(tmp_path: Path):
    speed = Speed(reset_ms=0.4, step_ms=47)
    assert "\n| speed | less than 1 ms for a reset, tens of ms for a step |\n" in card(ECHO, played=0, speed=speed)
    measured = replace(speed, machine="2 cores of a kettle")
    assert " tens of ms for a step, on 2 cores of a kettle |\n" in card(ECHO, played=0, speed=measured)
    assert "| 1 | tens of ms |" in overview([ECHO], {"echo": speed})
    assert "a step takes" not in overview([ECHO], {})

    def read(text: str) -> object:
        (tmp_path / "speeds.json").write_text(text)
        return read_speeds(tmp_path / "speeds.json")

    texts = ["{", "{}", '{"rows": [{"environment": "sql"}]}', '{"rows": 3}']
    assert not_refused(read, [(text, "speeds.json") for text in texts]) == []
