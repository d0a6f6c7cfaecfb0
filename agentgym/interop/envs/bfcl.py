"""`BFCLEnv`: a user who asks for one thing after another, with the tools and the checker of BFCL."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from itertools import chain
from keyword import iskeyword
from typing import Any
from uuid import uuid4

from agentgym.base.choices import count_of, one_of, some_of
from agentgym.base.errors import BrokenTask, InfrastructureError, MissingExtra, ToolError, UsageError
from agentgym.base.syntax import parse
from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.foreign import as_usage_error
from agentgym.core.messages import Message, ToolCall, user
from agentgym.core.rewards import OUTCOME, Channel
from agentgym.core.schema_tool import SchemaTool
from agentgym.core.task import SHARES, TEST, TRAIN, VALIDATION, Task, TaskList, TaskSource, split_of
from agentgym.core.toolset import Toolset


def written(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as Python; its arguments are plain data and become literals."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def read(text: str, parameters: Callable[[str], Sequence[str]]) -> ToolCall:
    """Parse a call in Python.

    Args:
        text: The call.
        parameters: Returns the names of a function's parameters, in order, for positional arguments.

    Raises:
        BrokenTask: It is not a call of a function with literals.
    """
    try:
        call = parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError("it is not a function call")
        names = parameters(call.func.id)
        arguments = dict(zip(names, map(ast.literal_eval, call.args), strict=False))
        arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, KeyError) as error:
        raise BrokenTask(f"the gold call {text!r} cannot be read: {error}") from error
    return ToolCall(call.func.id, arguments)


_PACKAGE = "bfcl_eval"
_UTILS = f"{_PACKAGE}.eval_checker.multi_turn_eval.multi_turn_utils"
_CHECKER = f"{_PACKAGE}.eval_checker.multi_turn_eval.multi_turn_checker"
_CLASSES = f"{_PACKAGE}.constants.executable_backend_config"
LONG = "long_context"


def require_package() -> None:
    """Raise `MissingExtra` unless the package can be imported."""
    for name in (_PACKAGE, "mpmath"):
        if find_spec(name) is None:
            raise MissingExtra(
                f"{name!r} is not installed; run: pip install --no-deps bfcl-eval mpmath (the packages that bfcl-eval "
                "requires are for models and other tasks, and conflict with those of others)"
            )


def data_file(name: str) -> str:
    """Return the text of a data file of the package, by its path there."""
    require_package()
    return files(_PACKAGE).joinpath("data", name).read_text(encoding="utf-8")


def documents_of(name: str) -> str:
    """Return the file name of the documents of a class's functions."""
    require_package()
    return import_module(_CLASSES).MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]


class BFCLBackend:
    """The objects behind the tools of one episode, created and called by the package's own code.

    Args:
        entry_id: The id of the entry, which determines whether its context is long.
        classes: Names of the classes.
        config: The initial state of each class.
    """

    def __init__(self, entry_id: str, classes: Sequence[str], config: Mapping[str, Any]):
        require_package()
        # The package stores objects in a module under this name, which must be unique to the episode.
        self._name = f"agentgym_{uuid4().hex}"
        self._entry_id, self._classes, self._config = entry_id, list(classes), dict(config)
        self.run([])

    def run(self, calls: Sequence[str]) -> list[str]:
        """Run calls, written as Python, and return the result of each for the model."""
        results, _ = import_module(_UTILS).execute_multi_turn_func_call(
            func_call_list=list(calls),
            initial_config=self._config,
            involved_classes=self._classes,
            model_name=self._name,
            test_entry_id=self._entry_id,
            long_context=LONG in self._entry_id,
            is_evaL_run=False,
        )
        return results

    def close(self) -> None:
        """Forget the objects."""
        _forget(self._name)


