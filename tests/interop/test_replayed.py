"""A failed environment is replaced without a change to the episode; otherwise, the episode fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from gymnasium.error import ResetNeeded

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from agentgym.interop.episodes import ReplayedEpisode
from tests.interop.probe_env import ProbeEnv
from tests.rows import each_row


class Breaking(ProbeEnv):
    """Fails `breaks` times at `begin`, at `roll` or at the end; with `forgets`, instances differ."""

    breaks: dict[str, int] = {}
    makes = closed = 0
    forgets = False

    def __init__(self, **arguments: Any):
        super().__init__(**arguments)
        Breaking.makes += 1
        self.number = Breaking.makes

    def start(self, task: Task) -> str:
        self._break("begin")
        return super().start(task)

    @tool
    def roll(self) -> str:
        """Draw another number."""
        self._break("roll")
        return f"{super().roll()} {self.number if self.forgets else ''}"

    def grade(self) -> None:
        self._break("end")

    def release(self) -> None:
        Breaking.closed += 1

    def _break(self, where: str) -> None:
        if Breaking.breaks.get(where, 0) > 0:
            Breaking.breaks[where] -= 1
            raise InfrastructureError(f"broke at {where}")


@pytest.fixture(autouse=True)
def sound() -> Iterator[None]:
    Breaking.breaks, Breaking.makes, Breaking.closed, Breaking.forgets = {}, 0, 0, False
    with asyncio.Runner() as Later.loop:
        yield


class Now:
    """Plays in the calling thread."""

    def __init__(self, **settings: Any):
        self.episode = ReplayedEpisode(lambda: Breaking(dialect="native"), **settings)

    def begin(self, seed: int | None = 7) -> str:
        return text_of(self.episode.begin(seed=seed, options={"index": 0})[-1])

    def call(self, name: str, **arguments: Any) -> str:
        return text_of(self.episode.call(name, arguments)[-1])

    def end(self, reason: Reason = Reason.GAVE_UP) -> float:
        return self.episode.end(reason)


class Later(Now):
    """Plays on an event loop."""

    loop: ClassVar[asyncio.Runner]

    def begin(self, seed: int | None = 7) -> str:
        return text_of(self.loop.run(self.episode.abegin(seed=seed, options={"index": 0}))[-1])

    def call(self, name: str, **arguments: Any) -> str:
        return text_of(self.loop.run(self.episode.acall(name, arguments))[-1])

    def end(self, reason: Reason = Reason.GAVE_UP) -> float:
        return self.loop.run(self.episode.aend(reason))


Player = Callable[..., Now]
both = pytest.mark.parametrize("player", [Now, Later])


@both
@each_row("where", ["begin", "roll", "end"])
def test_a_broken_environment_changes_nothing_of_an_episode(player: Player, where: str):
    def played() -> list[Any]:
        play = player()
        read = [play.begin(), play.call("roll"), play.call("pay", amount=0.5), play.call("roll")]
        return [*read, play.end(), play.episode.turn_rewards, play.episode.ending]

    expected = played()
    Breaking.breaks = {where: 1}
    assert played() == expected


@both
def test_after_the_last_attempt_the_episode_has_failed_and_has_no_reward(player: Player):
    play = player(attempts=2)
    play.begin()
    Breaking.breaks = {"roll": 2}
    with pytest.raises(InfrastructureError, match="broke at roll"):
        play.call("roll")
    assert play.episode.has_failed
    with pytest.raises(ResetNeeded):
        play.call("roll")
    with pytest.raises(ResetNeeded):
        play.end()
    play.begin()
    assert "It is" in play.call("roll")


@both
def test_an_episode_that_would_go_on_differently_fails(player: Player):
    Breaking.forgets = True
    play = player()
    play.begin()
    play.call("roll")
    Breaking.breaks = {"roll": 1}
    with pytest.raises(InfrastructureError, match="answered a turn with other messages"):
        play.call("roll")


@both
def test_an_episode_without_a_seed_is_not_played_again_once_it_has_begun(player: Player):
    play = player()
    Breaking.breaks = {"begin": 1}
    play.begin(seed=None)
    Breaking.breaks = {"roll": 1}
    with pytest.raises(InfrastructureError, match="without a seed"):
        play.call("roll")
