"""Games of TextArena as environments: no game disturbs another, an opponent plays, and rewards are the game's."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.interop.theirs import failed_checks, hold_caveats, imported, named_checks

imported("textarena")

from agentgym.base.errors import InfrastructureError  # noqa: E402
from agentgym.core.engine.steps import StepResult  # noqa: E402
from agentgym.core.messages import text_of  # noqa: E402
from agentgym.interop.envs.textarena import TextArenaEnv  # noqa: E402
from tests.interop import opponents  # noqa: E402
from tests.rows import each_row  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::SyntaxWarning")]


TARGET = "agentgym.interop.envs.textarena:TextArenaEnv"
ALONE = [{"game": "2048-v0-easy"}, {"game": "GuessTheNumber-v0"}]
FOR_TWO = [{"game": "TicTacToe-v0"}, {"game": "ConnectFour-v0", "opponent": "tests.interop.opponents:any_column"}]
OFFLINE = ("2048-v0", "Blackjack-v0", "FrozenLake-v0", "GuessTheNumber-v0", "Minesweeper-v0", "Sudoku-v0-very-easy")
FIRST, SECOND = 0, 1
"""Indices of tasks in which the agent moves first, or second."""


def begun(game: str, index: int = FIRST, **arguments: Any) -> TextArenaEnv:
    env = TextArenaEnv(game, **arguments)
    env.reset(seed=0, options={"split": "train", "index": index})
    return env


def played(env: TextArenaEnv, *moves: str) -> StepResult:
    return [env.step(move) for move in moves if env.reason is None][-1]


@each_row("game", OFFLINE)
def test_a_game_plays_offline_the_same_beside_another(game: str):
    def play(sibling: TextArenaEnv | None) -> list[str]:
        env = TextArenaEnv(game)
        opening, _ = env.reset(seed=0, options={"split": "test", "index": 1})
        texts = [text_of(opening[-1])]
        for move in ("[1]", "[up]", "[2 2]"):
            if env.reason is not None:
                break
            if sibling is not None:
                sibling.reset(seed=7)
                sibling.step("[3]")
            texts.append(text_of(env.step(move).observation[-1]))
        return texts

    before = random.getstate()
    assert play(None) == play(TextArenaEnv(game))
    assert random.getstate() == before


@each_row("kwargs", [*ALONE, *FOR_TWO])
def test_failing_checks_are_named_beforehand_and_on_the_page(kwargs: dict[str, Any]):
    assert failed_checks(TARGET, kwargs) == named_checks(TextArenaEnv(**kwargs)) == {"solution-solves"}
    hold_caveats("textarena", kwargs["game"], TextArenaEnv(**kwargs))


@each_row("index", [FIRST, SECOND])
def test_rewards_are_those_of_the_agents_seat(index: int):
    won = played(
        begun("ConnectFour-v0", index, opponent=opponents.two_columns), *(f"[col {column}]" for column in range(4))
    )
    assert (won.info["ending"], won.info["seat"]) == ("solved", index)
    assert won.info["rewards"] == {"outcome": 1.0, "reward": 1.0}
    lost = played(begun("ConnectFour-v0", index, opponent=opponents.last_column), *["[col 0]", "[col 1]"] * 2)
    assert (lost.info["ending"], lost.info["rewards"]) == ("over", {"outcome": 0.0, "reward": -1.0})


def test_the_agents_second_invalid_move_loses_and_an_opponents_wins():
    env = begun("TicTacToe-v0", SECOND)
    assert "attempted an invalid move" in text_of(env.step("[9]").observation[-1])
    lost = env.step("[9]")
    assert (lost.info["ending"], lost.info["rewards"]) == ("invalid_moves", {"outcome": 0.0, "reward": -1.0})
    won = begun("Nim-v0", opponent=opponents.nonsense).step("[0 1]")
    assert (won.info["ending"], won.info["rewards"]["reward"]) == ("opponent_invalid_moves", 1.0)


def test_an_opponent_that_breaks_is_an_infrastructure_error():
    with pytest.raises(InfrastructureError, match="ConnectionError: the model is away"):
        begun("Nim-v0", opponent=opponents.broken).step("[0 1]")
