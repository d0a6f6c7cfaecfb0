"""Single-player games of TextArena as environments: no history leaks, and no game disturbs another."""

from __future__ import annotations

import random

import pytest

from tests.interop.theirs import failed_checks, hold_caveats, imported, named_checks

imported("textarena")

from agentgym.base.errors import UsageError  # noqa: E402
from agentgym.core.messages import text_of  # noqa: E402
from agentgym.interop.envs.textarena import TextArenaEnv  # noqa: E402
from tests.rows import each_row  # noqa: E402

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::SyntaxWarning")]


TARGET = "agentgym.interop.envs.textarena:TextArenaEnv"
OFFLINE = (
    "2048-v0", "Bandit-v0", "Blackjack-v0", "Countdown-v0", "Cryptarithm-v0", "FifteenPuzzle-v0", "FrozenLake-v0",
    "GuessTheNumber-v0", "LightsOut-v0", "Mastermind-v0", "Minesweeper-v0", "PegJump-v0", "Secretary-v0", "Set-v0",
    "Slitherlink-v0", "Sokoban-v0", "Sudoku-v0-very-easy", "ThreeCardMonte-v0", "TowerOfHanoi-v0",
)  # fmt: skip
ONLINE = ("Hangman-v0", "WordLadder-v0", "Wordle-v0", "WordSearch-v0", "TwentyQuestions-v0", "GuessWho-v0")
"""Games that download words, or ask a model behind an endpoint."""


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


@each_row("game", ["2048-v0-easy", "GuessTheNumber-v0"])
def test_failing_checks_are_named_beforehand(game: str):
    assert failed_checks(TARGET, {"game": game}) == named_checks(TextArenaEnv(game)) == {"solution-solves"}


@each_row("game", ["2048-v0-easy", "GuessTheNumber-v0"])
def test_the_page_says_what_is_named(game: str):
    hold_caveats("textarena", game, TextArenaEnv(game))


@each_row("game", ONLINE)
def test_a_game_that_needs_the_network_is_refused_in_one_line(game: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(UsageError, match=f"{game}' cannot be played by one player here"):
        TextArenaEnv(game)


def test_a_solved_game_is_a_success():
    env = TextArenaEnv("GuessTheNumber-v0", max_turns=40)
    env.reset(seed=0)
    low, high = 1, 20
    result = None
    while env.reason is None:
        middle = (low + high) // 2
        result = env.step(f"[{middle}]")
        low, high = (middle + 1, high) if "higher" in text_of(result.observation[-1]) else (low, middle - 1)
    assert result is not None
    assert result.info["ending"] == "solved"
    assert result.info["rewards"] == {"outcome": 1.0, "reward": 1.0}
