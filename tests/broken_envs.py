"""Environments that each break one promise. The conformance suite must find which."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentgym.endings import Reason
from agentgym.engine.steps import Solution, StepResult
from agentgym.errors import TaskError, ToolError
from agentgym.messages import Message, ToolCall, text_of
from agentgym.rewards import OUTCOME, Channel, Scheme
from agentgym.task import GeneratedTasks, Task
from agentgym.toolset import tool
from tests.sound_envs import SPLITS, SoundEnv, boxes_task


class IgnoresSeed(SoundEnv):
    """Drops the seed."""

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        return super().reset(options=options)


class AlwaysTheSameTask(SoundEnv):
    """Takes the first task whatever the seed."""

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        return super().reset(seed=seed, options={"index": 0} | dict(options or {}))


class GoldInPrompt(SoundEnv):
    """Tells the rubric at the start."""

    def start(self, task: Task) -> str:
        return f"{super().start(task)} ({task.gold['rubric']})"


class GoldInTaskPrompt(SoundEnv):
    """Its task generator writes the rubric into the prompt."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", leaky_task, SPLITS)


class GoldInToolResult(SoundEnv):
    """A forgotten debugging aid."""

    def see(self, box: str) -> str:
        return f"{super().see(box)} [debug: {self.task.gold['rubric']}]"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": task.gold["content"]})


class GoldInToolError(SoundEnv):
    """Too helpful an error message."""

    def see(self, box: str) -> str:
        if box not in self.task.data["boxes"]:
            raise ToolError(f"No such box. The grader says: {self.task.gold['rubric']}")
        return super().see(box)


class GoldInInfo(SoundEnv):
    """Puts the task's gold into every info."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        result.info["gold"] = dict(self.task.gold)
        return result


class UsesGlobalRng(SoundEnv):
    """Draws from the module `random`."""

    def start(self, task: Task) -> str:
        super().start(task)
        return f"Room {random.randrange(1000)}. {task.prompt}"


class PeeksAtGlobalRng(SoundEnv):
    """Draws from the module `random` and covers its tracks."""

    def start(self, task: Task) -> str:
        super().start(task)
        kept = random.getstate()
        room = random.randrange(1000)
        random.setstate(kept)
        return f"Room {room}. {task.prompt}"


class SeedsGlobalRng(SoundEnv):
    """Makes itself deterministic at everyone's cost."""

    def start(self, task: Task) -> str:
        np.random.seed(7)
        return super().start(task)


class CrashesOnLongNames(SoundEnv):
    """Passes an argument on to something that cannot take it."""

    def see(self, box: str) -> str:
        if len(box) > 255:
            raise OSError("file name too long")
        return super().see(box)


class CrashesOnBraces(SoundEnv):
    """Formats the model's text as if it were its own."""

    def respond(self, text: str) -> str:
        raise ToolError(f"Not understood: {text[:100]}".format())


class EchoesWithoutBound(SoundEnv):
    """Repeats a long word of the model many times."""

    @tool(max_chars=10**9)
    def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return self.see(box) if box in self.task.data["boxes"] else box * 1000


class ShowsTooMuch(SoundEnv):
    """Fills the context with one look."""

    @tool(max_chars=10**9)
    def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return self.see(box) + "\n" + "dust " * 20_000

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": text_of(observation[-1]).split("\n")[0]})


class PaysOutOfRange(SoundEnv):
    """Declares 0 to 1 and pays 5."""

    def see(self, box: str) -> str:
        found = super().see(box)
        self.reward("effort", 5.0)
        return found


class PaysAnEpisodeChannelTwice(SoundEnv):
    """Calls a channel once-in-an-episode and pays it every turn."""

    channels = {OUTCOME: Channel("right"), "effort": Channel("looked")}


class UnsoundScheme(SoundEnv):
    """Pays so much for effort that failing with effort is better."""

    scheme = Scheme(weights={OUTCOME: 1.0, "effort": 0.9}, allow_unsound=True)


class UnsoundNamedScheme(SoundEnv):
    """Offers, under a name, a scheme in which looking pays a failed episode more for ending sooner."""

    schemes = {"eager": Scheme(weights={OUTCOME: 1.0, "effort": 0.1}, averaged=frozenset({"effort"}))}


