"""`BFCLEnv`: a user who asks for one thing after another, with the tools and the checker of BFCL."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from keyword import iskeyword
from typing import Any

from agentgym.endings import Ending, Reason
from agentgym.engine.steps import Solution
from agentgym.env import Env
from agentgym.errors import ToolError, UsageError
from agentgym.interop.bfcl.calls import read, written
from agentgym.interop.bfcl.package import BFCLBackend, verdict
from agentgym.interop.bfcl.tasks import BFCLTasks
from agentgym.messages import Message, user
from agentgym.rewards import OUTCOME, Channel
from agentgym.schema_tool import SchemaTool
from agentgym.task import TEST, Task, TaskSource
from agentgym.toolset import Toolset

MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"
"""The user's message when held-back functions are added, as in the leaderboard."""
_TOO_MANY = "too_many_steps"


class _Function(SchemaTool):
    """A function of the leaderboard, which does not check types: it reports wrong arguments in its result."""

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments. Raises `ToolError` if they cannot be arguments of a function at all."""
        if wrong := [name for name in arguments if not name.isidentifier() or iskeyword(name)]:
            raise ToolError(f"{self.name}: unknown argument {wrong[0][:100]!r}. Usage: {self.usage}")
        return dict(arguments)


class BFCLEnv(Env):
    """Do what a user asks for, one request after another, with the tools of a small world.

    Task: a multi-turn entry of the Berkeley Function Calling Leaderboard (version 4): two to seven requests about a
        file system, a car, a brokerage, travel, messages, tickets or posts. In some, a function or a detail is missing
        at first.
    Tools: the functions of the entry, run by the package's own classes.
    Observation: what the functions return, as the leaderboard shows it. A turn without a call ends the work on a
        request, and shows the next.
    Reward: `outcome` 1 if the leaderboard's own checker accepts all calls: after each request, the state of the world
        must be that of the right calls, and what they show must have been seen.
    Episode end: the last request is answered, or one took more than 20 turns.
    Needs: `pip install --no-deps bfcl-eval mpmath`.
    Version history: v0, first version.

    Args:
        categories: `"base"`, `"miss_func"`, `"miss_param"`, `"long_context"`, or several; all if not given.
        split_by: `"hash"`, or the one split that all tasks belong to.
        steps: Turns that the work on one request may take.
        tasks: A custom task source, instead of the choices above.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = {OUTCOME: Channel("1 if the leaderboard's checker accepts all calls")}
    reasons = {_TOO_MANY: Ending.TRUNCATED}
    system_prompt = (
        "Do what the user asks for with the tools. When you are done with it, or cannot do it, answer in plain text "
        "without a call: the user then asks for the next thing."
    )
    max_turns = 150
    max_calls_per_turn = 40

    harmless_arguments = Env.harmless_arguments | {"categories", "split_by", "steps"}

    def __init__(
        self,
        *,
        categories: str | Sequence[str] | None = None,
        split_by: str | None = None,
        steps: int = 20,
        tasks: TaskSource | None = None,
        **kwargs: Any,
    ):
        if tasks is not None and (categories is not None or split_by is not None):
            raise UsageError("categories and split_by cannot be combined with tasks")
        super().__init__(tasks=tasks or BFCLTasks(categories, split_by=split_by or TEST), **kwargs)
        if not isinstance(steps, int) or steps < 1:
            raise UsageError(f"steps must be a whole number from 1, not {steps!r}")
        self._steps = steps
        self._backend: BFCLBackend | None = None

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return the tasks of all categories."""
        return BFCLTasks()

    def start(self, task: Task) -> list[Message]:
        """Build the world, and return the first request."""
        self.release()
        data = task.data
        self._backend = BFCLBackend(data["entry"], data["classes"], data["config"])
        self._functions: list[Mapping[str, Any]] = list(data["functions"])
        self._played: list[list[list[str]]] = [[]]
        self._done = False
        self._why = ""
        self._step_of: int | None = None
        self.tools = self._toolset()
        return [user(task.prompt)]

    def respond(self, text: str) -> str:
        """Return the next request, if there is one."""
        turns = self.task.data["turns"]
        number = len(self._played)
        if number == len(turns):
            self._done = True
            valid = self._judge()
            self.finish(Reason.SOLVED if valid else Reason.ANSWERED)
            return "Thank you."
        self._played.append([])
        more = self.task.data["held_out"].get(str(number))
        if more is None:
            return "\n".join(message["content"] for message in turns[number])
        self._functions += more
        self.tools = self._toolset()
        self._offer(self.tools)
        described = "\n".join(json.dumps(function) for function in more)
        return f"{described}\n{MORE_FUNCTIONS}"

    def grade(self) -> Mapping[str, float]:
        """Return the checker's verdict; an episode that ended before the last request gets 0."""
        self.release()
        return {OUTCOME: float(self._done and not self._why)}

    def details(self) -> Mapping[str, Any]:
        """Return the number of requests played, and the kind of mistake that the checker found."""
        if self._backend is not None:
            return {}
        return {"requests": len(self._played), "checker": self._why}

    def solution(self, task: Task) -> Solution:
        """Make the right calls, one per turn if the request has enough turns, and answer each request."""
        functions = [*task.data["functions"], *chain.from_iterable(task.data["held_out"].values())]
        order = {function["name"]: list(function["parameters"]["properties"]) for function in functions}
        for calls in task.gold["calls"]:
            if len(calls) > self._steps:
                together = [read(call, order.__getitem__) for call in calls]
                yield self.dialect.render("", together, self.tools)
                calls = []
            for call in calls:
                yield read(call, order.__getitem__)
            yield "Done."

    def release(self) -> None:
        """Forget the world of the episode."""
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_backend": None}

    def _toolset(self) -> Toolset:
        return Toolset([_Function(schema, self._runner(schema["name"])) for schema in self._functions])

    def _runner(self, name: str) -> Callable[[dict[str, Any]], str]:
        return lambda arguments: self._perform(name, arguments)

    def _perform(self, name: str, arguments: dict[str, Any]) -> str:
        """Run a call. End the episode if the request has exceeded its number of turns."""
        assert self._backend is not None
        turn = len(self._actions)
        steps = self._played[-1]
        if self._step_of != turn:
            self._step_of = turn
            steps.append([])
        call = written(name, arguments)
        steps[-1].append(call)
        [result] = self._backend.run([call])
        if len(steps) > self._steps:
            self.finish(_TOO_MANY)
        return result

    def _judge(self) -> bool:
        data, gold = self.task.data, self.task.gold["calls"]
        valid, self._why = verdict(data["entry"], data["classes"], data["config"], self._played, gold)
        return valid
