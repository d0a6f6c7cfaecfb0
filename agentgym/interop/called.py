"""`CalledEpisode`: an episode that is driven by tool calls, for programs that run the conversation themselves.

Trainers and clients with a loop of their own know a tool as a function that returns text. Each call is a turn here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gymnasium.error import ResetNeeded

from agentgym.endings import AnyReason, Reason
from agentgym.engine.steps import StepResult
from agentgym.env import Env
from agentgym.messages import Message, ToolCall, assistant

OVER = "The episode has ended: nothing that you call has an effect any more."
"""What a policy reads that goes on calling tools after the end."""


class CalledEpisode:
    """Episodes of one environment, one after another, each driven by tool calls.

    Errors are those of the environment: `InfrastructureError` says nothing about the policy, so its episode must be
    dropped, not rewarded. What the policy does wrong is in what it reads.

    Args:
        env: The environment; `dialect="native"` leaves the description of tools to the program.
    """

    def __init__(self, env: Env):
        self.env = env
        self.opening: list[Message] = []
        """The messages that the episode begins with."""
        self.info: dict[str, Any] = {}
        """The latest `info` of the environment."""
        self.turn_rewards: list[float] = []
        """The reward of each turn; one more if the program ended the episode, for its grading."""
        self.turn_channels: list[dict[str, float]] = []
        """The reward channels of each turn, unweighted; as many as `turn_rewards`."""
        self.is_over = True
        """Whether the episode has ended."""
        self.is_truncated = False
        """Whether a limit ended it."""
        self.has_failed = False
        """Whether something around the policy broke, so that the episode has no reward."""

    @property
    def reward(self) -> float:
        """The rewards of all turns so far, added up.

        Raises:
            ResetNeeded: The episode failed, so it has no reward.
        """
        if self.has_failed:
            raise ResetNeeded("the episode failed around the policy and has no reward; begin another one")
        return sum(self.turn_rewards)

    @property
    def channels(self) -> dict[str, float]:
        """The reward channels, unweighted, each added up over the turns so far."""
        names = dict.fromkeys(name for turn in self.turn_channels for name in turn)
        return {name: sum(turn.get(name, 0.0) for turn in self.turn_channels) for name in names}

    @property
    def ending(self) -> str | None:
        """The name of the reason that it ended for, if it has ended."""
        return self.info.get("ending")

    def begin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """Begin an episode and return its opening messages. Takes the arguments of `Env.reset`."""
        with self._watched():
            return self._begun(*self.env.reset(seed=seed, options=options))

    async def abegin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """`begin` for asynchronous callers."""
        with self._watched():
            return self._begun(*await self.env.areset(seed=seed, options=options))

    def call(self, name: str, arguments: Mapping[str, Any]) -> list[Message]:
        """Play a turn that calls one tool, and return what the policy reads next."""
        return self.step(_turn(name, arguments))

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> list[Message]:
        """`call` for asynchronous callers."""
        return await self.astep(_turn(name, arguments))

    def step(self, action: Any) -> list[Message]:
        """Play a turn as `Env.step` does, and return what the policy reads next; `OVER` after the end."""
        if self.is_over:
            return self._over()
        with self._watched():
            return self._played(self.env.step(action))

    async def astep(self, action: Any) -> list[Message]:
        """`step` for asynchronous callers."""
        if self.is_over:
            return self._over()
        with self._watched():
            return self._played(await self.env.astep(action))

    def end(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """End the episode if it still runs, so that it is graded, and return its reward.

        Args:
            reason: Why: `GAVE_UP` if the policy stopped calling tools, or the limit that it reached.
        """
        if not self.is_over:
            with self._watched():
                self._played(self.env.interrupt(reason))
        return self.reward

    async def aend(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """`end` for asynchronous callers."""
        if not self.is_over:
            with self._watched():
                self._played(await self.env.ainterrupt(reason))
        return self.reward

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.is_over = self.has_failed = True
            raise

    def _over(self) -> list[Message]:
        if self.has_failed or not self.opening:
            raise ResetNeeded("no episode is running; begin one")
        return [{"role": "user", "content": OVER}]

    def _begun(self, opening: list[Message], info: dict[str, Any]) -> list[Message]:
        self.opening, self.info = opening, info
        self.turn_rewards, self.turn_channels = [], []
        self.is_over = self.is_truncated = self.has_failed = False
        return opening

    def _played(self, result: StepResult) -> list[Message]:
        self.info = result.info
        self.turn_rewards.append(float(result.reward))
        self.turn_channels.append(dict(result.info["rewards"]))
        self.is_over, self.is_truncated = result.terminated or result.truncated, result.truncated
        return result.observation


def _turn(name: str, arguments: Mapping[str, Any]) -> Message:
    return assistant("", [ToolCall(name, arguments)])
