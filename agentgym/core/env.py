"""`Env`: a multi-turn tool-use environment, written once. A real `gymnasium.Env`, synchronous and asynchronous.

`engine.authoring` has the interface for authors, `engine.playing` runs the episodes, and `engine.calling` their calls;
this module has the public API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from agentgym.core.endings import AnyReason
from agentgym.core.engine.drive import run_now, run_on_loop
from agentgym.core.engine.playing import Engine
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import Snapshot, StepResult, reset_options
from agentgym.core.engine.threads import blocking, blocks
from agentgym.core.messages import Message, text_of


class Env(Engine):
    """Base class of all environments.

    Args:
        tasks: The task source; `default_tasks()` if not given.
        split: The split that `reset` draws from unless its options say otherwise. Default: `train`, or the first split
            if the source has no `train`.
        dialect: How the model writes tool calls (`agentgym.core.dialects`), a name or an instance.
        scheme: How reward channels are paid: a `Scheme`, or a name in the class's `schemes`; `"default"` if not given.
            Refused if unsound (`rewards.lint`).
        max_turns: Turns after which an episode is truncated; the class's `max_turns` if not given.
        max_calls_per_turn: Tool calls allowed in one turn; the class's `max_calls_per_turn` if not given.
        time_limit_s: Wall-clock seconds after which an episode is truncated; `None` means no limit.
        lenient: Run calls that the model wrote in another form than the dialect's (`near_misses`), without the reward
            for the format. For evaluation only.
        render_mode: `"ansi"` makes `render` return the conversation as text.
    """

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Start an episode. The same seed and options give the same episode.

        Args:
            seed: Seeds this instance's own generator, which chooses the task and drives all randomness in the episode.
            options: `task` (a `Task` or its id), or `split` and `index`; otherwise the seed chooses from `split`.
                `training_step`, an integer from 0, is set by trainers for environments with a curriculum.

        Returns:
            The opening messages, and info (`task`, `split`, `difficulty`, `tools`).
        """
        return self._drive(self._reset(seed, options))

    def step(self, action: Action) -> StepResult:  # type: ignore[override]
        """Play one turn: run the tool calls in `action` and return the resulting messages.

        Raises:
            ResetNeeded: No episode is running.
            InfrastructureError: Something around the model broke; the episode has failed.
        """
        work = self._step(action)
        return run_on_loop(work) if self._is_async else run_now(work)

    def interrupt(self, reason: AnyReason) -> StepResult:
        """End the episode for a reason on the policy's side (tokens, context, time) and grade it."""
        return self._drive(self._interrupt(reason))

    async def areset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """`reset` for asynchronous callers; blocking work runs in a thread."""
        return await self._away(self._reset(seed, options))

    async def astep(self, action: Action) -> StepResult:
        """`step` for asynchronous callers; blocking work runs in a thread."""
        return await self._away(self._step(action))

    async def ainterrupt(self, reason: AnyReason) -> StepResult:
        """`interrupt` for asynchronous callers."""
        return await self._away(self._interrupt(reason))

    @property
    def unwrapped(self) -> Self:
        """This environment, without wrappers."""
        return self

    def snapshot(self) -> Snapshot:
        """Return the current state. By default it stores the actions, which `restore` replays."""
        return Snapshot(self.task, self._seed, tuple(self._actions), self._training_step)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a state from `snapshot` by replaying its actions."""
        self.reset(seed=snapshot.seed, options=reset_options(snapshot.task, snapshot.training_step))
        for action in snapshot.actions:
            self.step(action)

    def render(self) -> str | None:  # type: ignore[override]
        """Return the conversation so far as text, if `render_mode` is `"ansi"`."""
        if self.render_mode != "ansi":
            return None
        return "\n".join(f"[{message.get('role')}] {text_of(message)}" for message in self._transcript)

    def close(self) -> None:
        """Release all resources. Safe to call twice."""
        if self._is_started:
            self._drive(self._stop())
        self.release()

    async def aclose(self) -> None:
        """`close` for asynchronous callers; an `async def stop` runs on the loop that played the episode."""
        if self._is_started:
            await self._away(self._stop())
        if blocks.get():
            self.release()
        else:
            await blocking.run(self.release)
