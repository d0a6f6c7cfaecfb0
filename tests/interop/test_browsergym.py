"""Tasks of BrowserGym as environments, in a Chromium that is there already."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.theirs import hold_caveats, imported

imported("browsergym.core")
BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
if BROWSER is None:
    pytest.skip("needs a Chromium", allow_module_level=True)

from agentgym.core.messages import ToolCall, assistant, text_of  # noqa: E402
from agentgym.interop.envs.browsergym import BrowserGymEnv  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.web, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def env() -> Iterator[BrowserGymEnv]:
    instance = BrowserGymEnv("miniwob.click-button", browser=BROWSER)
    yield instance
    instance.close()


def act(action: str) -> Any:
    return assistant("", [ToolCall("act", {"action": action})])


def opening(env: BrowserGymEnv, index: int) -> str:
    return text_of(env.reset(seed=0, options={"split": "test", "index": index})[0][-1])


def test_a_task_is_solved_by_its_actions(env: BrowserGymEnv):
    page = opening(env, 0)
    goal = re.search(r'Click on the "(.*?)" button', page)
    assert goal
    button = re.search(rf"\[(\w+)\] button '{re.escape(goal[1])}'", page)
    assert button
    result = env.step(act(f"click('{button[1]}')"))
    assert result.info["rewards"] == {"outcome": 1.0, "reward": 1.0}
    assert (result.terminated, result.info["ending"]) == (True, "solved")


def test_the_page_says_what_is_named(env: BrowserGymEnv):
    hold_caveats("browsergym-core", "miniwob.click-button", env)


def test_the_model_reads_the_error_of_a_wrong_action(env: BrowserGymEnv):
    opening(env, 0)
    result = env.step(act("click('999')"))
    assert "Could not find element" in text_of(result.observation[-1])
    assert not result.terminated
