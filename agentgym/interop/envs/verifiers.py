"""`VerifiersEnv`: a turn-based environment of verifiers (`verifiers.legacy`, before 0.4)."""

from __future__ import annotations

import functools
import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar, Unpack

from agentgym.base.errors import AgentGymError, InfrastructureError, UsageError
from agentgym.base.loading import load_named
from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.engine.spaces import text_in
from agentgym.core.foreign import as_usage_error, describe, place_of
from agentgym.core.messages import Message
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.schema_tool import SchemaTool
from agentgym.core.task import TEST, TRAIN, Task, TaskList
from agentgym.core.toolset import Toolset
from agentgym.interop.packages import package
from agentgym.interop.wrapper import Caveat, Wrapped, unpacked

_legacy = package("verifiers.legacy")
_types = package("verifiers.legacy.types")
_utils = package("verifiers.legacy.utils.message_utils")
_environment = package("verifiers.legacy.envs.environment")
_datasets = package("datasets")
_lock = threading.Lock()
_TURNS = 10
_UNLIMITED = float("inf")
_TOTAL = "reward"
_CUT_OFF = frozenset({"max_turns_reached", "timeout_reached", "max_total_completion_tokens_reached", "prompt_too_long"})
_PUBLIC = frozenset({"prompt", "example_id", "task"})


