"""`TextArenaEnv`: a game of TextArena, played in text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from agentgym.choices import named, settings_of
from agentgym.endings import Ending, Reason
from agentgym.engine.authoring import EnvArguments
from agentgym.errors import AgentGymError, InfrastructureError, ToolError, UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.caveats import Caveat
from agentgym.interop.packages import package
from agentgym.interop.seeds import FIRST_SEED, seed_caveats, seed_tasks
from agentgym.interop.textarena.opponents import Opponent, RandomMoves, legal_moves
from agentgym.interop.textarena.table import Table
from agentgym.interop.wrapped import Wrapped
from agentgym.loading import load_named
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.task import TRAIN, Task

_arena = package("textarena")
_registry = package("textarena.envs.registration")
_TURNS = 60
_RAW = "-raw"
_LONGEST = 4_000
"""Characters of a move. Games look for it by patterns that take minutes on a long text without one."""
_FIRST = FIRST_SEED[TRAIN]


class TextArenaEnv(Wrapped):
    """Play a game of TextArena by writing moves: alone, or in one of two seats.

    Task: one seed of the game; no seed is in two splits. In a game for two, even seeds are those of the player who
        begins.
    Tools: none; the text of a message is the move. Games expect it in square brackets, which are added if it has none.
    Observation: what the game has shown the player since the last turn. A new game object plays each episode, without
        the wrappers that repeat the conversation.
    Reward: `outcome` 1 if the game pays 1; `reward`, what it pays, which the scheme `own` passes on.
    Episode end: the game is won (`solved`), over, or ended by invalid moves of the player or of the opponent; or
        `max_turns` have passed.

    Args:
        game: Id of the game without a suffix, such as `2048-v0-easy` or `TicTacToe-v0`.
        settings: Arguments of the game besides those of its id.
        opponent: Who plays the other seat of a game for two: an `Opponent`, or the `module:name` of one. By default it
            draws one of the legal moves, in games that list them.
    """

    channels = {
        OUTCOME: Channel("1 if the game pays 1"),
        "reward": Channel("what the game pays at its end", low=-1.0),
    }
    schemes: ClassVar[Mapping[str, Scheme]] = {"own": Scheme({"reward": 1.0}, allow_unsound=True)}
    reasons: ClassVar[Mapping[str, Ending]] = dict.fromkeys(
        ("over", "invalid_moves", "opponent_invalid_moves"), Ending.TERMINATED
    )
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
            load_named(opponent, "an opponent, a function of what it is shown")
            if isinstance(opponent, str)
            else opponent
        )
        self._is_for_two = self._opponent is not None
        self._must_start()
        super().__init__(tasks=seed_tasks(game, f"Play {game}. Each of your messages is one move."), **kwargs)

    def _must_start(self) -> None:
        """Find out how many play. Raises `UsageError` unless the game can be started here."""
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
                f"the TextArena game {self._game!r} is for two and lists no legal moves to draw from: pass opponent=, "
                "a function from what it is shown to its move"
            )

    def start(self, task: Task) -> str:
        """Start a new game with the task's seed."""
        return f"{task.prompt}\n\n{self._begin(task.data['seed'])}"

    def _begin(self, seed: int) -> str:
        self._randomness.seed(seed)
        opponent = (self._opponent or RandomMoves(seed)) if self._is_for_two else None
        with self._foreign(f"{self._game}: reset"):
            self._table = Table(_arena.make(self._id, **self._settings), seed, opponent)
            return self._table.begin()

    def respond(self, text: str) -> str:
        """Make a move. Raises `ToolError` if it is too long."""
        if len(text) > _LONGEST:
            raise ToolError(f"A move may have at most {_LONGEST:,} characters.")
        move = text if "[" in text else f"[{text.strip()}]"
        with self._foreign(f"{self._game}: step"):
            said = self._table.move(move)
            if self._table.is_over:
                self._conclude(*self._table.close())
        return said or "."

    def _conclude(self, rewards: Mapping[int, Any], facts: Mapping[int, Mapping[str, Any]]) -> None:
        seat = self._table.seat
        # Countdown, Cryptarithm and Slitherlink give the reason in place of the reward when invalid moves end them.
        reward = 0.0 if isinstance(rewards[seat], str) else float(rewards[seat])
        blunderer = next((one for one, told in facts.items() if told.get("invalid_move")), None)
        if blunderer not in (None, seat) and self._opponent is None:
            raise InfrastructureError(f"{self._game} lists moves that it then takes for invalid ones; pass opponent=")
        self.reward("reward", reward)
        self.reward(OUTCOME, float(reward >= 1.0))
        if blunderer is not None:
            self.finish("invalid_moves" if blunderer == seat else "opponent_invalid_moves")
        else:
            self.finish(Reason.SOLVED if reward >= 1.0 else "over")

    def details(self) -> Mapping[str, Any]:
        """Return where the agent sits in a game for two."""
        return {"seat": self._table.seat} if self._is_for_two else {}

    def caveats(self) -> tuple[Caveat, ...]:
        """Try whether seeds matter and repeat."""
        found = seed_caveats(
            self._opening,
            ignored="seeds are ignored: two games with one seed begin differently",
            alike="all seeds begin alike, so splits differ in what is hidden or by chance at most",
        )
        return (*found, Caveat("solution-solves", "the package has no solutions"))

    def _opening(self, seed: int) -> str:
        try:
            return self._begin(seed)
        except AgentGymError as error:
            return describe(error)


def _is_about_players(error: BaseException | None) -> bool:
    """Whether a game refused the number of players; each says so in its own words."""
    return isinstance(error, AssertionError | ValueError) and "player" in str(error).lower()
