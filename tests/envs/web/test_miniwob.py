"""MiniWoB++ pages as an environment: scripted players solve them, and seeds repeat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from agentgym.core.messages import text_of
from agentgym.core.task import Task
from agentgym.envs.web import MiniWoBEnv
from agentgym.envs.web.miniwob.solutions.registry import load_solutions
from tests.browsers import need_browser
from tests.played import call, play_solution
from tests.refusals import sampled

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


@sampled(1, 2)
def test_players_solve_their_pages_from_the_view_alone(env: MiniWoBEnv, count: int):
    unsolved = []
    for page in load_solutions():
        for seed in range(101, 101 + count):
            opening(env, page, seed)
            last = play_solution(env)
            raw = sum(turn.get("raw", 0.0) for turn in env._turns)
            if last.info["ending"] != "solved" or raw != pytest.approx(1.0):
                unsolved.append((page, seed, text_of(last.observation[-1])))
    assert unsolved == []


def test_a_seed_gives_the_same_page_after_other_episodes(env: MiniWoBEnv):
    with closing(MiniWoBEnv()) as other:
        for page in SEEDED:
            first = opening(other, page, 7)
            opening(env, page, 8)
            if page in load_solutions():
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