class PaysForHaste(SoundEnv):
    """Pays the more the sooner an answer comes, right or wrong."""

    channels = {**SoundEnv.channels, "haste": Channel("share of the turns that were not needed")}
    scheme = Scheme(weights={OUTCOME: 1.0, "haste": 0.2})

    @tool
    def answer(self, text: str) -> str:
        """Answer and end.

        Args:
            text: What is in the box.
        """
        self.reward("haste", 1.0 - len(self.looked) / self.max_turns)
        return super().answer(text)


class PaysEveryLook(SoundEnv):
    """Offers, under a name, a scheme that pays for every look into a box, however often it is the same one."""

    schemes = {"curious": Scheme(weights={OUTCOME: 1.0, "effort": 0.1})}


class AcceptsAnEmptyAnswer(SoundEnv):
    """Takes no answer at all for a right one."""

    @tool
    def answer(self, text: str) -> str:
        """Answer and end.

        Args:
            text: What is in the box.
        """
        return super().answer(text or self.task.gold["content"])


class FailsToFail(SoundEnv):
    """Calls its solution an attempt that fails."""

    def failing(self, task: Task) -> Solution:
        return self.solution(task)


class PaysBesidesTheScheme(SoundEnv):
    """Adds its own bonus to the reward."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(reward=result.reward + 0.25)


class WrongSolution(SoundEnv):
    """Its reference policy does not look."""

    def solution(self, task: Task) -> Solution:
        yield ToolCall("answer", {"text": "copper lantern"})


class PaysForNothing(SoundEnv):
    """Takes the absence of a wrong answer for a right one."""

    def grade(self) -> dict[str, float]:
        return {} if self.reason is Reason.ANSWERED else {OUTCOME: 1.0}


class PaysForAnything(SoundEnv):
    """Takes any answer for a right one."""

    def grade(self) -> dict[str, float]:
        return {OUTCOME: 1.0} if self.reason is Reason.ANSWERED else {}


class PaysForNonsense(SoundEnv):
    """Takes every answer for right that is not wrong in an expected way."""

    def grade(self) -> dict[str, float]:
        answered = self.reason is Reason.ANSWERED and "lantern" not in str(self._actions[-1])
        return {OUTCOME: 1.0} if answered else {}


class DependsOnHashSeed(SoundEnv):
    """Lists a set."""

    def start(self, task: Task) -> str:
        return f"{super().start(task)} Boxes hold: {', '.join(set(task.data['boxes'].values()))}."


class SurvivesReset(SoundEnv):
    """Sets up an episode's state in `__init__`."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.looked = []

    def start(self, task: Task) -> str:
        return f"Room {self.np_random.integers(1000)}. {task.prompt}"


class SharesStateWithSiblings(SoundEnv):
    """Keeps an episode's state on the class."""

    shared: list[str] = []

    def start(self, task: Task) -> str:
        opening = super().start(task)
        SharesStateWithSiblings.shared.clear()
        self.looked = SharesStateWithSiblings.shared
        return opening

    def see(self, box: str) -> str:
        return f"{super().see(box)} (look {len(self.looked)})"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": task.gold["content"]})


class LeavesProcess(SoundEnv):
    """Starts a helper for each episode and forgets it."""

    def start(self, task: Task) -> str:
        self.helper = subprocess.Popen(["sleep", "20"])
        self.helper.returncode = 0  # quiet: no warning that it still runs
        return super().start(task)


class LeavesThread(SoundEnv):
    """Starts a watcher and never tells it to stop."""

    def start(self, task: Task) -> str:
        threading.Thread(target=time.sleep, args=(120,), daemon=True).start()
        return super().start(task)


class LeavesFiles(SoundEnv):
    """Makes a folder for each episode and never removes it."""

    def start(self, task: Task) -> str:
        self.folder = tempfile.mkdtemp(prefix="boxes-")
        return super().start(task)


class DoesNotPickle(SoundEnv):
    """Holds a lock from the beginning."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.lock = threading.Lock()


class HoldsALocalFunction(SoundEnv):
    """Has a function that no other process can import."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.twice = lambda number: 2 * number


class HonestWorkCosts(SoundEnv):
    """Charges for every turn of work, and nothing for idling."""

    channels = {**SoundEnv.channels, "cost": Channel("cost of work", low=-1.0, high=0.0, per_turn=True)}
    scheme = Scheme(weights={"outcome": 1.0, "cost": 0.1}, averaged=frozenset({"cost"}))

    def see(self, box: str) -> str:
        self.reward("cost", -1.0)
        return super().see(box)


