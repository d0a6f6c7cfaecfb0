"""MiniWoB++ pages as an environment: players that see no more than a policy solve them, and seeds repeat."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator

import pytest

from agentgym.envs.web import MiniWoBEnv
from agentgym.envs.web.miniwob.page import MORE_TURNS, NEEDS_CONTEXT, NEEDS_MOUSE, NEEDS_RELOAD
from agentgym.envs.web.miniwob.solutions.registry import load_solutions
from agentgym.errors import UsageError
from agentgym.messages import text_of
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.task import Task
from agentgym.tasks.miniwob import MiniWoBTasks
from agentgym.tasks.miniwob_pages import MINIWOB_PAGES
from tests.browsers import need_browser
from tests.web_play import call, kill_browsers, play_solution, said

pytest.importorskip("miniwob", reason="needs the [web] extra")

_AGAIN = ("click-checkboxes", "email-inbox", "click-tab-2", "click-color", "use-slider", "search-engine", "terminal")


def task(page: str, seed: int) -> Task:
    return Task(f"{page}/{seed}", "train", page, data={"page": page, "seed": seed})


def opening(env: MiniWoBEnv, page: str, seed: int) -> str:
    return text_of(env.reset(options={"task": task(page, seed)})[0][-1])


@pytest.fixture(scope="module")
def env() -> Iterator[MiniWoBEnv]:
    need_browser()
    env = MiniWoBEnv(max_turns=40)
    yield env
    env.close()


def test_at_least_sixty_pages_have_a_player():
    assert len(load_solutions()) >= 60
    assert set(load_solutions()) <= set(MINIWOB_PAGES)


def test_splits_have_seeds_of_their_own():
    source = MiniWoBTasks("click-test")
    seeds = {split: {source.get(split, index).data["seed"] for index in range(200)} for split in source.splits}
    assert all(len(of_split) == 200 for of_split in seeds.values())
    assert not seeds["train"] & seeds["validation"]
    assert not seeds["train"] & seeds["test"]
    assert pickle.loads(pickle.dumps(source)).find("miniwob/test/3") == source.get("test", 3)


def test_pages_that_are_not_there_are_named():
    with pytest.raises(UsageError, match="click-nothing"):
        MiniWoBTasks("click-nothing")


@pytest.mark.web
@pytest.mark.parametrize("page", load_solutions())
def test_a_player_that_sees_what_a_policy_sees_solves_its_page(env: MiniWoBEnv, page: str):
    for seed in (101, 102):
        env.reset(options={"task": task(page, seed)})
        last = play_solution(env)
        assert last.info["ending"] == "solved", (page, seed, said(last))
        assert sum(turn.get("raw", 0.0) for turn in env._turns) == pytest.approx(1.0)


@pytest.mark.web
@pytest.mark.parametrize("page", _AGAIN)
def test_a_seed_looks_the_same_after_other_episodes_and_elsewhere(env: MiniWoBEnv, page: str):
    other = MiniWoBEnv()
    try:
        first = opening(other, page, 7)
    finally:
        other.close()
    opening(env, page, 8)
    if page in load_solutions():
        play_solution(env)
    assert opening(env, page, 7) == first
    assert opening(env, page, 8) != first or page == "terminal"


@pytest.mark.web
def test_a_wrong_click_ends_the_episode_unsolved(env: MiniWoBEnv):
    opening(env, "click-test-2", 3)
    view = env._view
    assert view is not None
    last = call(env, "click", ref=view.find("button", "TWO").ref)
    assert last.terminated
    assert not last.info["is_success"]
    assert last.info["rewards"]["raw"] == -1.0
    assert last.info["rewards"]["finished"] == 1.0


@pytest.mark.web
def test_a_double_click_that_ends_an_episode_begins_no_other(env: MiniWoBEnv):
    opening(env, "click-test", 3)
    view = env._view
    assert view is not None
    last = call(env, "double_click", ref=view.find("button").ref)
    assert last.info["is_success"]
    assert last.info["rewards"]["raw"] == 1.0


@pytest.mark.web
def test_nothing_but_the_page_is_reachable_and_its_rewards_are_not_shown(env: MiniWoBEnv):
    text = opening(env, "click-button", 1)
    assert "Last reward" not in text
    assert "Episodes done" not in text
    assert not {"goto", "answer", "finish"} & set(env.tools.names)


@pytest.mark.web
def test_a_killed_browser_is_replaced_with_the_next_episode(env: MiniWoBEnv):
    first = opening(env, "click-button", 1)
    kill_browsers()
    assert opening(env, "click-button", 1) == first


@pytest.mark.web
def test_more_episodes_than_contexts_wait_for_their_turn():
    need_browser()
    source = MiniWoBTasks("click-button", 0)
    jobs = [Job(source.get("train", index), seed=index) for index in range(16)]
    factory = EnvFactory("agentgym/miniwob-click-button-v0", {"max_sessions": 2})
    limits = Limits(max_in_flight=16, retries=0)
    assert all(trajectory.success for trajectory in asyncio.run(collect(jobs, ScriptedPolicy(), factory, limits)))


def test_pages_with_a_treatment_are_pages():
    treated = [*NEEDS_RELOAD, *NEEDS_CONTEXT, *NEEDS_MOUSE, *MORE_TURNS]
    assert set(treated) <= set(MINIWOB_PAGES)


def test_pages_that_need_more_turns_have_them_and_others_keep_ten():
    limits = {page: MiniWoBEnv(page=page).max_turns for page in ("click-button", "choose-date", "book-flight")}
    assert limits == {"click-button": 10, "choose-date": 15, "book-flight": 15}
    assert MiniWoBEnv(page=["click-button", "choose-date"]).max_turns == 15
    assert MiniWoBEnv(page="choose-date", max_turns=3).max_turns == 3


@pytest.mark.web
def test_the_turn_limit_of_a_page_is_enough_for_the_farthest_month():
    need_browser()
    env = MiniWoBEnv(page="choose-date")
    try:
        env.reset(options={"task": task("choose-date", 0)})
        last = play_solution(env)
        assert (last.info["ending"], len(env._turns)) == ("solved", 14)
    finally:
        env.close()


@pytest.mark.web
def test_where_the_last_episode_left_the_mouse_does_not_matter(env: MiniWoBEnv):
    for seed in (213, 214):  # whose list opens where the first one's button was
        env.reset(options={"task": task("book-flight", seed)})
        assert play_solution(env).info["ending"] == "solved"
        assert len(env._turns) == 10
