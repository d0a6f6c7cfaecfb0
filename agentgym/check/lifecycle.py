"""Checks of an environment's life cycle: snapshots, replay, async use, other processes, and closing."""

from __future__ import annotations

import asyncio
import json
import pickle

from agentgym.check.catalog import check
from agentgym.check.outcomes import CheckFailed, CheckSkipped, Finding
from agentgym.check.play import CheckedEpisode, canonical, difference, must_equal, play, replayed
from agentgym.check.seeding import ELSEWHERE, SAME_EPISODE
from agentgym.check.subject import Subject
from agentgym.core.engine.steps import StepResult
from agentgym.core.env import Env
from agentgym.core.foreign import describe, ends_work
from agentgym.core.replay import replay
from agentgym.core.trajectory import Trajectory, Turn


@check(
    "snapshot", "restore(snapshot()) continues as if nothing had happened, in another instance too", causes=SAME_EPISODE
)
def snapshot(subject: Subject) -> Finding:
    """An episode restored from its middle continues exactly as recorded."""
    advice = "Override snapshot and restore together, or keep the episode deterministic so that the default works."
    indices = subject.spread()[:: 2 if subject.is_slow else 1]
    with subject.env() as first, subject.env() as second:
        for episode in [subject.episodes("solution")[index] for index in indices]:
            middle = len(episode.actions) // 2
            first.reset(seed=episode.seed, options={"task": episode.task})
            for action in episode.actions[:middle]:
                first.step(action)
            saved = pickle.loads(pickle.dumps(first.snapshot()))
            first.reset(seed=episode.seed + 1)
            for env, name in ((first, "the same instance"), (second, "another instance")):
                env.restore(saved)
                rest = CheckedEpisode(episode.task, episode.seed, episode.opening, episode.info)
                rest.results = [*episode.results[:middle], *(env.step(a) for a in episode.actions[middle:])]
                must_equal(episode.trace(), rest.trace(), f"task {episode.task.id!r} restored in {name}", advice)
    return None


@check("replay", "a recorded trajectory replays exactly", causes=SAME_EPISODE)
def replay_equal(subject: Subject) -> Finding:
    """`agentgym.core.replay` finds no difference in solution and random episodes read back from JSON."""
    episodes = subject.few_probed
    with subject.env() as env:
        for episode in episodes:
            again = Trajectory.from_dict(json.loads(json.dumps(_trajectory(subject, episode).to_dict())))
            if (mismatch := replay(again, env)) is not None:
                was, now = canonical(mismatch.recorded), canonical(mismatch.replayed)
                raise CheckFailed(
                    f"task {episode.task.id!r}, turn {mismatch.turn}: {mismatch.what} differs: {difference(was, now)}; "
                    "see 'deterministic'"
                )
    return f"{len(episodes)} trajectories"


def _trajectory(subject: Subject, episode: CheckedEpisode) -> Trajectory:
    turns = [
        Turn(action, result.observation, result.info["rewards"], result.reward)
        for action, result in zip(episode.actions, episode.results, strict=True)
    ]
    return Trajectory(
        id="checked",
        env_id=subject.target,
        task_id=episode.task.id,
        task_hash=episode.task.hash,
        seed=episode.seed,
        policy="checked",
        opening=episode.opening,
        turns=turns,
        reason=episode.reason,
    )


@check("async-twin", "areset and astep do what reset and step do", causes=SAME_EPISODE)
def async_twin(subject: Subject) -> Finding:
    """Episodes played concurrently on an event loop match those played without one."""
    episodes = subject.few_probed
    traces = asyncio.run(_play_together(subject, episodes))
    for episode, trace in zip(episodes, traces, strict=True):
        advice = "Write tools and hooks once, and keep what they share between instances free of state."
        must_equal(episode.trace(), trace, f"task {episode.task.id!r} on an event loop", advice)
    return f"{len(episodes)} episodes at once"


async def _play_together(subject: Subject, episodes: list[CheckedEpisode]) -> list[list[str]]:
    envs = [subject.make() for _ in episodes]
    try:
        return await asyncio.gather(*(_play_async(env, episode) for env, episode in zip(envs, episodes, strict=True)))
    finally:
        for env in envs:
            env.close()


async def _play_async(env: Env, episode: CheckedEpisode) -> list[str]:
    opening, info = await env.areset(seed=episode.seed, options={"task": episode.task})
    again = CheckedEpisode(episode.task, episode.seed, opening, info)
    for action in episode.actions:
        again.results.append(StepResult(*await env.astep(action)))
    return again.trace()


@check("pickles", "a fresh environment can be pickled, and the copy plays the same", causes=SAME_EPISODE)
def pickles(subject: Subject) -> Finding:
    """A pickled and unpickled environment plays recorded episodes exactly."""
    with subject.env() as env:
        try:
            data = pickle.dumps(env)
        except Exception as error:
            raise CheckFailed(
                f"it does not pickle: {type(error).__name__}: {error}; {_how_to_pickle(error)}"
            ) from error
    copy: Env = pickle.loads(data)
    try:
        for episode in subject.few_probed[:4]:
            must_equal(episode.trace(), replayed(copy, episode).trace(), f"task {episode.task.id!r} in a copy", "")
    finally:
        copy.close()
    return f"{len(data)} bytes"


def _how_to_pickle(error: Exception) -> str:
    """Return what to do about an object that does not pickle."""
    if "<locals>" in str(error) or "<lambda>" in str(error):
        return "define functions and classes at the top level of a module, not inside of a function"
    return "open connections and the like in start(), not in __init__, or leave them out in __getstate__"


@check("spawns", "an unpickled copy in another process plays the same", causes=ELSEWHERE, jobs=("unpickled",))
def spawns(subject: Subject) -> Finding:
    """A fresh interpreter unpickles an environment and plays recorded episodes exactly."""
    if subject.pickled is None:
        raise CheckSkipped("it does not pickle; see 'pickles'")
    subject.probes.values("unpickled")
    return None


@check("close-twice", "it can be closed at any time, and twice")
def close_twice(subject: Subject) -> Finding:
    """Closing works before the first reset, in the middle of an episode and after its end; so does closing again."""
    episode = subject.episodes("solution")[0]
    for when, actions in (
        ("before the first reset", None),
        ("in the middle", 1),
        ("after the end", len(episode.actions)),
    ):
        env = subject.make()
        try:
            if actions is not None:
                play(env, episode.task, episode.seed, lambda *_, n=actions: iter(episode.actions[:n]))
            env.close()
            env.close()
        except BaseException as error:
            if ends_work(error, None):
                raise
            raise CheckFailed(f"closing twice {when} raised {describe(error)}; see Env.release") from error
    return None


@check(
    "nothing-left",
    "closing leaves no process, thread, file or temporary folder behind",
    jobs=("leftovers", "traces"),
)
def nothing_left(subject: Subject) -> Finding:
    """Resources do not accumulate over environments, and nothing outlives the process that made them."""
    subject.probes.values("leftovers")
    subject.probes.values("traces")
    if subject.probes.left:
        raise CheckFailed(f"after the process had ended: {'; '.join(subject.probes.left)}; end them in release()")
    return None


CHECKS = (
    snapshot,
    replay_equal,
    async_twin,
    pickles,
    spawns,
    close_twice,
    nothing_left,
)
