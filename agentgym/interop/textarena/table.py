"""`Table`: a running game of TextArena, with the agent in one seat and perhaps an opponent in the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.errors import InfrastructureError
from agentgym.foreign.errors import describe, place_of
from agentgym.interop.packages import package
from agentgym.interop.textarena.opponents import Opponent

_arena = package("textarena")
_MOST_MOVES = 1_000
"""Moves of an opponent in a row, after which it is broken: some games let a player move on and on."""


class Table:
    """A game that has begun.

    Args:
        game: The game, without wrappers that repeat the conversation.
        seed: The seed of the game. In a game for two, it also decides where the agent sits.
        opponent: Who plays the other seat; `None` in a game for one.
    """

    def __init__(self, game: Any, seed: int, opponent: Opponent | None = None):
        self._game, self._opponent = game, opponent
        self.seat = 0 if opponent is None else seed % 2
        """The agent's seat: player 0 begins."""
        self.is_over = False
        self._shown_to_opponent: list[str] = []
        game.reset(num_players=1 if opponent is None else 2, seed=seed)

    @property
    def state(self) -> Any:
        """The state that TextArena keeps."""
        return self._game.state

    def begin(self) -> str:
        """Let the opponent move if it begins; return what the agent is shown."""
        self._wait_for_turn()
        return self._shown(self.seat)

    def move(self, text: str) -> str:
        """Make the agent's move and let the opponent answer; return what the agent is shown."""
        self.is_over, _ = self._game.step(text)
        self._wait_for_turn()
        return self._shown(self.seat)

    def close(self) -> tuple[Mapping[int, Any], Mapping[int, Mapping[str, Any]]]:
        """Return the rewards and facts of a game that is over, by seat."""
        return self._game.close()

    def _wait_for_turn(self) -> None:
        """Let the opponent move until it is the agent's turn."""
        for _ in range(_MOST_MOVES):
            if self._opponent is None or self.is_over or self.state.current_player_id == self.seat:
                return
            self._shown_to_opponent.append(self._shown(1 - self.seat))
            self.is_over, _ = self._game.step(_asked(self._opponent, "\n".join(self._shown_to_opponent)))
        raise InfrastructureError(f"the opponent made {_MOST_MOVES:,} moves, and the agent has no turn yet")

    def _shown(self, seat: int) -> str:
        """Return what the game has shown a seat since the last time, without the player's own words."""
        observations = self.state.observations
        shown, observations[seat] = observations[seat], []
        return "\n".join(
            self._named(source, text, kind) for source, text, kind in shown if not self._own(seat, source, kind)
        )

    def _own(self, seat: int, source: Any, kind: Any) -> bool:
        # Some games for one (Countdown, Cryptarithm, Slitherlink) record moves with the fields in another order.
        echo = _arena.ObservationType.PLAYER_ACTION
        return echo in (source, kind) and (self._opponent is None or source == seat)

    def _named(self, source: Any, text: Any, kind: Any) -> str:
        """Return a message; words of the other player begin with its name, as TextArena shows them."""
        is_said = kind is _arena.ObservationType.PLAYER_ACTION
        return f"[{self.state.role_mapping.get(source, f'Player {source}')}] {text}" if is_said else str(text)


def _asked(opponent: Opponent, shown: str) -> str:
    """Return the opponent's move. Whatever goes wrong in it is an `InfrastructureError`, and nothing of the agent's."""
    try:
        move: Any = opponent(shown)
    except InfrastructureError:
        raise
    except Exception as error:
        raise InfrastructureError(f"the opponent: {describe(error)}{place_of(error)}") from error
    if not isinstance(move, str):
        raise InfrastructureError(f"the opponent: a move must be text, not {move!r:.100}")
    return move
