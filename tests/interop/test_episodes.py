"""Episodes for other programs: they pay, end and fail as `Env` does, and broken environments are replaced."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.messages import Message, ToolCall, system, text_of, tool_result, user, with_pictures
from agentgym.core.registry import make
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from agentgym.interop.episodes import OVER, CalledEpisode, PooledEpisodes, ReplayedEpisode
from agentgym.interop.openings import episode_named, openings, sendable
from agentgym.rollout import EnvFactory
from tests.interop.probe_env import BROKEN_SEED, PNG, CountedEnv, ProbeEnv
from tests.rows import each_row

COUNTED = EnvFactory("tests.interop.probe_env:CountedEnv", {"dialect": "native"})


@pytest.fixture
def episode() -> CalledEpisode:
    return CalledEpisode(ProbeEnv(dialect="native"))


def test_rewards_and_channels_are_kept_by_turn(episode: CalledEpisode):
    episode.begin(seed=0)
    episode.call("pay", {"amount": 0.25})
    episode.call("pay", {"amount": 0.5})
    episode.call("finish_as", {"what": "solved"})
    assert (episode.turn_rewards, episode.reward) == ([0.25, 0.5, 1.0], 1.75)
    assert episode.channels == {"outcome": 1.0, "paid": 0.75}
    assert [turn["paid"] for turn in episode.turn_channels] == [0.25, 0.5, 0.0]
    assert (episode.ending, episode.is_over, episode.is_truncated) == ("solved", True, False)


def test_after_the_end_nothing_counts(episode: CalledEpisode):
    episode.begin(seed=0)
    episode.call("finish_as", {"what": "solved"})
    assert text_of(episode.call("pay", {"amount": 1.0})[0]) == OVER
    assert (episode.reward, episode.end()) == (1.0, 1.0)


def test_an_episode_that_stops_at_a_limit_is_truncated(episode: CalledEpisode):
    episode.begin(seed=0)
    episode.call("pay", {"amount": 0.5})
    assert episode.end(Reason.TOKEN_BUDGET) == 0.5
    assert (episode.ending, episode.is_truncated) == ("token_budget", True)
    episode.begin(seed=0)
    assert (episode.is_truncated, episode.turn_rewards, episode.channels) == (False, [], {})


@each_row("is_async", [False, True])
def test_a_failed_episode_has_no_reward_and_can_be_begun_anew(episode: CalledEpisode, is_async: bool):
    def done(now, later):  # pyright: ignore[reportMissingParameterType]
        return asyncio.run(later()) if is_async else now()

    with pytest.raises(InfrastructureError):
        done(lambda: episode.begin(seed=BROKEN_SEED), lambda: episode.abegin(seed=BROKEN_SEED))
    done(lambda: episode.begin(seed=0), lambda: episode.abegin(seed=0))
    with pytest.raises(InfrastructureError):
        done(lambda: episode.call("collapse", {}), lambda: episode.acall("collapse", {}))
    assert (episode.has_failed, episode.is_over) == (True, True)
    for nothing in (lambda: episode.reward, lambda: episode.end(), lambda: episode.call("roll", {})):
        with pytest.raises(ResetNeeded):
            nothing()
    done(lambda: episode.begin(seed=0), lambda: episode.abegin(seed=0))
    assert done(lambda: episode.end(), lambda: episode.aend()) == 0.0


async def finished(pooled: PooledEpisodes, seed: int = 0) -> CalledEpisode:
    episode = await pooled.take()
    await episode.abegin(seed=seed)
    await episode.acall("finish_as", {"what": "solved"})
    return episode


def test_environments_are_used_again_unless_broken_or_in_an_episode():
    async def work() -> None:
        pooled = PooledEpisodes(COUNTED)
        for seed in range(3):
            await pooled.give_back(await finished(pooled, seed))
        assert len(CountedEnv.opened) == 1
        broken = await pooled.take()
        await broken.abegin(seed=0)
        with pytest.raises(InfrastructureError):
            await broken.acall("collapse", {})
        await pooled.give_back(broken)
        halfway = await pooled.take()
        await halfway.abegin(seed=0)
        await pooled.give_back(halfway)
        assert CountedEnv.closed == [broken.env, halfway.env]
        assert broken.env is not halfway.env
        await pooled.close()

    asyncio.run(work())


def test_no_more_play_than_the_environment_allows():
    most = 0

    async def work() -> None:
        pooled = PooledEpisodes(COUNTED)

        async def play(seed: int) -> None:
            nonlocal most
            episode = await finished(pooled, seed)
            most = max(most, len(CountedEnv.opened) - len(CountedEnv.closed))
            await asyncio.sleep(0)
            await pooled.give_back(episode)

        await asyncio.gather(*map(play, range(6)))
        await pooled.close()

    asyncio.run(work())
    assert most == 2
    assert len(CountedEnv.closed) == len(CountedEnv.opened) == 2


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
    CountedEnv.opened.clear()
    CountedEnv.closed.clear()


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
        messages = asyncio.run(method(*arguments, **more)) if self.is_async else method(*arguments, **more)
        return messages if isinstance(messages, float) else text_of(messages[-1])

    def end(self) -> float:
        return self._done("end", Reason.GAVE_UP)


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


def test_the_columns_of_an_opening_name_its_episode():
    *_, opening = openings("guess", split="train", start=3, count=2, seed=50)
    assert (opening.index, opening.seed) == (4, 54)
    task_id, seed = episode_named(opening.named, "rows")
    messages, _ = make("guess").reset(seed=seed, options={"task": task_id})
    assert [message["content"] for message in opening.prompt] == [text_of(message) for message in messages]


@each_row("row", [{}, {"task_id": "guess/train/0"}, {"seed": 1}])
def test_a_row_that_names_no_episode_is_refused_with_the_function_that_makes_rows(row: dict[str, object]):
    with pytest.raises(UsageError, match=r"the row needs task_id and seed: make the rows with maker\.rows"):
        episode_named(row, "maker.rows")


SEEN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}


def test_text_stays_as_it_is_and_pictures_of_tools_follow_all_results_of_a_turn():
    messages: list[Message] = [system("Rules."), with_pictures(user("Look."), [PNG])]
    messages += [
        with_pictures(tool_result(ToolCall("look", {}, f"call_{number}"), "There."), [PNG]) for number in range(2)
    ]
    rules, opening, *results, pictures = sendable(messages)
    assert rules == messages[0]
    assert opening["content"] == [{"type": "text", "text": "Look."}, SEEN]
    assert results == [{"role": "tool", "tool_call_id": f"call_{number}", "content": "There."} for number in range(2)]
    assert pictures == {"role": "user", "content": [SEEN, SEEN]}
