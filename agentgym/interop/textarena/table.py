"""`RunningGame`: a game of TextArena with the agent in one seat, and an opponent in the other if it is for two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.errors import InfrastructureError
from agentgym.foreign.errors import describe, place_of
from agentgym.interop.packages import package
from agentgym.interop.textarena.opponents import Opponent

_arena = package("textarena")
_MOST_MOVES = 1_000
"""Maximum moves of an opponent in a row: some games let a player move forever."""


class RunningGame:
    """A game that has begun.

    Args:
        game: The game, without wrappers that repeat the conversation.
        seed: The seed of the game. In a game for two, it also decides the agent's seat.
        opponent: The other player; `None` in a game for one.
    """

    def __init__(self, game: Any, seed: int, opponent: Opponent | None = None):
        self._game, self._opponent = game, opponent
        self.seat = 0 if opponent is None else seed % 2
        """The agent's seat: player 0 begins."""
        self.is_over = False
        self._read_by_opponent: list[str] = []
        game.reset(num_players=1 if opponent is None else 2, seed=seed)

    @property
    def state(self) -> Any:
        """TextArena's state of the game."""
        return self._game.state

    def begin(self) -> str:
        """Let the opponent move if it begins; return the messages to the agent."""
        self._wait_for_turn()
        return self._new_messages(self.seat)

    def move(self, text: str) -> str:
        """Make the agent's move and let the opponent answer; return the messages to the agent."""
        self.is_over, _ = self._game.step(text)
        self._wait_for_turn()
        return self._new_messages(self.seat)

    def close(self) -> tuple[Mapping[int, Any], Mapping[int, Mapping[str, Any]]]:
        """Return the rewards and facts of a game that is over, by seat."""
        return self._game.close()

    def _wait_for_turn(self) -> None:
        """Let the opponent move until it is the agent's turn."""
        for _ in range(_MOST_MOVES):
            if self._opponent is None or self.is_over or self.state.current_player_id == self.seat:
                return
            self._read_by_opponent.append(self._new_messages(1 - self.seat))
            self.is_over, _ = self._game.step(_move_of(self._opponent, "\n".join(self._read_by_opponent)))
        raise InfrastructureError(f"the opponent made {_MOST_MOVES:,} moves in a row without a turn of the agent")

    def _new_messages(self, seat: int) -> str:
        """Return the game's messages to a seat since the last call, without the player's own words."""
        observations = self.state.observations
        messages, observations[seat] = observations[seat], []
        return "\n".join(
            self._named(source, text, kind) for source, text, kind in messages if not self._own(seat, source, kind)
        )

    def _own(self, seat: int, source: Any, kind: Any) -> bool:
        # Some games for one (Countdown, Cryptarithm, Slitherlink) swap these two fields in their records of moves.
        echo = _arena.ObservationType.PLAYER_ACTION
        return echo in (source, kind) and (self._opponent is None or source == seat)

    def _named(self, source: Any, text: Any, kind: Any) -> str:
        """Return a message; the other player's words begin with its name, as in TextArena."""
        is_said = kind is _arena.ObservationType.PLAYER_ACTION
        return f"[{self.state.role_mapping.get(source, f'Player {source}')}] {text}" if is_said else str(text)


def _move_of(opponent: Opponent, text: str) -> str:
    """Return the opponent's move. Any failure of the opponent is an `InfrastructureError`."""
    try:
        move: Any = opponent(text)
    except InfrastructureError:
        raise
    except Exception as error:
        raise InfrastructureError(f"the opponent: {describe(error)}{place_of(error)}") from error
    if not isinstance(move, str):
        raise InfrastructureError(f"the opponent: a move must be text, not {move!r:.100}")
    return move
