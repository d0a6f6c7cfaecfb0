"""OpenEnv servers as environments: the typed action is a tool, and whether seeds are honoured is found out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.openenv_serving import serving
from tests.interop.theirs import failed_checks, hold_caveats, imported, named_checks

imported("openenv.core")

from agentgym.errors import InfrastructureError, UsageError  # noqa: E402
from agentgym.interop.openenv_client import OpenEnvEnv  # noqa: E402
from agentgym.messages import ToolCall, assistant, text_of  # noqa: E402
from tests.rows import each_row  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


TARGET = "agentgym.interop.openenv_client:OpenEnvEnv"
BREAKS = 777


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving("hidden") as found:
        yield found


def guess(number: int) -> Any:
    return assistant("", [ToolCall("act", {"number": number})])


def test_the_fields_of_the_action_are_the_arguments_of_the_tool(url: str):
    env = OpenEnvEnv(url)
    assert set(env.tools.schemas[0]["function"]["parameters"]["properties"]) == {"number"}
    env.close()


def test_seeds_are_passed_on_and_rewards_come_back(url: str):
    env = OpenEnvEnv(url)
    openings = [text_of(env.reset(seed=seed, options={"split": "train", "index": 5})[0][-1]) for seed in (0, 1)]
    assert openings[0] == openings[1]
    results = []
    while env.reason is None:
        results.append(env.step(guess(len(results) + 1)))
    assert [result.reward for result in results[:-1]] == [0.0] * (len(results) - 1)
    assert results[-1].info["rewards"] == {"outcome": 1.0, "reward": 1.0}
    assert results[-1].info["ending"] == "solved"
    env.close()


def test_an_error_of_the_server_is_an_infrastructure_error(url: str):
    env = OpenEnvEnv(url)
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="the disk is full"):
        env.step(guess(BREAKS))
    env.reset(seed=0)
    assert env.step(guess(1)).info["rewards"]["outcome"] in (0.0, 1.0)
    env.close()


def test_a_server_that_ignores_seeds_is_named():
    with serving("seedless") as url:
        env = OpenEnvEnv(url)
        assert "the server ignores seeds" in str(env.caveats()[0])
        env.close()


@each_row("kind, does", [("hidden", "honours"), ("seedless", "ignores")])
def test_the_page_says_what_is_named(kind: str, does: str):
    with serving(kind) as url:
        env = OpenEnvEnv(url)
        hold_caveats("openenv", f"a server that {does} seeds", env)
        env.close()


def test_no_server_is_one_line():
    with pytest.raises(UsageError, match="is no OpenEnv server that can be reached"):
        OpenEnvEnv("http://127.0.0.1:9")


def test_what_fails_the_checks_is_named_beforehand(url: str):
    env = OpenEnvEnv(url)
    assert failed_checks(TARGET, {"url": url}) == named_checks(env) == {"solution-solves"}
    env.close()


def test_a_step_is_never_played_in_another_session_than_its_episode(url: str):
    env = OpenEnvEnv(url)
    env.reset(seed=0)
    env._session.disconnect()  # as when a server is started again, or a proxy closes what is idle
    with pytest.raises(InfrastructureError, match="in a new session"):
        env.step(guess(3))
    env.reset(seed=0)
    assert env.step(guess(3)).observation
    env.close()


class Refusing:
    """A session that refuses whatever is asked."""

    def reset(self, **_: Any) -> Any:
        raise RuntimeError("Server error: refused (code: VALIDATION_ERROR)")

    def close(self) -> None:
        raise OSError("there is no line")


def test_a_reset_that_the_server_refuses_is_no_mistake_of_the_models(url: str):
    env = OpenEnvEnv(url)
    env._session = Refusing()
    with pytest.raises(InfrastructureError, match="VALIDATION_ERROR"):
        env.reset(seed=0)
    env.close()