def verdict(
    entry_id: str,
    classes: Sequence[str],
    config: Mapping[str, Any],
    played: Sequence[Sequence[Sequence[str]]],
    gold: Sequence[Sequence[str]],
) -> tuple[bool, str]:
    """Return the package checker's verdict on the calls of an episode: whether they are right, and the error type.

    Args:
        entry_id: The id of the entry.
        classes: Names of the classes behind its tools.
        config: The initial state of each class.
        played: The calls of the model, by turn of the user and turn of the model.
        gold: The right calls, by turn of the user.

    Raises:
        InfrastructureError: The checker failed.
    """
    name = f"agentgym_{uuid4().hex}"
    entry = {"id": entry_id, "involved_classes": list(classes), "initial_config": dict(config)}
    try:
        report = import_module(_CHECKER).multi_turn_checker(
            [[list(step) for step in turn] for turn in played], [list(turn) for turn in gold], entry, entry_id, name
        )
    except Exception as error:
        raise InfrastructureError(f"the checker of bfcl-eval failed on {entry_id!r}: {error!r}") from error
    finally:
        _forget(name)
    return bool(report["valid"]), str(report.get("error_type", ""))


def _forget(name: str) -> None:
    """Remove the objects under a name from the module that stores them."""
    objects = vars(import_module(_UTILS))
    beginning = re.sub(r"[-./:]", "_", name)
    for key in [key for key in objects if key.startswith(beginning)]:
        del objects[key]


CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
_TYPES = {
    "dict": "object",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "String": "string",
    "long": "integer",
}


class BFCLTasks(TaskList):
    """The multi-turn tasks of BFCL, from the installed package `bfcl-eval`.

    Args:
        categories: One or several of `CATEGORIES`; by default all.
        split_by: `"hash"`, or the single split for all tasks. Entries of different categories with the same number have
            the same story, so they are in the same split.
    """

    def __init__(self, categories: str | Sequence[str] | None = None, *, split_by: str = TEST):
        selected = some_of("category", categories, CATEGORIES)
        one_of("split_by", split_by, ("hash", TRAIN, VALIDATION, TEST))
        with as_usage_error("the data of bfcl-eval cannot be read; install it again"):
            tasks = [task for category in selected for task in _tasks(category, split_by)]
        super().__init__(tasks)


def _tasks(category: str, split_by: str) -> Iterator[Task]:
    name = f"BFCL_v4_multi_turn_{category}.json"
    gold = {row["id"]: row["ground_truth"] for row in _rows(f"possible_answer/{name}")}
    for row in _rows(name):
        number = row["id"].rpartition("_")[2]
        split = split_of(f"bfcl {number}", SHARES) if split_by == "hash" else split_by
        yield _task(row, gold[row["id"]], split, category)


def _task(row: Mapping[str, Any], gold: list[list[str]], split: str, category: str) -> Task:
    functions = [function for name in row["involved_classes"] for function in _functions(name)]
    held_out = {name for names in row.get("missed_function", {}).values() for name in names}
    first = [message["content"] for message in row["question"][0]]
    return Task(
        id=f"bfcl/{row['id']}",
        split=split,
        prompt="\n".join(first),
        difficulty=1 + CATEGORIES.index(category),
        data={
            "entry": row["id"],
            "classes": row["involved_classes"],
            "config": row["initial_config"],
            "turns": row["question"],
            "functions": [function for function in functions if function["name"] not in held_out],
            "held_out": {
                turn: [function for function in functions if function["name"] in names]
                for turn, names in row.get("missed_function", {}).items()
            },
        },
        gold={"calls": gold},
        tags=(category,),
    )


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data_file(name).split("\n") if line.strip()]


@cache
def _functions(name: str) -> list[dict[str, Any]]:
    """Return the functions of a class as schemas of tools."""
    documents = data_file(f"multi_turn_func_doc/{documents_of(name)}")
    functions = [json.loads(line) for line in documents.split("\n") if line.strip()]
    return [
        {
            "name": function["name"],
            "description": function["description"],
            "parameters": {**_schema(function["parameters"]), "additionalProperties": False},
        }
        for function in functions
    ]


def _schema(document: Any) -> Any:
    """Return a JSON schema: the package uses Python's names for types."""
    if isinstance(document, list):
        return [_schema(item) for item in document]
    if not isinstance(document, dict):
        return document
    schema = {key: _schema(value) for key, value in document.items()}
    kind = schema.get("type")
    if kind in ("any", "Any"):
        del schema["type"]
    elif isinstance(kind, str):
        schema["type"] = _TYPES.get(kind, kind)
    return schema


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
    states_turns = True
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
        limit = f"A request that takes more than {count_of(steps, 'message')} with calls ends the episode."
        self.system_prompt = f"{type(self).system_prompt} {limit}"
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
