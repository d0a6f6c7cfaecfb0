"""`Explorer`: what a search strategy can do: open episodes, propose turns, play them, and score lines of play."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from agentgym.endings import Reason
from agentgym.errors import UsageError
from agentgym.lookahead.candidate import candidate_of
from agentgym.lookahead.cost import Cost
from agentgym.lookahead.line import Line
from agentgym.lookahead.places import Held, Places
from agentgym.lookahead.together import together
from agentgym.lookahead.value import Asking, Value
from agentgym.lookahead.voices import ChatVoice, Said, TokenVoice, Voice
from agentgym.lookahead.watch import Watch
from agentgym.policy import Policy, ScriptedPolicy, TokenPolicy
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.workers.base import Opening, Played


class Explorer:
    """The moves of one search. Seeds follow from the job and from where in the tree a sample is drawn.

    Args:
        job: What is played.
        policy: Proposes the turns.
        limits: Limits of each turn. `episode_timeout_s` is that of the whole search.
        places: The environments.
        cost: Counts what the search takes.
        watch: Names what is awaited.
        value: Scores lines.
    """

    def __init__(
        self, job: Job, policy: Policy, limits: Limits, places: Places, cost: Cost, watch: Watch, value: Value
    ):
        self._job, self._policy, self._limits, self._places = job, policy, limits, places
        self._cost, self._watch, self._value = cost, watch, value
        self._known: dict[str, float | None] = {}
        self._asked = 0
        self._deadline = inf if limits.episode_timeout_s is None else time.monotonic() + limits.episode_timeout_s

    @property
    def is_late(self) -> bool:
        """Whether the time for the search has passed. Every line then ends at its next turn."""
        return time.monotonic() >= self._deadline

    async def root(self) -> Line:
        """Start an episode, to be played on in several ways.

        Raises:
            UsageError: The environment cannot come back to a state, or the policy cannot go on from one.
        """
        async with self._places.fresh() as (held, opening):
            line = Line("0", opening, await self._voice(held, opening))
            if opening.unrepeatable:
                raise UsageError(
                    f"the environment cannot be searched turn by turn, because {opening.unrepeatable}; "
                    "best-of-n plays whole episodes"
                )
            if not line.voice.branches:
                raise UsageError(
                    f"the policy {self._policy.name!r} cannot go on from the middle of an episode (it needs a method "
                    "`resume`); best-of-n plays whole episodes"
                )
            held.at = line
            return line

    async def episode(self, number: int) -> Line:
        """Play a whole episode from a reset of its own.

        Args:
            number: Its number, which makes its samples different from those of the others.
        """
        async with self._places.fresh() as (held, opening):
            return await self._to_the_end(held, Line(str(number), opening, await self._voice(held, opening)))

    async def children(self, line: Line, branch: int) -> list[Line]:
        """Sample several next turns and play each; equal ones are played once.

        Args:
            line: A line that is not over.
            branch: Number of samples.
        """
        drawn = await together(self._said(line, f"{line.id}/{number}") for number in range(branch))
        options = _without_repeats(drawn)
        return await together(self._child(line, number, said) for number, said in enumerate(options))

    async def complete(self, line: Line) -> Line:
        """Play a line to its end, one sample in each turn; a line that is over is returned as it is."""
        if line.is_over:
            return line
        async with self._places.at(line) as held:
            return await self._to_the_end(held, line)

    async def scores(self, lines: Sequence[Line]) -> list[float]:
        """Return how good lines are, from 0 to 1, as the value function sees it; -1 for those it cannot score."""
        value = self._value
        new = [line for line in lines if value.compares or line.id not in self._known]
        if new:
            self._asked += 1
            asking = Asking(f"{self._job.seed}/{self._job.id}/value{self._asked}", self._cost)
            work = value.scores([candidate_of(line, value.channels) for line in new], asking)
            found = await self._watch.on(Component.POLICY, "value", work)
            self._known.update({line.id: score for line, score in zip(new, found, strict=True)})
        return [-1.0 if (score := self._known[line.id]) is None else score for line in lines]

    async def _voice(self, held: Held, opening: Opening) -> Voice:
        policy = self._policy
        if isinstance(policy, TokenPolicy):
            return TokenVoice.opening(policy, self._limits, self._cost, opening)
        if isinstance(policy, ScriptedPolicy):
            player = await held.place.script(policy)
            return ChatVoice(None, self._limits, self._cost, opening, player, policy.name)
        return ChatVoice(policy, self._limits, self._cost, opening)

    async def _said(self, line: Line, place: str) -> Said:
        if self.is_late:
            return Said(line.voice, None, Reason.TIME)
        began = time.perf_counter()
        self._cost.policy_calls += 1
        turn = line.voice.say(f"{self._job.seed}/{self._job.id}/{place}", self._deadline - time.monotonic())
        said = await self._watch.on(Component.POLICY, place, turn)
        return replace(said, seconds=time.perf_counter() - began)

    async def _child(self, line: Line, number: int, said: Said) -> Line:
        async with self._places.at(line) as held:
            return await self._played(held, line, number, said)

    async def _to_the_end(self, held: Held, line: Line) -> Line:
        held.at = line
        while not line.is_over:
            line = await self._played(held, line, 0, await self._said(line, f"{line.id}/r"), "r")
        return line

    async def _played(self, held: Held, line: Line, number: int, said: Said, kind: str = "") -> Line:
        began = time.perf_counter()
        played = await self._turn(held, line, said)
        after = line.after(f"{kind}{number}", said, played, time.perf_counter() - began)
        self._cost.turns += said.action is not None
        self._cost.episodes += after.is_over
        if not after.is_over:
            after.voice.hear(played.result.observation)
        held.at = after
        return after

    async def _turn(self, held: Held, line: Line, said: Said) -> Played:
        if said.reason is not None:
            return await self._places.interrupt(held, line, said.reason)
        assert said.action is not None
        return await self._places.step(held, line, said.action)


def _without_repeats(drawn: Sequence[Said]) -> list[Said]:
    """Return what was said without repeats, each with its share of the samples."""
    found: list[Said] = []
    for said in drawn:
        for at, before in enumerate(found):
            if (before.action, before.reason) == (said.action, said.reason):
                found[at] = replace(before, share=before.share + 1 / len(drawn))
                break
        else:
            found.append(replace(said, share=1 / len(drawn)))
    return found
