"""The source of MiniWoB++ pages and the treatment that some of them need. Needs no browser."""

from __future__ import annotations

import pytest

from agentgym.envs.web import MiniWoBEnv
from agentgym.envs.web.miniwob.env import MORE_TURNS, NEEDS_CONTEXT, NEEDS_MOUSE, NEEDS_RELOAD
from agentgym.envs.web.miniwob.solutions.registry import load_solutions
from agentgym.tasks.miniwob import MiniWoBTasks
from agentgym.tasks.miniwob_pages import MINIWOB_PAGES

pytest.importorskip("miniwob", reason="needs the [web] extra")


def test_at_least_sixty_pages_have_a_player_and_special_pages_exist():
    assert len(load_solutions()) >= 60
    assert {*load_solutions(), *NEEDS_RELOAD, *NEEDS_CONTEXT, *NEEDS_MOUSE, *MORE_TURNS} <= set(MINIWOB_PAGES)


def test_splits_have_disjoint_seeds():
    source = MiniWoBTasks("click-test")
    seeds = [{source.get(split, index).data["seed"] for index in range(200)} for split in source.splits]
    assert [len(of_split) for of_split in seeds] == [200] * len(seeds)
    assert len(set.union(*seeds)) == 200 * len(seeds)


def test_pages_have_ten_turns_unless_they_need_more():
    limits = {page: MiniWoBEnv(page=page).max_turns for page in ("click-button", "choose-date", "book-flight")}
    assert limits == {"click-button": 10, "choose-date": 15, "book-flight": 15}
    assert MiniWoBEnv(page=["click-button", "choose-date"]).max_turns == 15
    assert MiniWoBEnv(page="choose-date", max_turns=3).max_turns == 3
