"""Cards say what the classes say: those in docs/envs are up to date, and any environment can have one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentgym import Channel, Env, GeneratedTasks, Reason, Task, ToolCall, tool
from agentgym.cards import Subject, card, overview, read_speeds, subjects
from agentgym.cards.card import EXAMPLE, SCORES
from agentgym.cards.markdown import block, code, table
from agentgym.cards.speeds import Speed
from agentgym.cli import app
from agentgym.envs.catalog import ENVIRONMENTS
from agentgym.errors import UsageError
from agentgym.registry import load_class
from agentgym.tools.sandbox.registry import automatic
from tests.browsers import why_no_browser

ROOT = Path(__file__).parent.parent
CARDS = ROOT / "docs" / "envs"
SPEEDS = ROOT / "benchmarks" / "results" / "step_times.json"
REGENERATE = "an environment has changed; write its card again: scripts/docs cards"
LIGHT = ("guess", "errand", "sql", "search")
SANDBOXED = ("code",)
WEB = ("miniwob", "web")
SLOW = (*WEB, "swe")
"""Scores of these take minutes; the rest of their cards is compared."""


@cache
def bundled() -> dict[str, Subject]:
    return {each.name: each for each in subjects() if each.ids[0] in ENVIRONMENTS}


def made(name: str, played: int) -> str:
    return card(bundled()[name], played=played, speed=speeds().get(name))


def speeds() -> Mapping[str, Speed]:
    return read_speeds(SPEEDS) if SPEEDS.is_file() else {}


def without(text: str, heading: str) -> str:
    """Return a card without one section."""
    return re.sub(rf"^{heading}$.*?(?=^## )", "", text, flags=re.M | re.S)


def written(name: str) -> str:
    return (CARDS / f"{name}.md").read_text(encoding="utf-8")


def need(name: str) -> None:
    if name in WEB and why_no_browser():
        pytest.skip(why_no_browser())
    if name in (*SANDBOXED, "swe") and automatic() is None:
        pytest.skip("no backend of the sandbox works here")


@pytest.mark.parametrize("name", [*LIGHT, *SANDBOXED])
def test_the_card_in_the_documentation_is_that_of_the_class(name: str):
    need(name)
    assert made(name, 10) == written(name), REGENERATE


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.web) if name in WEB else name for name in SLOW])
def test_all_but_the_scores_of_a_slow_one_is_that_of_the_class(name: str):
    need(name)
    assert without(made(name, 1), SCORES) == without(written(name), SCORES), REGENERATE


@pytest.mark.parametrize("name", [*LIGHT, *SANDBOXED, *SLOW])
def test_the_class_can_be_imported_from_where_the_card_says(name: str):
    [path] = re.findall(r"^\| class \| `(.+)` \|$", written(name), re.M)
    assert load_class(path) is bundled()[name].kind


def test_every_class_has_a_card_and_the_overview_names_it():
    assert {path.stem for path in CARDS.glob("*.md")} == {*bundled(), "README"} == {*LIGHT, *SANDBOXED, *SLOW, "README"}
    assert overview(list(bundled().values()), speeds()) == written("README"), REGENERATE


@pytest.mark.parametrize("name", [*LIGHT, *SANDBOXED, *SLOW])
def test_no_player_without_the_gold_is_paid_like_the_solution(name: str):
    rows = re.findall(r"^\| (.+?) \| (\d+) of (\d+)[^|]*\| [\d.]+ \| ([\d.-]+) \|", written(name), re.M)
    (_, solved, tasks, most), *others = rows
    assert int(solved) >= int(tasks) - 1
    assert len(others) == 4
    assert all(float(paid) < float(most) / 2 for _, _, _, paid in others)


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


ECHO = Subject("echo", EchoEnv, ("tests.test_cards:EchoEnv",))


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Subject, "make", lambda self: self.kind())
    return card(ECHO, played=3)


def test_a_card_says_what_the_class_says(echo: str):
    for line in (
        "# echo",
        "**Task:** a word to say.",
        "| `word` | string | required | The \\| word. |",
        "| `times` | integer | `1` | How often. |",
        "| `tries` | 0 to 1 | each call | tries |",
        "| `train` | 1 |",
        "| `loud` | `False` | Whether it \\| shouts. |",
        "v1, says.",
    ):
        assert f"\n{line}\n" in f"\n{echo}"


def test_a_card_shows_an_episode_and_who_solves_what(echo: str):
    assert "**Turn 1**: paid 1, `outcome` 1" in echo
    assert "| its solution | 1 of 1 | 1 | 1 | 1 |" in echo
    assert "| silence | 0 of 1 | 3 | 0 | 0 |" in echo


def test_what_a_model_or_a_tool_wrote_cannot_end_its_block(echo: str):
    example = echo.partition(EXAMPLE)[2].partition("## Tools")[0]
    fences = re.findall(r"^(`{3,})(?:text)?$", example, re.M)
    assert "````text" in example
    assert fences.count("````") == 4


def test_without_episodes_there_is_no_example(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Subject, "make", lambda self: self.kind())
    text = card(ECHO, played=0)
    assert EXAMPLE not in text
    assert SCORES not in text


def test_code_and_tables_survive_marks_in_their_text():
    assert code("a`b") == "`` a`b ``"
    assert table(("a",), [("b|c\nd",)]) == "| a |\n| --- |\n| b\\|c d |"
    assert block("```\nx\n```").startswith("````text\n")


def test_families_have_one_card_and_names_are_found():
    [miniwob] = subjects(["miniwob"])
    assert (miniwob.is_family, len(miniwob.members)) == (True, len(miniwob.ids))
    assert "click-button" in miniwob.members
    [page] = subjects(["miniwob-click-button"])
    assert (page.name, page.ids) == ("miniwob-click-button", ("agentgym/miniwob-click-button-v0",))
    with pytest.raises(UsageError, match="did you mean 'guess'"):
        subjects(["gues"])


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["cards", *words])


def test_the_command_prints_a_card_or_writes_files(tmp_path: Path):
    assert run("guess", "-n", "1").stdout.startswith("# guess\n")
    assert run("guess", "-n", "1", "--out", str(tmp_path / "cards")).exit_code == 0
    assert [path.name for path in (tmp_path / "cards").iterdir()] == ["guess.md"]


def test_measured_speeds_are_shown_by_magnitude(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Subject, "make", lambda self: self.kind())
    speed = Speed(reset_ms=0.4, step_ms=47)
    assert "\n| speed | less than 1 ms for a reset, tens of ms for a step |\n" in card(ECHO, played=0, speed=speed)
    known = replace(speed, machine="2 cores of a kettle")
    assert " tens of ms for a step, on 2 cores of a kettle |\n" in card(ECHO, played=0, speed=known)
    assert "| 1 | tens of ms |" in overview([ECHO], {"echo": speed})
    assert "a step takes" not in overview([ECHO], {})


@pytest.mark.parametrize("text", ["{", "{}", '{"rows": [{"environment": "sql"}]}', '{"rows": 3}'])
def test_speeds_of_another_form_are_refused_in_one_line(tmp_path: Path, text: str):
    (tmp_path / "speeds.json").write_text(text)
    with pytest.raises(UsageError, match=r"cannot read speeds from .*speeds\.json"):
        read_speeds(tmp_path / "speeds.json")
