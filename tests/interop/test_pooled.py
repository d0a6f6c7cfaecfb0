"""Episodes for other programs: environments are reused, never more than allowed, and none is left open."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from agentgym.base.errors import InfrastructureError
from agentgym.interop.episodes import CalledEpisode, PooledEpisodes
from agentgym.rollout import EnvFactory
from tests.interop.probe_env import ProbeEnv

COUNTED = "tests.interop.test_pooled:CountedEnv"


class CountedEnv(ProbeEnv):
    """Counts the environments that are open."""

    opened: ClassVar[list[CountedEnv]] = []
    closed: ClassVar[list[CountedEnv]] = []
    max_concurrent = 2

    def __init__(self, **arguments: object):
        super().__init__(**arguments)  # pyright: ignore[reportArgumentType]
        _register(self, "opened")

    def release(self) -> None:
        _register(self, "closed")


def _register(env: CountedEnv, what: str) -> None:
    from tests.interop.test_pooled import CountedEnv as Loaded  # the class that its path names

    getattr(Loaded, what).append(env)


@pytest.fixture(autouse=True)
def counts() -> type[CountedEnv]:
    from tests.interop.test_pooled import CountedEnv as Loaded

    Loaded.opened.clear()
    Loaded.closed.clear()
    return Loaded


async def finished(pooled: PooledEpisodes, seed: int = 0) -> CalledEpisode:
    episode = await pooled.take()
    await episode.abegin(seed=seed)
    await episode.acall("finish_as", {"what": "solved"})
    return episode


def test_environments_are_used_again_unless_broken_or_in_an_episode(counts: type[CountedEnv]):
    async def work() -> None:
        pooled = PooledEpisodes(EnvFactory(COUNTED, {"dialect": "native"}))
        for seed in range(3):
            await pooled.give_back(await finished(pooled, seed))
        assert len(counts.opened) == 1
        broken = await pooled.take()
        await broken.abegin(seed=0)
        with pytest.raises(InfrastructureError):
            await broken.acall("collapse", {})
        await pooled.give_back(broken)
        halfway = await pooled.take()
        await halfway.abegin(seed=0)
        await pooled.give_back(halfway)
        assert counts.closed == [broken.env, halfway.env]
        assert broken.env is not halfway.env
        await pooled.close()

    asyncio.run(work())


def test_no_more_play_than_the_environment_allows(counts: type[CountedEnv]):
    most = 0

    async def work() -> None:
        pooled = PooledEpisodes(EnvFactory(COUNTED, {"dialect": "native"}))

        async def play(seed: int) -> None:
            nonlocal most
            episode = await finished(pooled, seed)
            most = max(most, len(counts.opened) - len(counts.closed))
            await asyncio.sleep(0)
            await pooled.give_back(episode)

        await asyncio.gather(*map(play, range(6)))
        await pooled.close()

    asyncio.run(work())
    assert most == 2
    assert len(counts.closed) == len(counts.opened) == 2
