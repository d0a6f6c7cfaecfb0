"""`task`: suites as tasks of Inspect AI (0.3), graded like our own evaluation.

Inspect queries the model, stores the conversation and writes the log. Each of the model's messages is a turn. Other
solvers of Inspect can play instead: they get our tools, and each call is a turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentgym.base.errors import AgentGymError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import finished
from agentgym.core.messages import Message, calls_of, shown_pictures, text_of
from agentgym.core.task import TEST, Task, default_split, iterate
from agentgym.eval.evaluation import evaluation_jobs
from agentgym.eval.suites import SuiteEntry, load_suite
from agentgym.eval.suites.suite import one_off
from agentgym.interop.episodes import CalledEpisode, PooledEpisodes
from agentgym.interop.openings import picture_url
from agentgym.interop.packages import require_package
from agentgym.rollout.jobs import EnvFactory
from agentgym.rollout.limits import Limits, within

try:
    import inspect_ai  # pyright: ignore[reportMissingImports]
    from inspect_ai import model as chat  # pyright: ignore[reportMissingImports]
    from inspect_ai.agent import as_solver, is_agent  # pyright: ignore[reportMissingImports]
    from inspect_ai.dataset import MemoryDataset, Sample  # pyright: ignore[reportMissingImports]
    from inspect_ai.scorer import Score, Scorer, mean, scorer, stderr  # pyright: ignore[reportMissingImports]
    from inspect_ai.solver import Generate, Solver, TaskState, solver  # pyright: ignore[reportMissingImports]
    from inspect_ai.tool import ToolCall, ToolDef, ToolParams  # pyright: ignore[reportMissingImports]
    from inspect_ai.util import LimitExceededError  # pyright: ignore[reportMissingImports]
except ImportError:
    require_package("inspect_ai")
    raise

_LIMITS = {
    "message": Reason.MAX_TURNS,
    "turn": Reason.MAX_TURNS,
    "token": Reason.TOKEN_BUDGET,
    "cost": Reason.TOKEN_BUDGET,
    "context": Reason.CONTEXT,
}
"""The reason for an episode's ending by the type of Inspect's limit."""


class EpisodeFailed(Exception):
    """Something around the model failed, or the task is broken. The sample then has an error and no score."""


def task(
    suite: str | Path,
    *,
    entry: str | None = None,
    limit: int | None = None,
    attempts: int | None = None,
    seed: int = 0,
    solver: Any = None,
    data: Mapping[str, str | Path] | None = None,
) -> inspect_ai.Task:
    """Return a suite as a task of Inspect.

    Args:
        suite: Name of a bundled suite, or the path of one.
        entry: The entry to play; by default all.
        limit: Maximum number of tasks per entry; such results are not comparable with the suite's.
        attempts: Attempts at each task, Inspect's epochs; by default the suite's number.
        seed: Random seed, as in `agentgym eval`: the same seed gives the same episodes.
        solver: A solver or agent of Inspect's that plays; by default each message of the model is a turn.
        data: Paths of your data, by the suite's names for them.

    Raises:
        UsageError: The suite or entry does not exist, or its entries cannot be played as one task.
    """
    loaded = load_suite(suite, data)
    entries = loaded.entries if entry is None else [loaded.entry(entry)]
    name = loaded.name if entry is None else f"{loaded.name}-{entry}"
    return _task(name, loaded.version, entries, limit, attempts, seed, solver)


def env_task(
    env: str,
    *,
    split: str | None = None,
    count: int = 20,
    attempts: int = 1,
    seed: int = 0,
    solver: Any = None,
    **arguments: Any,
) -> inspect_ai.Task:
    """Return tasks of one environment as a task of Inspect.

    Args:
        env: Id of the environment (`"sql"`), or `"module:Class"`.
        split: The split of the tasks: by default `test`, or `validation` if there is no `test`.
        count: Maximum number of tasks.
        attempts: Attempts at each task.
        seed: Random seed, as in `agentgym eval`.
        solver: See `task`.
        arguments: Arguments of the environment.
    """
    [entry] = one_off(env, arguments, (), attempts=attempts, limits=Limits(), temperature=1.0).entries
    with entry.opened() as instance:
        tasks = list(iterate(instance.tasks, split or default_split(instance.tasks, TEST), count))
    [entry] = one_off(env, arguments, tasks, attempts=attempts, limits=Limits(), temperature=1.0).entries
    return _task(entry.name, 0, [entry], None, None, seed, solver)


@dataclass(frozen=True)
class SampleSpec:
    """A sample: a task, the suite entry that it belongs to, and a seed."""

    entry: SuiteEntry
    task: Task
    seed: int


def specs_of(entry: SuiteEntry, limit: int | None, seed: int) -> list[SampleSpec]:
    """Return the tasks of an entry with the seeds of `agentgym eval`."""
    with entry.opened() as env:
        tasks = entry.tasks(env)[:limit]
    return [SampleSpec(entry, job.task, job.seed) for job in evaluation_jobs(tasks, 1, seed)]


def _task(
    name: str,
    version: int,
    entries: Sequence[SuiteEntry],
    limit: int | None,
    attempts: int | None,
    seed: int,
    solver: Any,
) -> inspect_ai.Task:
    specs = [spec for entry in entries for spec in specs_of(entry, limit, seed)]
    return task_of(name, specs, attempts=attempts, version=version, solver=solver)


def task_of(
    name: str, specs: Sequence[SampleSpec], *, attempts: int | None = None, version: int = 0, solver: Any = None
) -> inspect_ai.Task:
    """Return samples as a task of Inspect. Raises `UsageError` if their limits, attempts or temperatures differ."""
    entry = _common(specs)
    play = SampleEpisodes(specs)
    limits = entry.limits
    return inspect_ai.Task(
        name=name,
        version=version,
        dataset=MemoryDataset(list(play.samples()), name=name),
        setup=begin_episode(play),
        solver=note_limits(play, turns(play) if solver is None else solver),
        scorer=episode_score(play),
        cleanup=play.clean_up,
        epochs=attempts or entry.attempts,
        config=chat.GenerateConfig(max_tokens=limits.max_new_tokens, temperature=entry.temperature),
        time_limit=None if limits.episode_timeout_s is None else int(limits.episode_timeout_s),
        # A failed sample has no score; the other samples still count.
        fail_on_error=False,
    )


def _common(specs: Sequence[SampleSpec]) -> SuiteEntry:
    """Return one of the entries. Raises `UsageError` if their limits, attempts or temperatures differ."""
    entries = list({id(spec.entry): spec.entry for spec in specs}.values())
    settings = {(entry.limits, entry.attempts, entry.temperature) for entry in entries}
    if len(settings) != 1:
        names = ", ".join(entry.name for entry in entries)
        raise UsageError(f"a task of Inspect has one set of limits and attempts; make one task per entry: {names}")
    return entries[0]


class SampleEpisodes:
    """The episodes of a task's samples.

    Args:
        specs: The samples.
    """

    def __init__(self, specs: Sequence[SampleSpec]):
        self._specs = dict(zip(_ids(specs), specs, strict=True))
        self._pools: dict[str, PooledEpisodes] = {}
        self._running: dict[str, tuple[PooledEpisodes, CalledEpisode]] = {}
        self.stopped: dict[str, Reason] = {}
        """The reason for stopping a sample, by its unique id."""

    def samples(self) -> Iterator[Sample]:
        """Yield the samples, without gold. The model's messages come from the episode, not from here."""
        for sample_id, spec in self._specs.items():
            about = {"env": spec.entry.env_id, "seed": spec.seed, "split": spec.task.split}
            about |= {"difficulty": spec.task.difficulty, "tags": list(spec.task.tags)}
            yield Sample(id=sample_id, input=spec.task.prompt, metadata=about)

    def spec(self, state: TaskState) -> SampleSpec:
        """Return the specification of a sample."""
        return self._specs[str(state.sample_id)]

    def episode(self, state: TaskState) -> CalledEpisode:
        """Return the running episode of a sample."""
        return self._running[state.uuid][1]

    async def begin(self, state: TaskState) -> list[Message]:
        """Begin the episode of a sample and return its opening messages."""
        spec = self.spec(state)
        pool = self._pools.setdefault(spec.entry.name, PooledEpisodes(_factory(spec.entry)))
        episode = await pool.take()
        self._running[state.uuid] = pool, episode
        limit_s = spec.entry.limits.reset_timeout_s
        beginning = episode.abegin(seed=spec.seed, options={"task": spec.task})
        return await within(beginning, limit_s, Reason.RESET_TIME, "a reset")

    async def step(self, state: TaskState, turn: Awaitable[list[Message]]) -> list[Message]:
        """Play a turn of a sample and return the observation. The end of the episode completes the sample."""
        episode, limit_s = self.episode(state), self.spec(state).entry.limits.step_timeout_s
        with _failing():
            messages = await within(turn, limit_s, Reason.STEP_TIME, "a step")
        state.completed = episode.is_over
        return messages

    async def clean_up(self, state: TaskState) -> None:
        """Return a sample's environment to its pool; the last sample closes them."""
        pool, episode = self._running.pop(state.uuid, (None, None))
        if pool is not None and episode is not None:
            await pool.give_back(episode)
            await pool.close_if_idle()


