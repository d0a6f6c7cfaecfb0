"""`AheadRollouts`: episodes of the next steps run while a step's are awaited, so no step waits for its slowest one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.task import TaskSource
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Failures, Group, Limits, PlayedGroup, RolloutEngine
from agentgym.rollout.failures import Component
from agentgym.rollout.feed import GroupFeed
from agentgym.trainers.admission import AheadAdmission
from agentgym.trainers.batches import Batch, LearningPolicy, TaskRow, check_some_real


class AheadRollouts:
    """Runs the groups of a training. A step learns from the oldest complete groups.

    While the weights change, unfinished episodes pause before their next turn, which the new weights sample; resets and
    tools continue. Attempts are numbered over the whole run.

    Args:
        policy: Samples the turns; shares its weights with the model that is being trained.
        factory: Makes the environments.
        source: Provides the tasks.
        limits: Bounds on the rollouts.
        rows: All groups of the run, in order.
        groups: Groups per step, of all processes.
        group_size: Trajectories per group.
        ahead: Steps whose groups may run while a step's are awaited.
        place: The number of this process, and the number of processes. Each plays groups of its own.
        workers: Where the environments run (`RolloutEngine`).
        failures: How to handle failed episodes (`RolloutEngine`).
    """

    def __init__(
        self,
        policy: LearningPolicy,
        factory: EnvFactory,
        source: TaskSource,
        limits: Limits,
        rows: Sequence[TaskRow],
        *,
        groups: int,
        group_size: int,
        ahead: int,
        place: tuple[int, int] = (0, 1),
        workers: str = "threads",
        failures: Failures | None = None,
    ):
        self._policy, self._source = policy, source
        self._rank, self._ranks = place
        self._rows = rows[self._rank :: self._ranks]
        self._size = group_size
        self._admission = AheadAdmission(groups // self._ranks, ahead, len(self._rows))
        self._is_resumed = False
        self._complete: dict[int, PlayedGroup] = {}
        self._engine = RolloutEngine(factory, policy, limits, workers=workers, failures=failures)
        self._feed: GroupFeed | None = None

    def __call__(self, rows: Sequence[TaskRow], step: int, *, training: bool, first: int = 0) -> Batch:
        """Return the oldest complete groups; they need not be those of `rows`, which only say how many.

        Args:
            rows: Rows of this process.
            step: Number of completed steps.
            training: Must be true.
            first: Has no effect.

        Raises:
            UsageError: The model does not learn from these episodes.
            InfrastructureError: Every trajectory failed.
        """
        if not training:
            raise UsageError("episodes that run ahead are for training only; evaluate with another policy")
        self._policy.updated(step)
        feed = self._feed or self._begun(step)
        self._engine.resume()
        groups = self._awaited(feed)
        self._engine.pause()
        self._start(feed, self._admission.start(), step + 1)  # they are reset while the model learns
        self._policy.updated(step + 1)  # frees the cache: it is of no use after the update, which needs the memory
        check_some_real(groups)
        return Batch(groups, groups)

    @property
    def sampler_s(self) -> float:
        """Seconds in which at least one episode has waited for the policy."""
        return self._engine.waits.seconds(Component.POLICY)

    def close(self) -> None:
        """End all episodes and close the environments."""
        self._engine.close()

    def _begun(self, step: int) -> GroupFeed:
        """Start the first groups."""
        self._feed = self._engine.feed()
        if not self._is_resumed:
            self._admission.next = step * self._admission.per_step
        self._start(self._feed, [*sorted(self._admission.running), *self._admission.start()], step)
        return self._feed

    def _awaited(self, feed: GroupFeed) -> list[PlayedGroup]:
        """Wait until enough groups are complete for a step; return them."""
        self._note(feed.ready())
        while (numbers := self._admission.take()) is None:
            self._note([feed.next(), *feed.ready()])
        return [self._complete.pop(number) for number in numbers]

    def _note(self, groups: Iterable[PlayedGroup]) -> None:
        for played in groups:
            number = played.group.first // self._size // self._ranks
            self._admission.finish(number)
            self._complete[number] = played

    def _start(self, feed: GroupFeed, numbers: Iterable[int], step: int) -> None:
        feed.add([self._group(number, step) for number in numbers])

    def _group(self, number: int, step: int | None) -> Group:
        row, first = self._rows[number], (number * self._ranks + self._rank) * self._size
        return Group(self._source.get("train", row.index), row.seed, self._size, first, step)

    # Checkpoints.

    def save(self, checkpoint: Path) -> None:
        """Write the groups that later steps learn from into a checkpoint. An unfinished group will start again."""
        if self._feed is not None:
            self._note(self._feed.ready())
        complete = {
            number: [trajectory.to_dict() for trajectory in played.trajectories]
            for number, played in self._complete.items()
        }
        state = {**self._shape, "next": self._admission.next, "running": sorted(self._admission.running)}
        text = json.dumps({**state, "complete": complete})
        (checkpoint / _name(self._rank)).write_text(text, encoding="utf-8")

    def resume(self, checkpoint: Path) -> None:
        """Continue with the groups in a checkpoint, if it has any.

        Raises:
            UsageError: The groups have another shape.
        """
        if not is_carried(checkpoint):
            return
        path = checkpoint / _name(self._rank)
        state = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if changed := [name for name, value in self._shape.items() if state.get(name) != value]:
            name = changed[0]
            raise UsageError(
                f"{str(checkpoint)!r} holds groups for the next steps, with {name} {state.get(name)}: resume with the "
                f"same {name}, not {self._shape[name]}"
            )
        self._is_resumed, admission = True, self._admission
        admission.next = state["next"]
        admission.running = {number for number in state["running"] if number < admission.total}
        for text, trajectories in state["complete"].items():
            admission.complete.add(number := int(text))
            self._complete[number] = self._restored(number, [*map(Trajectory.from_dict, trajectories)])

    @property
    def _shape(self) -> dict[str, Any]:
        return {"groups": self._admission.per_step * self._ranks, "group_size": self._size, "processes": self._ranks}

    def _restored(self, number: int, trajectories: list[Trajectory]) -> PlayedGroup:
        return PlayedGroup(self._group(number, trajectories[0].training_step), trajectories)


def is_carried(checkpoint: Path) -> bool:
    """Whether a checkpoint holds groups for the steps after it."""
    return any(checkpoint.glob(_name("*")))


def _name(rank: int | str) -> str:
    return f"ahead-{rank}.json"