class VerifiersEnv(Wrapped):
    """Play an environment of verifiers: its tools, its messages, its rubric.

    Task: a row of its data set: `train`, and `test` if it has rows for evaluation.
    Tools: those of a `ToolEnv`; without tools, text is the action.
    Reward: `outcome` 1 if the rubric's reward reaches `solved_at`; `reward`, the rubric's reward, which the scheme
        `own` pays; and a channel for each function of the rubric.
    Episode end: one of the environment's stop conditions (`over`, or `cut_off` if it is a limit), or `max_turns`.

    Args:
        env: `module:function` or a function that returns the environment, such as `my_env:load_environment`.
        settings: Arguments of that function.
        solved_at: The lowest reward that counts as solved; by default the environment's `pass_threshold`.
    """

    schemes: ClassVar[Mapping[str, Scheme]] = {}
    reasons: ClassVar[Mapping[str, Ending]] = {"over": Ending.TERMINATED, "cut_off": Ending.TRUNCATED}

    def __init__(
        self,
        env: str | Callable[..., Any],
        settings: Mapping[str, Any] | None = None,
        *,
        solved_at: float | None = None,
        **kwargs: Unpack[EnvArguments],
    ):
        make = load_named(env, "a function that returns a verifiers environment") if isinstance(env, str) else env
        maker = unpacked(make)
        self.name = maker.__module__ if maker.__name__ == "load_environment" else maker.__name__
        with as_usage_error(f"the verifiers environment {self.name!r} cannot be made"):
            self._inner, rows = _make_env(make, settings or {})
        self._solved_at = self._inner.pass_threshold if solved_at is None else solved_at
        self._errors = _collect_errors(self._inner.rubric)
        self._names = _function_names(self._inner.rubric)
        self.channels = {
            OUTCOME: Channel(f"1 if the rubric's reward is at least {self._solved_at:g}"),
            _TOTAL: Channel("the rubric's reward", -_UNLIMITED, _UNLIMITED),
            **{name: Channel(f"the rubric's {name}", -_UNLIMITED, _UNLIMITED) for name in self._names},
        }
        self.tools = Toolset(
            SchemaTool(_schema(definition), functools.partial(self._called, definition.name))
            for definition in self._inner.tool_defs or ()
        )
        if kwargs.get("scheme") == "own":
            kwargs["scheme"] = Scheme({_TOTAL: 1.0}, allow_unsound=True)
        kwargs["max_turns"] = kwargs.get("max_turns") or (
            self._inner.max_turns if self._inner.max_turns > 0 else _TURNS
        )
        super().__init__(tasks=_tasks(self.name, rows), **kwargs)

    async def start(self, task: Task) -> list[Message]:
        """Set up a rollout of the task's row without a model: `_turn` passes the model's messages on."""
        row = {**task.data["row"], **task.gold}
        with self._broken_if_raises("setup"):
            state = await self._inner.init_state(row, _no_model, "agentgym")
            self._state = await self._inner.setup_state(state) or state
        self._turn_prompt = list(self._state["prompt"])
        self.system_prompt = "\n\n".join(_text(message) for message in self._turn_prompt if message.role == "system")
        return [
            {"role": message.role, "content": _text(message)}
            for message in self._turn_prompt
            if message.role != "system"
        ]

    async def _called(self, name: str, arguments: dict[str, Any]) -> str:
        """Run a tool."""
        return await self._turn("", name, arguments)

    async def respond(self, text: str) -> str:
        """Pass on a message without a call."""
        return await self._turn(text, None, {})

    async def _turn(self, text: str, tool: str | None, arguments: Mapping[str, Any]) -> str:
        """Add a turn of the model to the rollout and return the environment's answer."""
        number = len(self._state["trajectory"]) + 1
        calls = [_types.ToolCall(id=f"call_{number}", name=tool, arguments=json.dumps(arguments))] if tool else None
        message = _types.AssistantMessage(content=text, tool_calls=calls)
        with self._broken_if_raises("step"):
            await self._inner.add_trajectory_step(self._state, self._step_of(message))
            if await self._inner.is_completed(self._state):
                return self._over("")
            messages = [*self._turn_prompt, message]
            answer = list(await self._inner.env_response(messages, self._state))
            if self._state.get("error") is not None:
                raise self._state["error"]
            answer_text = "\n".join(map(_text, map(_normal, answer)))
            self._turn_prompt = [*messages, *map(_normal, answer)]
            return self._over(answer_text) if await self._inner.is_completed(self._state) else answer_text

    def _step_of(self, message: Any) -> Any:
        return _types.TrajectoryStep(
            prompt=self._turn_prompt,
            completion=[message],
            response=None,  # verifiers did not query a model
            tokens=None,
            reward=None,
            advantage=None,
            is_truncated=False,
            trajectory_id=self._state["trajectory_id"],
            extras={},
        )

    def _over(self, text: str) -> str:
        if self._state.get("error") is not None:
            raise self._state["error"]
        # Every complete rollout of a single-turn environment reaches the turn limit.
        is_single_turn = isinstance(self._inner, _legacy.SingleTurnEnv)
        is_cut_off = self._state.get("stop_condition") in _CUT_OFF and not is_single_turn
        self.finish("cut_off" if is_cut_off else "over")
        return text or "."

    async def grade(self) -> dict[str, float]:
        """Score the rollout with the rubric. An error in its functions fails the episode; verifiers would pay 0."""
        with self._broken_if_raises("scoring"):
            if not self._state["trajectory"]:  # every turn was a mistake; rubrics expect a message of the model
                message = _types.AssistantMessage(content=text_in(self._actions[-1]) if self._actions else "")
                await self._inner.add_trajectory_step(self._state, self._step_of(message))
            await self._inner.cleanup(self._state)
            self._errors.clear()
            await self._inner.rubric.score_rollout(self._state)
            if self._errors:
                raise self._errors[0]
        total, metrics = float(self._state["reward"]), self._state["metrics"]
        solved = float(total >= self._solved_at)
        if solved and self.reason == "over":
            self._set_reason(Reason.SOLVED)
        return {OUTCOME: solved, _TOTAL: total, **{name: float(metrics.get(name, 0.0)) for name in self._names}}

    @contextmanager
    def _broken_if_raises(self, what: str) -> Iterator[None]:
        try:
            yield
        except AgentGymError:
            raise
        except Exception as error:
            raise InfrastructureError(f"{self.name}: {what}: {describe(error)}{place_of(error)}") from error

    def caveats(self) -> tuple[Caveat, ...]:
        """Return what the package lacks."""
        alone = len(self.tasks.splits) == 1
        tool_errors = "errors in tools are shown to the model, whatever their cause"
        return (
            Caveat("solution-solves", "the package has no solutions"),
            *([Caveat(None, "there are no rows for evaluation, so there is one split")] if alone else []),
            *([Caveat(None, tool_errors)] if len(self.tools) else []),
        )


