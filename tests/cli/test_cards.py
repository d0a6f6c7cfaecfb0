"""Cards match the classes: those in docs/envs are up to date, and any environment can have one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from agentgym.check.cards import CardSubject, card, overview, read_speeds, subjects
from agentgym.check.cards.card import SCORES, Speed
from agentgym.cli.app import app
from agentgym.core.registry import load_class
from agentgym.envs.catalog import ENVIRONMENTS
from agentgym.tools.sandbox.registry import automatic
from tests.browsers import why_no_browser

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


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["cards", *words])


def test_the_command_prints_a_card_or_writes_it(tmp_path: Path):
    assert run("guess", "-n", "1").stdout.startswith("# guess\n")
    assert run("guess", "-n", "1", "--out", str(tmp_path / "cards")).exit_code == 0
    assert [path.name for path in (tmp_path / "cards").iterdir()] == ["guess.md"]
