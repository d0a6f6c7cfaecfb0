"""Games of TextArena for two: an opponent in the other seat, either seat by seed, rewards as TextArena has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.theirs import failed_checks, hold_caveats, imported, named_checks

imported("textarena")

from agentgym.base.errors import InfrastructureError  # noqa: E402
from agentgym.core.engine.steps import StepResult  # noqa: E402
from agentgym.core.messages import text_of  # noqa: E402
from agentgym.interop.envs.textarena import TextArenaEnv, legal_moves  # noqa: E402
from tests.interop import opponents  # noqa: E402
from tests.rows import each_row  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::SyntaxWarning")]


TARGET = "agentgym.interop.envs.textarena:TextArenaEnv"
TIC_TAC_TOE: dict[str, Any] = {"game": "TicTacToe-v0"}
CONNECT_FOUR: dict[str, Any] = {"game": "ConnectFour-v0", "opponent": "tests.interop.opponents:any_column"}
FIRST, SECOND = 0, 1
"""Indices of tasks in which the agent moves first, or second."""


def begun(game: str, index: int = FIRST, **arguments: Any) -> tuple[TextArenaEnv, str]:
    env = TextArenaEnv(game, **arguments)
    opening, _ = env.reset(seed=0, options={"split": "train", "index": index})
    return env, text_of(opening[-1])


def played(env: TextArenaEnv, moves: Iterator[str]) -> StepResult:
    result = env.step(next(moves))
    while env.reason is None:
        result = env.step(next(moves))
    return result


@each_row("kwargs", [TIC_TAC_TOE, CONNECT_FOUR])
def test_failing_checks_are_named_beforehand(kwargs: dict[str, Any]):
    assert failed_checks(TARGET, kwargs) == named_checks(TextArenaEnv(**kwargs)) == {"solution-solves"}


@each_row("kwargs", [TIC_TAC_TOE, CONNECT_FOUR])
def test_the_page_says_what_is_named(kwargs: dict[str, Any]):
    hold_caveats("textarena", kwargs["game"], TextArenaEnv(**kwargs))


@each_row("index", [FIRST, SECOND])
def test_rewards_are_those_of_the_agents_seat(index: int):
    env, _ = begun("ConnectFour-v0", index, opponent=opponents.two_columns)
    won = played(env, iter(["[col 0]", "[col 1]", "[col 2]", "[col 3]"]))
    assert (won.info["ending"], won.info["rewards"]) == ("solved", {"outcome": 1.0, "reward": 1.0})
    assert won.info["seat"] == index
    env, _ = begun("ConnectFour-v0", index, opponent=opponents.last_column)
    lost = played(env, iter(["[col 0]", "[col 1]", "[col 0]", "[col 1]"]))
    assert (lost.info["ending"], lost.info["rewards"]) == ("over", {"outcome": 0.0, "reward": -1.0})


def test_the_agents_second_invalid_move_loses():
    env, _ = begun("TicTacToe-v0", SECOND)
    result = env.step("[9]")
    assert "attempted an invalid move" in text_of(result.observation[-1])
    assert not result.terminated
    lost = env.step("[9]")
    assert (lost.info["ending"], lost.info["rewards"]) == ("invalid_moves", {"outcome": 0.0, "reward": -1.0})


def test_an_opponent_that_breaks_the_rules_loses_under_a_name_of_its_own():
    env, _ = begun("Nim-v0", FIRST, opponent=opponents.nonsense)
    won = env.step("[0 1]")
    assert (won.info["ending"], won.info["rewards"]["reward"]) == ("opponent_invalid_moves", 1.0)


def test_an_opponent_that_breaks_is_an_infrastructure_error():
    env, _ = begun("Nim-v0", FIRST, opponent=opponents.broken)
    with pytest.raises(InfrastructureError, match="ConnectionError: the model is away"):
        env.step("[0 1]")


def test_the_moves_that_a_game_listed_last_are_read():
    assert legal_moves("Valid moves: [1]\nValid moves: [e2e4], [d2d4]\n[Player 0] [e2e4]") == ["[e2e4]", "[d2d4]"]
    assert legal_moves("Moves look like '[4]'.") == []
