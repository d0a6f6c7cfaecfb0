"""`TextArenaEnv`: a game of TextArena, played in text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Unpack

from agentgym.base.choices import named, settings_of
from agentgym.base.errors import AgentGymError, InfrastructureError, ToolError, UsageError
from agentgym.base.loading import load_named
from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.foreign import describe, place_of
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.task import TRAIN, Task
from agentgym.interop.packages import package
from agentgym.interop.wrapper import FIRST_SEED, Caveat, Wrapped, seed_caveats, seed_tasks

Opponent = Callable[[str], str]
"""Maps all messages of the game to the opponent in this episode to its next move.

One opponent plays many episodes, so a move must depend only on the messages and on the module `random`, which is seeded
for each episode.
"""

_LISTED = re.compile(r"\b(?:available|legal|possible|valid) (?:actions|moves)\b[^:\n]*:([^\n]*)", re.IGNORECASE)
_MOVE = re.compile(r"\[[^\[\]]+\]")


def legal_moves(text: str) -> list[str]:
    """Return the legal moves that a game listed last, such as `Available Moves: '[0]', '[4]'`; may be empty."""
    lists = _LISTED.findall(text)
    return _MOVE.findall(lists[-1]) if lists else []


class RandomMoves:
    """An opponent that makes a random move out of those that the game lists.

    Args:
        seed: Its seed.
    """

    def __init__(self, seed: int):
        self._random = random.Random(f"opponent {seed}")

    def __call__(self, text: str) -> str:
        """Return a move. Raises `InfrastructureError` if the game lists no moves."""
        moves = legal_moves(text)
        if not moves:
            raise InfrastructureError("the game lists no legal moves to choose from; pass opponent=")
        return self._random.choice(moves)


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


_registry = package("textarena.envs.registration")
_TURNS = 60
_RAW = "-raw"
_LONGEST = 4_000
"""Maximum characters of a move. Games' regular expressions take minutes on long texts without a move."""
_FIRST = FIRST_SEED[TRAIN]


