"""`TextArenaEnv`: a single-player game of TextArena, played in text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from agentgym.choices import named, settings_of
from agentgym.endings import Ending, Reason
from agentgym.engine.authoring import EnvArguments
from agentgym.errors import AgentGymError, UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.caveats import Caveat
from agentgym.interop.seeds import FIRST_SEED, seed_tasks
from agentgym.interop.wrapped import Wrapped, package
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.task import Task

_arena = package("textarena", "textarena")
_registry = package("textarena.envs.registration", "textarena")
_TURNS = 60
_RAW = "-raw"
_TRIED_SEEDS = 4


class TextArenaEnv(Wrapped):
    """Play a single-player game of TextArena by writing moves.

    Task: one seed of the game; no seed is in two splits.
    Tools: none; the text of a message is the move. Games expect it in square brackets, which are added if it has none.
    Observation: what the game has said since the last turn. A new game object plays each episode, without the wrappers
        that repeat the conversation.
    Reward: `outcome` 1 if the game pays 1; `reward`, what it pays, which the scheme `own` passes on.
    Episode end: the game is won (`solved`), over, or ended by invalid moves; or `max_turns` have passed.

    Args:
        game: Id of the game without a suffix, such as `2048-v0-easy`.
        settings: Arguments of the game besides those of its id.
    """

    channels = {
        OUTCOME: Channel("1 if the game pays 1"),
        "reward": Channel("what the game pays at its end", low=-1.0),
    }
    schemes: ClassVar[Mapping[str, Scheme]] = {"own": Scheme({"reward": 1.0}, allow_unsound=True)}
    reasons: ClassVar[Mapping[str, Ending]] = {"over": Ending.TERMINATED, "invalid_moves": Ending.TERMINATED}
    max_turns = _TURNS
    harmless_arguments = frozenset(Wrapped.harmless_arguments | {"game"})

    def __init__(self, game: str, settings: Mapping[str, Any] | None = None, **kwargs: Unpack[EnvArguments]):
        games = {name.removesuffix(_RAW): name for name in _registry.ENV_REGISTRY if name.endswith(_RAW)}
        self._id = named("game", game, games)
        self._game, self._settings = game, settings_of("settings", settings)
        self._inner: Any = None
        self._must_start()
        super().__init__(tasks=seed_tasks(game, f"Play {game}. Each of your messages is one move."), **kwargs)

    def _must_start(self) -> None:
        """Raise `UsageError` unless the game can be started here with one player."""
        try:
            self._begin(0)
        except AgentGymError as error:
            raise UsageError(
                f"the TextArena game {self._game!r} cannot be played by one player here: {str(error).strip()[:300]}"
            ) from error

    def start(self, task: Task) -> str:
        """Start a new game with the task's seed."""
        return f"{task.prompt}\n\n{self._begin(task.data['seed'])}"

    def _begin(self, seed: int) -> str:
        self._randomness.seed(seed)
        with self._foreign(f"{self._game}: reset"):
            self._inner = _arena.make(self._id, **self._settings)
            self._inner.reset(num_players=1, seed=seed)
            return self._said()

    def respond(self, text: str) -> str:
        """Make a move."""
        move = text if "[" in text else f"[{text.strip()}]"
        with self._foreign(f"{self._game}: step"):
            over, _ = self._inner.step(move)
            said = self._said()
            if over:
                self._conclude(*self._inner.close())
        return said or "."

    def _said(self) -> str:
        """Return what the game has said since the last time, without the player's own words."""
        _, said = self._inner.get_observation()
        echo = _arena.ObservationType.PLAYER_ACTION
        # Some games (Countdown, Cryptarithm, Slitherlink) record the player's move with the fields in another order.
        return "\n".join(str(text) for source, text, kind in said if echo not in (source, kind))

    def _conclude(self, rewards: Mapping[int, Any], facts: Mapping[int, Mapping[str, Any]]) -> None:
        # The same games give the reason in place of the reward when invalid moves end them.
        reward = 0.0 if isinstance(rewards[0], str) else float(rewards[0])
        self.reward("reward", reward)
        if reward >= 1.0:
            self.reward(OUTCOME, 1.0)
            self.finish(Reason.SOLVED)
        else:
            self.finish("invalid_moves" if facts[0].get("invalid_move") else "over")

    def caveats(self) -> tuple[Caveat, ...]:
        """Try whether seeds matter and repeat."""
        openings = [self._opening(FIRST_SEED["train"] + number) for number in range(_TRIED_SEEDS)]
        found: list[Caveat] = []
        if self._opening(FIRST_SEED["train"]) != openings[0]:
            found.append(Caveat("seed-honoured", "seeds are ignored: two games with one seed begin differently"))
        elif len({*openings}) == 1:
            found.append(Caveat(None, "all seeds begin alike, so splits differ in what is hidden or by chance at most"))
        return (*found, Caveat("solution-solves", "the package has no solutions"))

    def _opening(self, seed: int) -> str:
        try:
            return self._begin(seed)
        except AgentGymError as error:
            return describe(error)