class GradesByChance(SoundEnv):
    """Throws a die where a judge should be."""

    def grade(self) -> dict[str, float]:
        return {"effort": os.urandom(1)[0] / 255}


class OverlappingSplits(SoundEnv):
    """Tests on what was trained on."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", overlapping_task, SPLITS)


class TuplesInTasks(SoundEnv):
    """Has task data that JSON changes."""

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("boxes", tuple_task, SPLITS)


class ForgetsIds(SoundEnv):
    """Cannot find its own tasks."""

    @classmethod
    def default_tasks(cls) -> Any:
        return ForgetfulTasks("boxes", boxes_task, SPLITS)


class NeverEnds(SoundEnv):
    """Switches the limits off."""

    def _limit_reached(self) -> Reason | None:
        return None


class EndsBothWays(SoundEnv):
    """Sets both flags at the end."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        return result._replace(truncated=result.terminated or result.truncated)


class PunishesMistakes(SoundEnv):
    """Ends the episode at the first wrong call."""

    def step(self, action: Any) -> StepResult:
        result = super().step(action)
        if self.reason is None and "Error: look:" in text_of(result.observation[-1]):
            return self.interrupt(Reason.FORMAT_ERRORS)._replace(observation=result.observation)
        return result


class LogsCarelessly(SoundEnv):
    """Takes every message for a well-formed one."""

    def step(self, action: Any) -> StepResult:
        self.last = action.strip() if isinstance(action, str) else action["content"].strip()
        return super().step(action)


class RestoresHalf(SoundEnv):
    """Forgets to play the actions again."""

    def restore(self, snapshot: Any) -> None:
        self.reset(seed=snapshot.seed, options={"task": snapshot.task})


class OnlyInTheMainProcess(SoundEnv):
    """Cannot live in a worker."""

    def __init__(self, **kwargs: Any):
        if multiprocessing.parent_process() is not None:
            raise RuntimeError("the license is for one process")
        super().__init__(**kwargs)


class ClosesOnce(SoundEnv):
    """Frees what is no longer there."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.held: list[str] | None = ["something"]

    def release(self) -> None:
        assert self.held is not None, "released twice"
        self.held = None


class CrashesOnSecondLook(SoundEnv):
    """Breaks in ordinary use."""

    def see(self, box: str) -> str:
        if self.looked:
            raise KeyError(box)
        return super().see(box)


class HangsOnText(SoundEnv):
    """Never comes back from some texts."""

    def respond(self, text: str) -> str:
        if text.startswith("Ignore all"):
            time.sleep(600)
        return super().respond(text)


class CannotBeMade(SoundEnv):
    """Fails at once."""

    def __init__(self, **kwargs: Any):
        raise FileNotFoundError("boxes.db is missing; run make-boxes")


class ForgetfulTasks(GeneratedTasks):
    """A task source that finds nothing."""

    def find(self, task_id: str) -> Task:
        raise TaskError(f"no task {task_id!r}")


def leaky_task(split: str, index: int) -> Task:
    task = boxes_task(split, index)
    return Task(task.id, split, f"{task.prompt} {task.gold['rubric']}", task.difficulty, task.data, task.gold)


def overlapping_task(split: str, index: int) -> Task:
    task = boxes_task("any", index)
    return Task(f"boxes/{split}/{index}", split, task.prompt, task.difficulty, task.data, task.gold, tags=(split,))


def tuple_task(split: str, index: int) -> Task:
    task = boxes_task(split, index)
    return Task(task.id, split, task.prompt, task.difficulty, {**task.data, "size": (1, 2)}, task.gold)


class CountsAsTheyCome(SoundEnv):
    """Says how often it has looked before, in whatever order the calls get there."""

    @tool(concurrent=True)
    def look(self, box: str) -> str:
        """Look into a box.

        Args:
            box: The box's number.
        """
        return f"{self.see(box)} (look {len(self.looked)})"

    def solution(self, task: Task) -> Solution:
        observation = yield ToolCall("look", {"box": task.gold["box"]})
        yield ToolCall("answer", {"text": text_of(observation[-1]).partition(" (")[0]})
