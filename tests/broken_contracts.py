"""Environments that each break one promise which `broken_envs` leaves whole, so that every check is seen to fail."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import gymnasium

from agentgym.endings import Reason
from agentgym.engine.steps import Snapshot, Solution, StepResult
from agentgym.messages import Message, ToolCall, user
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.task import GeneratedTasks, Task
from agentgym.toolset import tool
from tests.sound_envs import SPLITS, SoundEnv, boxes_task

Opening = tuple[list[Message], dict[str, Any]]


class WrongSpace(SoundEnv):
    """Declares observations that it never gives."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.observation_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]


class FourValues(SoundEnv):
    """Still speaks Gym's old protocol."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, info


class NumbersItself(SoundEnv):
    """Every instance has another name."""

    numbers = itertools.count()

    def start(self, task: Task) -> str:
        self.number = next(self.numbers)
        return f"{super().start(task)} You are player {self.number}."


class CountsLooks(SoundEnv):
    """What a box holds depends on how often anybody has looked."""

    looks = itertools.count()

    def see(self, box: str) -> str:
        return f"{super().see(box)}, seen {next(self.looks)} times"


class OtherOnALoop(SoundEnv):
    """Says more on an event loop."""

    async def astep(self, action: Any) -> StepResult:
        result = await super().astep(action)
        return result._replace(observation=[*result.observation, user("(asynchronously)")])


class KnowsItIsACopy(SoundEnv):
    """Plays otherwise where it was sent to."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self.is_copy = True

    def start(self, task: Task) -> str:
        return f"{super().start(task)}{' I was copied.' if getattr(self, 'is_copy', False) else ''}"


class HidesATool(SoundEnv):
    """Lists only its first tool."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        observation, info = super().reset(seed=seed, options=options)
        return observation, info | {"tools": info["tools"][:1]}


class StepsBeforeReset(SoundEnv):
    """Begins an episode by itself."""

    def step(self, action: Any) -> StepResult:
        try:
            return super().step(action)
        except gymnasium.error.ResetNeeded:
            self.reset(seed=0)
            return super().step(action)


class Undocumented(SoundEnv):
    pass


class BreaksAtReset(SoundEnv):
    """Takes no options."""

    def reset(self, *, seed: int | None = None) -> Opening:  # type: ignore[override]
        return super().reset(seed=seed)


class AcceptsStepsAfterTheEnd(SoundEnv):
    """Goes on after its episode has ended."""

    def step(self, action: Any) -> StepResult:
        if self.reason is not None:
            return StepResult([user("More?")], 0.0, False, False, {"rewards": dict.fromkeys(self.channels, 0.0)})
        return super().step(action)


class RefusesInItsOwnWords(SoundEnv):
    """Says in an error of its own that it was not reset."""

    def step(self, action: Any) -> StepResult:
        try:
            return super().step(action)
        except gymnasium.error.ResetNeeded as error:
            raise RuntimeError("reset me") from error


class TakesOneTurnMore(SoundEnv):
    """Counts the first turn as none where it was given a limit."""

    def __init__(self, max_turns: int | None = None, **kwargs: Any):
        super().__init__(max_turns=None if max_turns is None else max_turns + 1, **kwargs)


# Endings.


class Ends(SoundEnv):
    """Says at its last turns what `tells` says; `goes_on` at the others."""

    tells: ClassVar[Mapping[str, Any]] = {}
    goes_on: ClassVar[Mapping[str, Any]] = {}

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        over = result.terminated or result.truncated
        return result._replace(info={**result.info, **(self.tells if over else self.goes_on)})


class EndsTooEarly(Ends):
    """Names an ending while the episode goes on."""

    goes_on = {"ending": "answered"}


class EndsForNoReason(Ends):
    """Knows an ending that is none."""

    tells = {"ending": "bored"}

    @property
    def reason(self) -> Any:
        return None if super().reason is None else "bored"


class EndsForAnotherReason(Ends):
    """Names another ending than the one it knows."""

    tells = {"ending": "gave_up"}


class EndsWithACount(Ends):
    """Says with a number whether it was a success."""

    tells = {"is_success": 1}


class EndsWithTheOtherFlag(SoundEnv):
    """Calls its answers truncations."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(terminated=result.truncated, truncated=result.terminated)