class TextArenaEnv(Wrapped):
    """Play a game of TextArena by writing moves: alone, or in one of two seats.

    Task: one seed of the game; no seed is in two splits. In a game for two, the agent begins if the seed is even.
    Tools: none; the text of a message is the move. Games expect it in square brackets, which are added if missing.
    Observation: the game's messages to the player since the last turn. Each episode is a new game object without the
        wrappers that repeat the conversation.
    Reward: `outcome` 1 if the game pays 1; `reward`, the game's reward, which the scheme `own` passes on.
    Episode end: the game is won (`solved`), over, or ended by invalid moves of the player or the opponent; or
        `max_turns` have passed.

    Args:
        game: Id of the game without a suffix, such as `2048-v0-easy` or `TicTacToe-v0`.
        settings: Arguments of the game besides those of its id.
        opponent: The other player in a game for two: an `Opponent`, or its `module:name`. The default opponent makes a
            random legal move, in games that list them.
    """

    channels = {
        OUTCOME: Channel("1 if the game pays 1"),
        "reward": Channel("what the game pays at its end", low=-1.0),
    }
    schemes: ClassVar[Mapping[str, Scheme]] = {"own": Scheme({"reward": 1.0}, allow_unsound=True)}
    reasons: ClassVar[Mapping[str, Ending]] = dict.fromkeys(
        ("over", "invalid_moves", "opponent_invalid_moves"), Ending.TERMINATED
    )
    states_turns = True
    max_turns = _TURNS
    harmless_arguments = frozenset(Wrapped.harmless_arguments | {"game"})

    def __init__(
        self,
        game: str,
        settings: Mapping[str, Any] | None = None,
        *,
        opponent: Opponent | str | None = None,
        **kwargs: Unpack[EnvArguments],
    ):
        games = {name.removesuffix(_RAW): name for name in _registry.ENV_REGISTRY if name.endswith(_RAW)}
        self._id = named("game", game, games)
        self._game, self._settings = game, settings_of("settings", settings)
        self._opponent: Opponent | None = (
            load_named(opponent, "an opponent, a function of the game's messages")
            if isinstance(opponent, str)
            else opponent
        )
        self._is_for_two = self._opponent is not None
        self._must_start()
        super().__init__(tasks=seed_tasks(game, f"Play {game}. Each of your messages is one move."), **kwargs)

    def _must_start(self) -> None:
        """Determine the number of players. Raises `UsageError` if the game cannot start."""
        try:
            opening = self._begin(_FIRST)
        except AgentGymError as error:
            if not self._is_for_two and _is_about_players(error.__cause__):
                self._is_for_two = True
                return self._must_start()
            by = "two players" if self._is_for_two else "one player"
            raise UsageError(
                f"the TextArena game {self._game!r} cannot be played by {by} here: {str(error).strip()[:300]}"
            ) from error
        if self._is_for_two and self._opponent is None and not legal_moves(opening):
            raise UsageError(
                f"the TextArena game {self._game!r} is for two and lists no legal moves for a random opponent: pass "
                "opponent=, a function from the game's messages to a move"
            )

    def start(self, task: Task) -> str:
        """Start a new game with the task's seed."""
        return f"{task.prompt}\n\n{self._begin(task.data['seed'])}"

    def _begin(self, seed: int) -> str:
        self._randomness.seed(seed)
        opponent = (self._opponent or RandomMoves(seed)) if self._is_for_two else None
        with self._foreign(f"{self._game}: reset"):
            self._match = RunningGame(_arena.make(self._id, **self._settings), seed, opponent)
            return self._match.begin()

    def respond(self, text: str) -> str:
        """Make a move. Raises `ToolError` if it is too long."""
        if len(text) > _LONGEST:
            raise ToolError(f"A move may have at most {_LONGEST:,} characters.")
        move = text if "[" in text else f"[{text.strip()}]"
        with self._foreign(f"{self._game}: step"):
            observation = self._match.move(move)
            if self._match.is_over:
                self._conclude(*self._match.close())
        return observation or "."

    def _conclude(self, rewards: Mapping[int, Any], facts: Mapping[int, Mapping[str, Any]]) -> None:
        seat = self._match.seat
        # Countdown, Cryptarithm and Slitherlink give the reason in place of the reward when invalid moves end them.
        reward = 0.0 if isinstance(rewards[seat], str) else float(rewards[seat])
        blunderer = next((player for player, player_facts in facts.items() if player_facts.get("invalid_move")), None)
        if blunderer not in (None, seat) and self._opponent is None:
            raise InfrastructureError(f"{self._game} lists moves that it then calls invalid; pass opponent=")
        self.reward("reward", reward)
        self.reward(OUTCOME, float(reward >= 1.0))
        if blunderer is not None:
            self.finish("invalid_moves" if blunderer == seat else "opponent_invalid_moves")
        else:
            self.finish(Reason.SOLVED if reward >= 1.0 else "over")

    def details(self) -> Mapping[str, Any]:
        """Return the agent's seat in a game for two."""
        return {"seat": self._match.seat} if self._is_for_two else {}

    def caveats(self) -> tuple[Caveat, ...]:
        """Test whether seeds matter and repeat."""
        caveats = seed_caveats(
            self._opening,
            ignored="seeds are ignored: two games with one seed begin differently",
            alike="all seeds begin alike, so splits differ in what is hidden or by chance at most",
        )
        return (*caveats, Caveat("solution-solves", "the package has no solutions"))

    def _opening(self, seed: int) -> str:
        try:
            return self._begin(seed)
        except AgentGymError as error:
            return describe(error)


def _is_about_players(error: BaseException | None) -> bool:
    """Whether a game refused the number of players; each game words this differently."""
    return isinstance(error, AssertionError | ValueError) and "player" in str(error).lower()