@solver
def begin_episode(play: SampleEpisodes) -> Solver:
    """Begin the episode of a sample: its opening messages and its tools."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        with _failing():
            state.messages = list(_chat_messages(await play.begin(state)))
        if play.episode(state).env.dialect.name == "native":
            state.tools = [_tool(play, state, schema["function"]) for schema in play.episode(state).info["tools"]]
        return state

    return solve


@solver
def turns(play: SampleEpisodes) -> Solver:
    """Play each message of the model as a turn, until the episode ends."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        is_text = play.episode(state).env.dialect.name != "native"
        while not state.completed:
            state = await generate(state, tool_calls="none")
            if state.output.stop_reason == "model_length":
                play.stopped[state.uuid] = Reason.CONTEXT
                return state
            action = finished(_action(state.output.message, is_text=is_text), state.output.stop_reason)
            state.messages.extend(_chat_messages(await play.step(state, play.episode(state).astep(action))))
        return state

    return solve


@solver
def note_limits(play: SampleEpisodes, player: Any) -> Solver:
    """Run a solver and record which limit stopped it, if any."""
    play_sample = as_solver(player) if is_agent(player) else player

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        play.stopped[state.uuid] = Reason.TIME  # a time limit cancels the solver without an error of Inspect's
        try:
            state = await play_sample(state, generate)
        except LimitExceededError as error:
            play.stopped[state.uuid] = _LIMITS.get(error.type, Reason.TIME)
            raise
        if play.stopped[state.uuid] is Reason.TIME:
            play.stopped[state.uuid] = Reason.GAVE_UP
        return state

    return solve


