"""Checks of the Gymnasium contract and of the observable form of episodes."""

from __future__ import annotations

import re
import warnings
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from agentgym.check.catalog import check
from agentgym.check.outcomes import Blocked, CheckFailed, Finding
from agentgym.check.play import Broken, CheckedEpisode, canonical, helpless_player, is_over, must_equal, play, short
from agentgym.check.seeding import ELSEWHERE, SAME_EPISODE
from agentgym.check.subject import PLAYERS, Subject
from agentgym.core import registry
from agentgym.core.endings import Ending, OwnReason, Reason
from agentgym.core.messages import Message, text_of

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

MAX_MESSAGE_CHARS = 65_536
"""Maximum size of a message that an environment may show a policy."""


@check("makes", "it can be made")
def makes(subject: Subject) -> Finding:
    """The environment can be constructed with the given arguments, and its class has a docstring."""
    env = registry.make(subject.target, **subject.kwargs)
    try:
        kind = type(env)
        if not (kind.__doc__ or "").strip():
            raise CheckFailed(f"{kind.__name__} has no docstring; describe the task, tools and rewards in one")
        tools = f"tools: {', '.join(env.tools.names)}" if len(env.tools) else "no tools"
        return f"{kind.__module__}:{kind.__qualname__}, {tools}"
    finally:
        env.close()


@check("gymnasium", "Gymnasium's own env_checker passes without a warning", causes=SAME_EPISODE)
def gymnasium_contract(subject: Subject) -> Finding:
    """`check_env` neither raises nor warns."""
    with subject.env() as env, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env.spec = subject.spec
        try:
            check_env(env)
        except Exception as error:
            raise CheckFailed(f"check_env: {error or type(error).__name__}") from error
    if caught:
        raise CheckFailed(f"check_env warns: {_COLOURS.sub('', str(caught[0].message))}")
    return None


@check("wrappers", "TimeLimit and RecordEpisodeStatistics work around it")
def wrappers(subject: Subject) -> Finding:
    """Gymnasium's wrappers can truncate its episodes and sum their rewards."""
    with subject.env() as env:
        wrapped: Any = RecordEpisodeStatistics(TimeLimit(env, max_episode_steps=2))
        wrapped.reset(seed=subject.seed)
        paid, over, info = 0.0, False, {}
        while not over:
            _, reward, terminated, truncated, info = wrapped.step("")
            paid += float(reward)
            over = terminated or truncated
        if abs(float(info["episode"]["r"]) - paid) > 1e-5:
            raise CheckFailed(f"RecordEpisodeStatistics counted {info['episode']['r']!r}, the steps paid {paid!r}")
    return None


@check("vector-sync", "works in SyncVectorEnv, each copy as on its own", causes=SAME_EPISODE)
def vector_sync(subject: Subject) -> Finding:
    """Copies in a vector start exactly like single environments with the same seeds."""
    vector: Any = SyncVectorEnv([subject.make, subject.make])
    try:
        observations, _ = vector.reset(seed=subject.seed)
        for index, observation in enumerate(observations):
            with subject.env() as env:
                alone, _ = env.reset(seed=subject.seed + index)
            must_equal([canonical(alone)], [canonical(observation)], f"copy {index}, alone and in the vector", "")
        vector.action_space.seed(subject.seed)
        for _ in range(3):
            vector.step(vector.action_space.sample())
    finally:
        vector.close()
    return None


@check("vector-async", "works in AsyncVectorEnv(shared_memory=False)", causes=ELSEWHERE, jobs=("vector_async",))
def vector_async(subject: Subject) -> Finding:
    """Copies in worker processes start exactly like single environments with the same seeds."""
    subject.probes.values("vector_async")
    return None


@check("plays", "every episode of every player runs to its end without breaking")
def plays(subject: Subject) -> Finding:
    """Every player completes episodes of every split and difficulty without an error."""
    for player in (*PLAYERS, "stumbling"):
        try:
            subject.stumbled if player == "stumbling" else subject.episodes(player)
        except Blocked as blocked:
            if not isinstance(error := blocked.__cause__, Broken):
                raise
            raise CheckFailed(f"{player} player: {error}; raise ToolError for what the model did wrong") from error
    levels = sorted({task.difficulty for task in subject.tasks})
    return f"{len(subject.tasks)} tasks over {len(subject.scanned)} splits and difficulties {levels}"