def _make_env(make: Callable[..., Any], settings: Mapping[str, Any]) -> tuple[Any, dict[str, list[dict[str, Any]]]]:
    """Return an environment and its rows by split, without side effects on the process.

    `get_eval_dataset` would fall back to the training rows, which is not a separate split.
    """
    with _lock, _quietly():
        env = make(**settings)
        if not isinstance(env, _legacy.MultiTurnEnv):
            raise UsageError(f"a {type(env).__name__} is not a turn-based MultiTurnEnv of verifiers.legacy")
        if env.rubric.has_group_rewards or not all(member.funcs for member in _rubrics(env.rubric)):
            raise UsageError("its rubric scores groups of rollouts, or nothing; here each rollout is scored alone")
        rows = {TRAIN: env.get_dataset().to_list()}
        if (held_out := env.build_eval_dataset()) is not None:
            rows[TEST] = held_out.to_list()
        return env, rows


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the block from setting signal and exit handlers, as verifiers does, and from showing progress bars."""
    bars = _datasets.are_progress_bars_disabled()
    before = _environment.signal, _environment.atexit
    _environment.signal = SimpleNamespace(**{**vars(signal), "signal": lambda *_: None})
    _environment.atexit = SimpleNamespace(register=lambda _: None)
    _datasets.disable_progress_bars()
    try:
        yield
    finally:
        _environment.signal, _environment.atexit = before
        if not bars:
            _datasets.enable_progress_bars()


def _without_model() -> Any:
    """Return a client of verifiers that refuses to query a model."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise InfrastructureError("a verifiers environment queried the policy's model outside of a turn")

    base = package("verifiers.legacy.clients").Client
    kind = type("NoModel", (base,), {**dict.fromkeys(base.__abstractmethods__, refuse), "setup_client": refuse})
    return kind(None)


_no_model = _without_model()


def _schema(definition: Any) -> dict[str, Any]:
    description = definition.description or f"The tool {definition.name} of the environment."
    return {"name": definition.name, "description": description, "parameters": definition.parameters}


def _normal(message: Any) -> Any:
    return message if hasattr(message, "role") else _utils.normalize_messages([message], field_name="env_response")[0]


def _text(message: Any) -> str:
    """Return the text of a message of verifiers."""
    content = message.content or ""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, dict) else part.model_dump() for part in content]
    return "".join(str(part.get("text", "")) for part in parts)


def _rubrics(rubric: Any) -> Iterator[Any]:
    """Yield a rubric, or the rubrics of a group."""
    inner: Sequence[Any] | None = getattr(rubric, "rubrics", None)
    if inner is None:
        yield rubric
    for member in inner or ():
        yield from _rubrics(member)


def _function_names(rubric: Any) -> list[str]:
    names = [function.__name__ for member in _rubrics(rubric) for function in member.funcs]
    return [name for name in dict.fromkeys(names) if name not in (OUTCOME, _TOTAL)]


def _collect_errors(rubric: Any) -> list[Exception]:
    """Return a list to which every function of a rubric will append its errors, since a Rubric turns them into 0."""
    errors: list[Exception] = []
    for member in _rubrics(rubric):
        member.funcs = [_collecting(function, errors) for function in member.funcs]
    return errors


def _collecting(function: Callable[..., Any], errors: list[Exception]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            return await result if hasattr(result, "__await__") else result
        except Exception as error:
            errors.append(error)
            raise

    return call


def _tasks(name: str, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> TaskList:
    """Return rows as tasks. All columns except the prompt and ids are hidden, since they may reveal the answer."""
    return TaskList(
        _task(name, split, n, row) for split, split_rows in rows.items() for n, row in enumerate(split_rows)
    )


def _task(name: str, split: str, index: int, row: Mapping[str, Any]) -> Task:
    public = {key: value for key, value in row.items() if key in _PUBLIC}
    hidden = {key: value for key, value in row.items() if key not in _PUBLIC and value is not None}
    prompt = row["prompt"] if isinstance(row["prompt"], str) else str(row["prompt"][-1].get("content", ""))
    return Task(f"{name}/{split}/{index}", split, prompt, data={"row": public}, gold=hidden)