@scorer(name="agentgym", metrics={"success": [mean(), stderr()], "reward": [mean(), stderr()]})
def episode_score(play: SampleEpisodes) -> Scorer:
    """Score a sample with the environment's own reward and success."""

    async def score(state: TaskState, target: Any) -> Score:
        episode = play.episode(state)
        with _failing():
            reward = await episode.aend(play.stopped.get(state.uuid, Reason.GAVE_UP))
        about = {
            "channels": episode.channels,
            "turn_rewards": list(episode.turn_rewards),
            "ending": episode.ending,
            "truncated": episode.is_truncated,
        }
        return Score(value={"success": float(episode.info["is_success"]), "reward": reward}, metadata=about)

    return score


def _ids(specs: Sequence[SampleSpec]) -> list[str]:
    """Return the ids of the tasks, prefixed with the entries' names if ids repeat."""
    ids = [spec.task.id for spec in specs]
    return ids if len(set(ids)) == len(ids) else [f"{spec.entry.name}/{spec.task.id}" for spec in specs]


def _factory(entry: SuiteEntry) -> EnvFactory:
    factory = entry.factory
    return replace(factory, kwargs={"dialect": "native", **factory.kwargs})


@contextmanager
def _failing() -> Iterator[None]:
    """Raise our errors as an error that Inspect does not show to the model."""
    try:
        yield
    except AgentGymError as error:
        raise EpisodeFailed(f"{type(error).__name__}: {error}") from error


def _tool(play: SampleEpisodes, state: TaskState, function: Mapping[str, Any]) -> ToolDef:
    """Return one of our tools as Inspect's: a call is a turn."""
    name = function["name"]

    async def run(**kwargs: Any) -> Any:
        return _content(*await play.step(state, play.episode(state).acall(name, kwargs)))

    parameters = ToolParams.model_validate(function["parameters"])
    return ToolDef(run, name=name, description=function["description"], parameters=parameters)


def _action(message: chat.ChatMessageAssistant, *, is_text: bool) -> Any:
    """Return the model's message as an action of ours."""
    if is_text:
        return message.text
    calls = [_call(call) for call in message.tool_calls or ()]
    return {"role": "assistant", "content": message.text, "tool_calls": calls}


def _call(call: Any) -> dict[str, Any]:
    # Pass unparsable arguments on as text, so that the environment reports them to the model.
    arguments = call.arguments if call.parse_error is None else call.parse_error
    return {"id": call.id, "type": "function", "function": {"name": call.function, "arguments": arguments}}


def _chat_messages(messages: Iterable[Message]) -> Iterator[chat.ChatMessage]:
    """Yield our messages as Inspect's."""
    for message in messages:
        content = _content(message)
        match message.get("role"):
            case "system":
                yield chat.ChatMessageSystem(content=content)
            case "tool":
                name, call_id = message.get("name"), message.get("tool_call_id")
                yield chat.ChatMessageTool(content=content, tool_call_id=call_id, function=name)
            case "assistant":
                calls = [ToolCall(call.id, call.name, dict(call.arguments)) for call in calls_of(message)]
                yield chat.ChatMessageAssistant(content=content, tool_calls=calls)
            case _:
                yield chat.ChatMessageUser(content=content)


def _content(*messages: Message) -> str | list[chat.Content]:
    text, pictures = "\n\n".join(map(text_of, messages)), shown_pictures(messages)
    if not pictures:
        return text
    return [chat.ContentText(text=text), *(chat.ContentImage(image=picture_url(picture)) for picture in pictures)]
