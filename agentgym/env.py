"""`Env`: a multi-turn tool-use environment, written once. A real `gymnasium.Env`, synchronous and asynchronous.

What an author writes is in `authoring`, how it is played in `engine`; here is what everyone else calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from agentgym.drive import run_now, run_on_loop
from agentgym.endings import AnyReason
from agentgym.engine import Engine
from agentgym.messages import Message, text_of
from agentgym.spaces import Action
from agentgym.steps import Snapshot, StepResult, reset_options


class Env(Engine):
    """Base class of all environments.

    Args:
        tasks: Where tasks come from; `default_tasks()` if not given.
        split: The split that `reset` draws from unless its options say otherwise; if not given, `train`, or the first
            one of a source that has no `train`.
        dialect: How the model writes tool calls (`agentgym.dialects`), a name or an instance.
        scheme: What the reward channels pay: a `Scheme`, or a name in the class's `schemes`; `"default"` if not given.
            Refused if unsound (`rewards.lint`).
        max_turns: Turns after which an episode is truncated; the class's `max_turns` if not given.
        time_limit_s: Wall-clock seconds after which an episode is truncated; `None` is no limit.
        render_mode: `"ansi"` makes `render` return the conversation as text.
    """

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Start an episode. Same seed and options, same episode.

        Args:
            seed: Seeds this instance's own generator, which chooses the task and everything random in the episode.
            options: `task` (a `Task` or its id), or `split` and `index`; otherwise the seed chooses from `split`.
                `training_step`, a whole number from 0, is for trainers alone: environments with a curriculum read it.

        Returns:
            The opening messages, and info (`task`, `split`, `difficulty`, `tools`).
        """
        return self._drive(self._reset(seed, options))

    def step(self, action: Action) -> StepResult:  # type: ignore[override]
        """Play one turn: run the tool calls in `action` and return the messages they led to.

        Raises:
            ResetNeeded: There is no episode, or it has ended.
            InfrastructureError: Something around the model broke; the episode has failed.
        """
        work = self._step(action)
        return run_on_loop(work) if self._is_async else run_now(work)

    def interrupt(self, reason: AnyReason) -> StepResult:
        """Truncate the episode for a reason that the policy's side sees (tokens, context, time) and grade it."""
        return self._drive(self._interrupt(reason))

    async def areset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """`reset` for asynchronous callers; blocking work leaves the event loop."""
        return await self._away(self._reset(seed, options))

    async def astep(self, action: Action) -> StepResult:
        """`step` for asynchronous callers; blocking work leaves the event loop."""
        return await self._away(self._step(action))

    async def ainterrupt(self, reason: AnyReason) -> StepResult:
        """`interrupt` for asynchronous callers."""
        return await self._away(self._interrupt(reason))

    @property
    def unwrapped(self) -> Self:
        """This environment, without wrappers."""
        return self

    def snapshot(self) -> Snapshot:
        """Return the current state. The default keeps the actions, which `restore` plays again."""
        return Snapshot(self.task, self._seed, tuple(self._actions), self._training_step)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a state of `snapshot`, by playing its actions again."""
        self.reset(seed=snapshot.seed, options=reset_options(snapshot.task, snapshot.training_step))
        for action in snapshot.actions:
            self.step(action)

    def render(self) -> str | None:  # type: ignore[override]
        """Return the conversation so far as text, if `render_mode` is `"ansi"`."""
        if self.render_mode != "ansi":
            return None
        return "\n".join(f"[{message.get('role')}] {text_of(message)}" for message in self._transcript)

    def close(self) -> None:
        """Release everything the environment holds. Safe to call twice."""
        if self._begun:
            self._drive(self._stop())
        self.release()

    async def aclose(self) -> None:
        """`close` for asynchronous callers; an `async def stop` runs on the loop that played the episode."""
        if self._begun:
            await self._away(self._stop())
        self.release()
