"""MiniWoB++ pages as an environment: scripted players solve them, and seeds repeat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from agentgym.core.messages import text_of
from agentgym.core.task import Task
from agentgym.envs.web import MiniWoBEnv
from agentgym.envs.web.miniwob.env import pages_folder
from agentgym.envs.web.miniwob.solutions.registry import load_solutions
from agentgym.tasks.miniwob_pages import LEFT_OUT, MINIWOB_PAGES
from tests.browsers import need_browser
from tests.played import call, play_solution, said
from tests.rows import each_row

pytest.importorskip("miniwob", reason="needs the [web] extra")

pytestmark = [pytest.mark.real, pytest.mark.web]

need_browser()

SEEDED = ("click-checkboxes", "email-inbox", "click-tab-2", "click-color", "use-slider", "search-engine", "terminal")


def task(page: str, seed: int) -> Task:
    return Task(f"{page}/{seed}", "train", page, data={"page": page, "seed": seed})


def opening(env: MiniWoBEnv, page: str, seed: int) -> str:
    return text_of(env.reset(options={"task": task(page, seed)})[0][-1])


@pytest.fixture(scope="module")
def env() -> Iterator[MiniWoBEnv]:
    env = MiniWoBEnv(max_turns=40)
    yield env
    env.close()


@pytest.mark.nightly
@pytest.mark.parametrize("actions", ["refs", "pixels"])
def test_solutions_solve_every_page_within_its_turns(actions: Any):
    """The page gives its full reward, or almost: some pages measure a distance in pixels."""
    unsolved = []
    for page in MINIWOB_PAGES:
        with closing(MiniWoBEnv(page=page, actions=actions)) as env:
            opening(env, page, 101)
            last = play_solution(env)
            if last.info["ending"] != "solved" or sum(turn.get("raw", 0.0) for turn in env._turns) < 0.9:
                unsolved.append((page, text_of(last.observation[-1])))
    assert unsolved == []


@each_row(
    "page, actions",
    [
        (page, actions)
        for page in ("daily-calendar", "draw-circle", "highlight-text-2", "terminal", "choose-list", "sign-agreement")
        for actions in ("refs", "pixels")
    ],
)
def test_solutions_drag_select_type_and_point(page: str, actions: Any):
    with closing(MiniWoBEnv(page=page, actions=actions)) as env:
        opening(env, page, 3)
        assert play_solution(env).info["ending"] == "solved"


def test_every_offered_page_has_a_solution_and_no_other_does():
    assert set(load_solutions()) == set(MINIWOB_PAGES)
    pages = {path.stem for path in (pages_folder() / "miniwob").glob("*.html")}
    assert pages == {*MINIWOB_PAGES, *LEFT_OUT}


TOGGLES = {
    "social-media-all": "document.querySelector('.controls .like').click()",
    "email-inbox-forward": "document.querySelector('.star').click()",
    "click-shades": "document.querySelector('span[data-color]').click()",
    "odd-or-even": "document.querySelector('.odd').click()",
}


@each_row("page, click", list(TOGGLES.items()))
def test_a_view_shows_that_a_button_stays_pressed(env: MiniWoBEnv, page: str, click: str):
    opening(env, page, 4)
    env._page.run(click)
    assert "(pressed)" in said(call(env, "wait", seconds=1))


@each_row(
    "page, words",
    [
        ("count-sides", "a line through "),
        ("number-checkboxes", "boxes to tick: "),
        ("visual-addition", "block"),
        ("use-colorwheel-2", "rgb("),
        ("circle-center", "circle"),
        ("resize-textarea", "handle, "),
        ("use-slider-2", "track "),
    ],
)
def test_a_view_says_what_a_picture_shows(env: MiniWoBEnv, page: str, words: str):
    assert words in opening(env, page, 5)


def test_buttons_that_lit_up_between_two_views_are_named(env: MiniWoBEnv):
    opening(env, "simon-says", 2)
    lit = said(call(env, "wait", seconds=5))
    sequence = env._page.read("window.lit")
    assert 3 <= len(sequence) <= 5
    assert f"lit up so far: {', '.join(sequence)}" in lit


def test_a_seed_gives_the_same_page_after_other_episodes(env: MiniWoBEnv):
    with closing(MiniWoBEnv()) as other:
        for page in SEEDED:
            first = opening(other, page, 7)
            opening(env, page, 8)
            play_solution(env)
            assert opening(env, page, 7) == first
            assert opening(env, page, 8) != first or page == "terminal"


def test_a_wrong_click_ends_the_episode_unsolved(env: MiniWoBEnv):
    opening(env, "click-test-2", 3)
    assert env._view is not None
    last = call(env, "click", ref=env._view.find("button", "TWO").ref)
    assert (last.terminated, last.info["is_success"], last.info["rewards"]["raw"]) == (True, False, -1.0)


def test_only_the_page_is_reachable_and_its_rewards_are_hidden(env: MiniWoBEnv):
    text = opening(env, "click-button", 1)
    assert "Last reward" not in text
    assert "Episodes done" not in text
    assert not {"goto", "answer", "finish"} & set(env.tools.names)