@check("observations", "observations are chat messages of bounded size that every tokenizer accepts")
def observations(subject: Subject) -> Finding:
    """Messages have a role and content, lie in the observation space, are bounded in size and encode as UTF-8."""
    largest = 0
    with subject.env() as env:
        for episode in subject.all_episodes():
            for turn, observed in enumerate([episode.opening, *(result.observation for result in episode.results)]):
                problem = observation_problem(env.observation_space, observed)
                if problem is not None:
                    raise CheckFailed(f"task {episode.task.id!r}, turn {turn}: {problem}")
                largest = max([largest, *(len(text_of(message)) for message in observed)])
    return f"largest message: {largest} characters"


def observation_problem(space: gymnasium.Space[Any], observed: list[Message]) -> str | None:
    """Return a description of what is wrong with an observation, or `None`."""
    if not space.contains(observed):
        return f"{short(observed)} is not in the observation space; return a list of messages with role and content"
    for message in observed:
        text = text_of(message)
        if len(text) > MAX_MESSAGE_CHARS:
            return f"a message of {len(text)} characters; cut it to {MAX_MESSAGE_CHARS} (`@tool(max_chars=...)`)"
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"a message with invalid Unicode ({error.reason}); replace lone surrogates before showing it"
    return None


@check("endings", "an episode ends once, terminated or truncated, with a named reason")
def endings(subject: Subject) -> Finding:
    """The flags, `info["ending"]` and `env.reason` agree, and are set only at the end."""
    names: set[str] = set()
    for episode in subject.all_episodes():
        for turn, result in enumerate(episode.results, start=1):
            if (problem := _ending_problem(episode, turn)) is not None:
                raise CheckFailed(f"task {episode.task.id!r}, turn {turn}: {problem}")
            if is_over(result):
                names.add(result.info["ending"])
    return f"seen: {', '.join(sorted(names))}"


def _ending_problem(episode: CheckedEpisode, turn: int) -> str | None:
    result = episode.results[turn - 1]
    if result.terminated and result.truncated:
        return "terminated and truncated at once; finish(reason) sets one of them"
    named = result.info.get("ending")
    if not is_over(result):
        return None if named is None else f"info names the ending {named!r} of an episode that has not ended"
    reason = episode.reason
    if not isinstance(reason, Reason | OwnReason):
        return f"env.reason is {reason!r}; end episodes with finish(Reason...), or a name in the class's reasons"
    if named != reason.value:
        return f"env.reason is {reason!r}, info['ending'] {named!r}"
    expected = Ending.TERMINATED if result.terminated else Ending.TRUNCATED
    if reason.ending is not expected:
        return f"the reason {named!r} means {reason.ending.value}, the flags say {expected.value}"
    if not isinstance(result.info.get("is_success"), bool):
        return f"info['is_success'] is {result.info.get('is_success')!r}, not a bool"
    return None


@check("max-turns", "no episode is longer than max_turns")
def max_turns(subject: Subject) -> Finding:
    """Episodes end at the default limit, and at a lower one passed to the constructor."""
    with subject.env() as env:
        limit = env.max_turns
    for episode in subject.all_episodes():
        if len(episode.results) > limit:
            raise CheckFailed(f"task {episode.task.id!r} continues after {limit} turns; leave the limits to Env")
    with subject.variant(max_turns=2) as env:
        episode = play(env, subject.tasks[0], subject.seed, helpless_player)
        if not episode.ended or len(episode.results) > 2:
            raise CheckFailed(f"max_turns=2 was given, yet an episode took {len(episode.results)} turns")
    return f"max_turns is {limit}"


@check("reset-needed", "a step without a running episode raises ResetNeeded")
def reset_needed(subject: Subject) -> Finding:
    """A fresh environment refuses to step, and so does one whose episode has ended."""
    with subject.env() as env:
        _must_need_reset(env, "before the first reset")
        play(env, subject.tasks[0], subject.seed, helpless_player)
        _must_need_reset(env, "after the end of an episode")
    return None


def _must_need_reset(env: Any, when: str) -> None:
    try:
        env.step("")
    except ResetNeeded:
        return
    except Exception as error:
        raise CheckFailed(f"step {when} raised {error!r}, not gymnasium.error.ResetNeeded") from error
    raise CheckFailed(f"step {when} was accepted; let Env.step do its work (it raises ResetNeeded)")


FIRST = (makes, plays)
"""Checks that all others depend on."""

CHECKS = (
    gymnasium_contract,
    wrappers,
    vector_sync,
    vector_async,
    observations,
    endings,
    max_turns,
    reset_needed,
)