# Seeds.


class CountsResets(SoundEnv):
    """Opens as the seed says, but without a seed as the number of resets in the process says."""

    resets = itertools.count()

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        number = next(self.resets)
        observation, info = super().reset(seed=seed, options=options)
        return observation if seed is not None else [*observation, user(f"Reset {number}.")], info


class OpensOtherwiseById(SoundEnv):
    """Says how its task was asked for."""

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        observation, info = super().reset(seed=seed, options=options)
        by_id = isinstance((options or {}).get("task"), str)
        return [*observation, user("As you asked.")] if by_id else observation, info


class SeedsRandomOnly(SoundEnv):
    """Makes itself deterministic at the cost of everyone who draws from `random`."""

    def start(self, task: Task) -> str:
        random.seed(7)
        return super().start(task)


# Tasks.


class Tasks(GeneratedTasks):
    """A task source with one thing wrong: `wrong` says what."""

    def __init__(self, wrong: str):
        super().__init__("boxes", boxes_task, SPLITS)
        self.wrong, self.number = wrong, next(_SOURCES)

    def get(self, split: str, index: int) -> Task:
        if self.wrong == "takes any split" and split not in self.splits:
            return super().get("train", index)
        if self.wrong == "takes any number":
            return super().get(split, index % 60)
        if self.wrong == "has no end" and index == 60:
            return super().get(split, 0)
        if self.wrong == "looks up" and split not in self.splits:
            raise KeyError(split)
        task = super().get(split, index)
        if self.wrong == "says another split" and split == "test":
            return replace(task, split="train")
        if self.wrong == "repeats an id" and index == 50:
            return replace(task, id=f"boxes/{split}/0")
        if self.wrong == "numbers itself" and index == 39:
            return replace(task, prompt=f"{task.prompt} ({self.number})")
        return task

    def find(self, task_id: str) -> Task:
        if self.wrong == "finds anything":
            return super().find(task_id if task_id.startswith("boxes/") else "boxes/train/0")
        if self.wrong == "finds the first":
            super().find(task_id)
            return super().find("boxes/train/0")
        return super().find(task_id)


_SOURCES = itertools.count()


class HasTasks(SoundEnv):
    """Makes the task source that its argument names."""

    def __init__(self, wrong: str, **kwargs: Any):
        super().__init__(tasks=Tasks(wrong), **kwargs)


class TuplesInGold(SoundEnv):
    """Has gold that JSON changes."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", tuple_gold_task, SPLITS)


def tuple_gold_task(split: str, index: int) -> Task:
    task = boxes_task(split, index)
    return replace(task, gold={**task.gold, "size": (1, 2)})


# Tools.


class Describes(SoundEnv):
    """Shows its first tool as `shown` says."""

    shown: ClassVar[Mapping[str, Any]] = {}

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Opening:
        observation, info = super().reset(seed=seed, options=options)
        first, *rest = info["tools"]
        return observation, info | {"tools": [{**first, "function": {**first["function"], **self.shown}}, *rest]}


class DescribesNoSchema(Describes):
    """Shows parameters that are no JSON Schema."""

    shown = {"parameters": {"type": 5}}


class DescribesAText(Describes):
    """Shows parameters that are a text."""

    shown = {"parameters": {"type": "string"}}


class DescribesNothing(Describes):
    """Does not say what its tool is for."""

    shown = {"description": " "}


class DescribesNoArgument(Describes):
    """Does not say what an argument is."""

    shown = {"parameters": {"type": "object", "properties": {"box": {"type": "string"}}}}


class AnswersMistakesWithNo(SoundEnv):
    """Does not say what was wrong with a call."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result if self.reason or "Error" not in str(result[0]) else result._replace(observation=[user("No.")])


