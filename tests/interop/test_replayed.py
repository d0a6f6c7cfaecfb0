"""A failed environment is replaced without a change to the episode; otherwise, the episode fails."""

from __future__ import annotations

import asyncio
from typing import Any

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
def sound() -> None:
    Breaking.breaks, Breaking.makes, Breaking.closed, Breaking.forgets = {}, 0, 0, False


class Player:
    """Plays in the calling thread, or on an event loop."""

    def __init__(self, *, is_async: bool = False, **settings: Any):
        self.episode = ReplayedEpisode(lambda: Breaking(dialect="native"), **settings)
        self.is_async = is_async

    def begin(self, seed: int | None = 7) -> str:
        return self._done("begin", seed=seed, options={"index": 0})

    def call(self, name: str, **arguments: Any) -> str:
        return self._done("call", name, arguments)

    def _done(self, what: str, *arguments: Any, **more: Any) -> Any:
        method = getattr(self.episode, f"a{what}" if self.is_async else what)
        messages = loop.run(method(*arguments, **more)) if self.is_async else method(*arguments, **more)
        return messages if isinstance(messages, float) else text_of(messages[-1])

    def end(self) -> float:
        return self._done("end", Reason.GAVE_UP)


loop = asyncio.Runner()


@each_row("is_async", [False, True])
@each_row("where", ["begin", "roll", "end"])
def test_a_broken_environment_changes_nothing_of_an_episode_and_is_closed(is_async: bool, where: str):
    def played() -> list[Any]:
        play = Player(is_async=is_async)
        read = [play.begin(), play.call("roll"), play.call("pay", amount=0.5), play.call("roll")]
        read += [play.end(), play.episode.turn_rewards, play.episode.ending]
        play.episode.close()
        return read

    expected = played()
    Breaking.breaks = {where: 1}
    assert played() == expected
    assert Breaking.makes == Breaking.closed


def test_after_the_last_attempt_the_episode_has_failed_and_has_no_reward():
    play = Player(attempts=2)
    play.begin()
    Breaking.breaks = {"roll": 2}
    with pytest.raises(InfrastructureError, match="broke at roll"):
        play.call("roll")
    assert play.episode.has_failed
    for again in (lambda: play.call("roll"), play.end):
        with pytest.raises(ResetNeeded):
            again()
    play.begin()
    assert "It is" in play.call("roll")


@each_row("seed, forgets, match", [(7, True, "answered a turn with other messages"), (None, False, "without a seed")])
def test_an_episode_that_would_go_on_differently_fails(seed: int | None, forgets: bool, match: str):
    Breaking.forgets = forgets
    play = Player()
    play.begin(seed)
    play.call("roll")
    Breaking.breaks = {"roll": 1}
    with pytest.raises(InfrastructureError, match=match):
        play.call("roll")
