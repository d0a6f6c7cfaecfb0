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
from agentgym.interop.textarena.table import RunningGame
from agentgym.interop.wrapped import Wrapped
from agentgym.loading import load_named
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.task import TRAIN, Task

_arena = package("textarena")
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