class TakesWordsForNumbers(SoundEnv):
    """Does not mind what it is given for a number."""

    @tool
    def wait(self, minutes: int = 1) -> str:
        """Wait.

        Args:
            minutes: How long.
        """
        return "Waited."

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(observation=[user("Waited.")]) if "certainly not" in str(action) else result


class BreaksOnUnknownTools(SoundEnv):
    """Looks tools up without asking whether they are there."""

    def step(self, action: Any) -> StepResult:
        for call in [] if isinstance(action, str) else action.get("tool_calls", ()):
            self.tools.get(call["function"]["name"]).parameters  # noqa: B018
        return super().step(action)


# Grades.


class Channels(SoundEnv):
    """Pays in its first turn what `pays` says, beside what it should."""

    pays: ClassVar[Mapping[str, Any]] = {}

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        rewards = {**result.info["rewards"], **self.pays}
        return result._replace(info={**result.info, "rewards": rewards})


class PaysIntoAnotherChannel(Channels):
    """Shows a channel that it did not declare."""

    pays = {"bonus": 1.0}


class PaysNan(Channels):
    """Shows a value that is no number."""

    pays = {"effort": math.nan}


class PaysText(Channels):
    """Shows a number as text."""

    pays = {"effort": "1"}


class PaysTooLittle(Channels):
    """Declares 0 to 1 and takes something away."""

    pays = {"effort": -0.5}


class PaysALittleBesidesTheScheme(SoundEnv):
    """Adds a small bonus of its own to every reward."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(reward=result.reward + 1e-3)


class PaysFailuresMore(SoundEnv):
    """Keeps to its scheme, but not to the range that the scheme was checked with."""

    channels = {OUTCOME: Channel("right"), "effort": Channel("looked")}
    scheme = Scheme({OUTCOME: 1.0, "effort": 0.4})


class StopsEarly(SoundEnv):
    """Has a solution that does the work and does not hand it in."""

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})

    def see(self, box: str) -> str:
        self.reward(OUTCOME, 1.0)
        return super().see(box)


class HidesItsSuccess(SoundEnv):
    """Pays the outcome of a success, and says that it was none."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(info={**result.info, "is_success": False})


class ChangesItsMind(SoundEnv):
    """Grades an answer for the third time otherwise than before."""

    graded: ClassVar[dict[str, int]] = {}

    def grade(self) -> dict[str, float]:
        times = self.graded[self.task.id] = self.graded.get(self.task.id, 0) + 1
        return {"effort": float(self.reason is Reason.ANSWERED and times > 4)}


class TellsSuccessByChance(SoundEnv):
    """Says with every other answer that it was no success."""

    answers = itertools.count()

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        if self.reason is not Reason.ANSWERED:
            return result
        return result._replace(info={**result.info, "is_success": bool(next(self.answers) % 2)})


# Life.


class CleansUpAtTheEnd(SoundEnv):
    """Forgets an episode when it ends, not when the next one begins."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.looked = []

    def start(self, task: Task) -> str:
        return f"Room {self.np_random.integers(1000)}. {task.prompt}"

    def grade(self) -> None:
        self.looked = []


class RestoresOnlyItself(SoundEnv):
    """Keeps its snapshots to itself."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.kept: list[Snapshot] = []

    def snapshot(self) -> Any:
        self.kept.append(super().snapshot())
        return len(self.kept) - 1

    def restore(self, snapshot: Any) -> None:
        if snapshot < len(self.kept):
            super().restore(self.kept[snapshot])
        else:
            self.reset(seed=0)


class HoldsWhatItLookedAt(SoundEnv):
    """Frees a box that it has looked into once too often."""

    def release(self) -> None:
        if getattr(self, "looked", ()):
            self.freed = getattr(self, "freed", 0) + 1
            assert self.freed < 2, "freed twice"


class HoldsWhatWasAnswered(SoundEnv):
    """Frees an answer once too often."""

    def release(self) -> None:
        if self.reason is not None:
            self.freed = getattr(self, "freed", 0) + 1
            assert self.freed < 2, "freed twice"


class HangsAtReset(SoundEnv):
    """Never comes back from a reset."""

    def start(self, task: Task) -> str:
        time.sleep(600)
        return super().start(task)
