"""`Explorer`: the operations of a search strategy: open episodes, sample turns, play them, and score lines of play."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from agentgym.base.errors import UsageError
from agentgym.core.endings import Reason
from agentgym.core.policy import Policy, ScriptedPolicy, TokenPolicy
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.lookahead.cost import SearchCost
from agentgym.rollout.lookahead.line import PlayLine, candidate_of
from agentgym.rollout.lookahead.places import LookaheadEnv, Places, SearchWatch
from agentgym.rollout.lookahead.values import Asking, Value
from agentgym.rollout.lookahead.voice import ChatVoice, TokenVoice, TurnSample, Voice, together
from agentgym.rollout.workers.base import EpisodeOpening, PlayedTurn


class Explorer:
    """The operations of one search. Seeds derive from the job and the sample's position in the tree.

    Args:
        job: The job to search.
        policy: Samples the turns.
        limits: Limits of each turn. `episode_timeout_s` applies to the whole search.
        places: The environments.
        cost: Counts the cost of the search.
        watch: Reports waits and failures.
        value: Scores lines.
    """

    def __init__(
        self,
        job: Job,
        policy: Policy,
        limits: Limits,
        places: Places,
        cost: SearchCost,
        watch: SearchWatch,
        value: Value,
    ):
        self._job, self._policy, self._limits, self._places = job, policy, limits, places
        self._cost, self._watch, self._value = cost, watch, value
        self._scores: dict[str, float | None] = {}
        self._questions = 0
        self._deadline = inf if limits.episode_timeout_s is None else time.monotonic() + limits.episode_timeout_s

    @property
    def is_late(self) -> bool:
        """Whether the search is out of time. Every line then ends at its next turn."""
        return time.monotonic() >= self._deadline

    async def root(self) -> PlayLine:
        """Return the root of a search tree: an episode after its reset.

        Raises:
            UsageError: The environment cannot restore a state, or the policy cannot continue from one.
        """
        async with self._places.fresh() as (held, opening):
            line = PlayLine("0", opening, await self._voice(held, opening))
            if opening.unrepeatable:
                raise UsageError(
                    f"the environment cannot be searched turn by turn, because {opening.unrepeatable}; "
                    "best-of-n plays whole episodes"
                )
            if not line.voice.branches:
                raise UsageError(
                    f"the policy {self._policy.name!r} cannot continue from the middle of an episode (it needs a "
                    "method `resume`); best-of-n plays whole episodes"
                )
            held.at = line
            return line

    async def episode(self, number: int) -> PlayLine:
        """Play a whole episode from a reset of its own.

        Args:
            number: The episode's number; it seeds the samples.
        """
        async with self._places.fresh() as (held, opening):
            return await self._to_the_end(held, PlayLine(str(number), opening, await self._voice(held, opening)))

    async def children(self, line: PlayLine, branch: int) -> list[PlayLine]:
        """Sample several next turns and play each distinct one.

        Args:
            line: A line that is not over.
            branch: Number of samples.
        """
        samples = await together(self._sample(line, f"{line.id}/{number}") for number in range(branch))
        options = _without_repeats(samples)
        return await together(self._child(line, number, sample) for number, sample in enumerate(options))

    async def complete(self, line: PlayLine) -> PlayLine:
        """Play a line to its end, with one sample per turn. A line that is over is returned unchanged."""
        if line.is_over:
            return line
        async with self._places.at(line) as held:
            return await self._to_the_end(held, line)

    async def scores(self, lines: Sequence[PlayLine]) -> list[float]:
        """Return the value function's scores from 0 to 1; -1 for lines that it cannot score."""
        value = self._value
        new = [line for line in lines if value.compares or line.id not in self._scores]
        if new:
            self._questions += 1
            asking = Asking(f"{self._job.seed}/{self._job.id}/value{self._questions}", self._cost)
            work = value.scores([candidate_of(line, value.channels) for line in new], asking)
            scores = await self._watch.on(Component.POLICY, "value", work)
            self._scores.update({line.id: score for line, score in zip(new, scores, strict=True)})
        return [-1.0 if (score := self._scores[line.id]) is None else score for line in lines]

    async def _voice(self, held: LookaheadEnv, opening: EpisodeOpening) -> Voice:
        policy = self._policy
        if isinstance(policy, TokenPolicy):
            return TokenVoice.opening(policy, self._limits, self._cost, opening)
        if isinstance(policy, ScriptedPolicy):
            player = await held.place.script(policy)
            return ChatVoice(None, self._limits, self._cost, opening, player, policy.name)
        return ChatVoice(policy, self._limits, self._cost, opening)

    async def _sample(self, line: PlayLine, place: str) -> TurnSample:
        if self.is_late:
            return TurnSample(line.voice, None, Reason.TIME)
        began = time.perf_counter()
        self._cost.policy_calls += 1
        turn = line.voice.say(f"{self._job.seed}/{self._job.id}/{place}", self._deadline - time.monotonic())
        sample = await self._watch.on(Component.POLICY, place, turn)
        return replace(sample, seconds=time.perf_counter() - began)

    async def _child(self, line: PlayLine, number: int, sample: TurnSample) -> PlayLine:
        async with self._places.at(line) as held:
            return await self._played(held, line, number, sample)

    async def _to_the_end(self, held: LookaheadEnv, line: PlayLine) -> PlayLine:
        held.at = line
        while not line.is_over:
            line = await self._played(held, line, 0, await self._sample(line, f"{line.id}/r"), "r")
        return line

    async def _played(
        self, held: LookaheadEnv, line: PlayLine, number: int, sample: TurnSample, kind: str = ""
    ) -> PlayLine:
        began = time.perf_counter()
        played = await self._turn(held, line, sample)
        after = line.after(f"{kind}{number}", sample, played, time.perf_counter() - began)
        self._cost.turns += sample.action is not None
        self._cost.episodes += after.is_over
        if not after.is_over:
            after.voice.hear(played.result.observation)
        held.at = after
        return after

    async def _turn(self, held: LookaheadEnv, line: PlayLine, sample: TurnSample) -> PlayedTurn:
        if sample.reason is not None:
            return await self._places.interrupt(held, line, sample.reason)
        assert sample.move is not None
        return await self._places.step(held, line, sample.move)


def _without_repeats(samples: Sequence[TurnSample]) -> list[TurnSample]:
    """Return the distinct samples, each with its share of all samples."""
    options: list[TurnSample] = []
    for sample in samples:
        for at, before in enumerate(options):
            if (before.move, before.reason) == (sample.move, sample.reason):
                options[at] = replace(before, share=before.share + 1 / len(samples))
                break
        else:
            options.append(replace(sample, share=1 / len(samples)))
    return options
