"""`CalledEpisode`: an episode driven by tool calls, for programs that run the conversation themselves.

For such trainers and clients, a tool is a function that returns text. Here, each call is a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gymnasium.error import ResetNeeded

from agentgym.endings import AnyReason, Reason
from agentgym.engine.steps import StepResult
from agentgym.env import Env
from agentgym.messages import Message, ToolCall, assistant, text_of

OVER = "The episode has ended: nothing that you call has an effect any more."
"""The result of tool calls after the end of the episode."""


class CalledEpisode:
    """Episodes of one environment, one after another, each driven by tool calls.

    Errors are those of the environment. An `InfrastructureError` says nothing about the policy, so its episode must be
    dropped, not rewarded. The policy's mistakes are part of the observations.

    Args:
        env: The environment; with `dialect="native"`, the program describes the tools.
    """

    def __init__(self, env: Env):
        self.env = env
        self.opening: list[Message] = []
        """The opening messages."""
        self.info: dict[str, Any] = {}
        """The latest `info` of the environment."""
        self.turn_rewards: list[float] = []
        """The reward of each turn, and of the grading if the program ended the episode."""
        self.turn_channels: list[dict[str, float]] = []
        """The unweighted reward channels, parallel to `turn_rewards`."""
        self.is_over = True
        """Whether the episode has ended."""
        self.is_truncated = False
        """Whether a limit ended it."""
        self.has_failed = False
        """Whether something around the policy failed, so that the episode has no reward."""

    @property
    def reward(self) -> float:
        """The sum of the rewards so far.

        Raises:
            ResetNeeded: The episode failed, so it has no reward.
        """
        if self.has_failed:
            raise ResetNeeded("the episode failed around the policy and has no reward; begin a new one")
        return sum(self.turn_rewards)

    @property
    def channels(self) -> dict[str, float]:
        """The sum of each unweighted reward channel over the turns so far."""
        names = dict.fromkeys(name for turn in self.turn_channels for name in turn)
        return {name: sum(turn.get(name, 0.0) for turn in self.turn_channels) for name in names}

    @property
    def ending(self) -> str | None:
        """The name of the reason for its ending; `None` while it runs."""
        return self.info.get("ending")

    def begin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """Begin an episode and return its opening messages. Takes the arguments of `Env.reset`."""
        with self._failing():
            return self._note_opening(*self.env.reset(seed=seed, options=options))

    async def abegin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """`begin` for asynchronous callers."""
        with self._failing():
            return self._note_opening(*await self.env.areset(seed=seed, options=options))

    def call(self, name: str, arguments: Mapping[str, Any]) -> list[Message]:
        """Play a turn that calls one tool, and return the observation."""
        return self.step(_turn(name, arguments))

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> list[Message]:
        """`call` for asynchronous callers."""
        return await self.astep(_turn(name, arguments))

    def step(self, action: Any) -> list[Message]:
        """Play a turn as `Env.step` does, and return the observation; `OVER` after the end."""
        if self.is_over:
            return self._over()
        with self._failing():
            return self._note_turn(self.env.step(action))

    async def astep(self, action: Any) -> list[Message]:
        """`step` for asynchronous callers."""
        if self.is_over:
            return self._over()
        with self._failing():
            return self._note_turn(await self.env.astep(action))

    def end(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """End the episode if it still runs, so that it is graded, and return its reward.

        Args:
            reason: `GAVE_UP` if the policy stopped calling tools, or the limit that it reached.
        """
        if not self.is_over:
            with self._failing():
                self._note_turn(self.env.interrupt(reason))
        return self.reward

    async def aend(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """`end` for asynchronous callers."""
        if not self.is_over:
            with self._failing():
                self._note_turn(await self.env.ainterrupt(reason))
        return self.reward

    def close(self) -> None:
        """Close the environment. Safe to call twice."""
        self.is_over = True
        self.env.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Mark the episode as failed if the block raises."""
        try:
            yield
        except BaseException:
            self.is_over = self.has_failed = True
            raise

    def _over(self) -> list[Message]:
        if self.has_failed or not self.opening:
            raise ResetNeeded("no episode is running; begin one")
        return [{"role": "user", "content": OVER}]

    def _note_opening(self, opening: list[Message], info: dict[str, Any]) -> list[Message]:
        self.opening, self.info = opening, info
        self.turn_rewards, self.turn_channels = [], []
        self.is_over = self.is_truncated = self.has_failed = False
        return opening

    def _note_turn(self, result: StepResult) -> list[Message]:
        self.info = result.info
        self.turn_rewards.append(float(result.reward))
        self.turn_channels.append(dict(result.info["rewards"]))
        self.is_over, self.is_truncated = result.terminated or result.truncated, result.truncated
        return result.observation


def as_text(messages: Iterable[Message]) -> str:
    """Return messages as one text, for programs whose tools return text."""
    return "\n\n".join(text_of(message) for message in messages)


def _turn(name: str, arguments: Mapping[str, Any]) -> Message:
    return assistant("", [ToolCall(name, arguments)])
