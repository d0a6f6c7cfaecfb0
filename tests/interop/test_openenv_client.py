"""OpenEnv servers as environments: the typed action is a tool, and whether seeds are honoured is found out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.openenv_serving import serving
from tests.interop.theirs import failed_checks, hold_caveats, imported, named_checks

imported("openenv.core")

from agentgym.base.errors import InfrastructureError  # noqa: E402
from agentgym.core.messages import ToolCall, assistant  # noqa: E402
from agentgym.interop.envs.openenv import OpenEnvEnv  # noqa: E402
from tests.rows import each_row  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


TARGET = "agentgym.interop.envs.openenv:OpenEnvEnv"
BREAKS = 777


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving("hidden") as url:
        yield url


def guess(number: int) -> Any:
    return assistant("", [ToolCall("act", {"number": number})])


def test_an_error_of_the_server_is_an_infrastructure_error(url: str):
    env = OpenEnvEnv(url)
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="the disk is full"):
        env.step(guess(BREAKS))
    env.reset(seed=0)
    assert env.step(guess(1)).info["rewards"]["outcome"] in (0.0, 1.0)
    env.close()


@each_row("kind, does", [("hidden", "honours"), ("seedless", "ignores")])
def test_the_page_says_what_is_named(kind: str, does: str):
    with serving(kind) as url:
        env = OpenEnvEnv(url)
        hold_caveats("openenv", f"a server that {does} seeds", env)
        if kind == "hidden":
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
