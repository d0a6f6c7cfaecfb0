"""Suites as tasks of Inspect AI: solutions get full marks, the numbers are ours, and what breaks has no score."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.messages import ToolCall, calls_of
from agentgym.core.policy import Policy, RandomPolicy, ScriptedPolicy
from agentgym.core.trajectory import Trajectory
from agentgym.eval.suites import load_suite
from agentgym.eval.suites.suite import one_off
from agentgym.rollout.limits import Limits
from tests.interop.guarantees import DONE, SPLIT, Guarantee, Moves, Seen, hold, said_next
from tests.interop.peers import needs, played, run_page
from tests.interop.probe_env import PROBE, ProbeEnv
from tests.rows import each_row

pytestmark = [pytest.mark.peers, *needs("inspect_ai")]


def model_that(answer: Callable[[list[dict[str, Any]]], Any]) -> Any:
    """A model of Inspect's that answers without a network: without usage, it would fetch a tokenizer."""
    from inspect_ai.model import ModelOutput, ModelUsage, get_model  # pyright: ignore[reportMissingImports]

    def said(messages: Any, tools: Any, tool_choice: Any, config: Any) -> Any:
        output = ModelOutput(model="mockllm", choices=[choice_of(answer([plain(message) for message in messages]))])
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model("mockllm/model", custom_outputs=said)


def choice_of(turn: Any) -> Any:
    """Calls or text, as a choice of a model of Inspect's."""
    from inspect_ai.model import ChatCompletionChoice, ChatMessageAssistant  # pyright: ignore[reportMissingImports]
    from inspect_ai.tool import ToolCall as Call  # pyright: ignore[reportMissingImports]

    if isinstance(turn, str):
        return ChatCompletionChoice(message=ChatMessageAssistant(content=turn))
    calls = [Call(id=f"call_{number}", function=call.name, arguments=dict(call.arguments))
             for number, call in enumerate(turn)]  # fmt: skip
    return ChatCompletionChoice(message=ChatMessageAssistant(content="", tool_calls=calls), stop_reason="tool_calls")


def plain(message: Any) -> dict[str, Any]:
    return {"role": message.role, "content": message.text}


def evaluated(task: Any, model: Any, folder: Path, **options: Any) -> Any:
    from inspect_ai import eval as inspect_eval  # pyright: ignore[reportMissingImports]

    options = {"display": "none", "log_dir": str(folder), "log_images": True, **options}
    [log] = inspect_eval(task, model=model, **options)
    return log


def repeating(trajectories: Sequence[Trajectory]) -> Any:
    """A model that does in each episode what was done in a trajectory."""
    from inspect_ai.log._samples import sample_active  # pyright: ignore[reportMissingImports]

    by_task = {trajectory.task_id: trajectory for trajectory in trajectories}

    def answer(messages: list[dict[str, Any]]) -> Any:
        turns = by_task[sample_active().sample.id].turns
        action = turns[sum(message["role"] == "assistant" for message in messages)].action
        assert action is not None
        return action if isinstance(action, str) else calls_of(action)

    return model_that(answer)


def scores_of(log: Any) -> dict[str, Any]:
    return {sample.id: sample.scores["agentgym"] for sample in log.samples if sample.scores}


class Driver:
    adapter = "inspect"
    package = "inspect-ai"

    def __init__(self, folder: Path):
        self._folder = folder

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        from agentgym.interop.trainers.inspect import SampleSpec, task_of

        tasks = [ProbeEnv.default_tasks().get(SPLIT, index) for index in range(len(episodes))]
        [entry] = one_off(PROBE, {}, tasks, attempts=1, limits=Limits(), temperature=1.0).entries
        specs = [SampleSpec(entry, task, seed + index) for index, task in enumerate(tasks)]

        def answer(messages: list[dict[str, Any]]) -> Any:
            move = said_next(messages, episodes, seed)
            return DONE if move is None else [move]

        log = evaluated(task_of("probe", specs, attempts=attempts), model_that(answer), self._folder)
        return [[seen(sample) for sample in log.samples if sample.id == task.id] for task in tasks]


def seen(sample: Any) -> Seen:
    from inspect_ai.log import resolve_sample_attachments  # pyright: ignore[reportMissingImports]

    sample = resolve_sample_attachments(sample, "full")
    messages = [message for message in sample.messages if message.role != "assistant"]
    images = [block.image for message in messages if isinstance(message.content, list) for block in message.content
              if block.type == "image"]  # fmt: skip
    result = Seen([message.text for message in messages], [base64.b64decode(url.partition(",")[2]) for url in images])
    result.error = sample.error and sample.error.message
    if sample.scores:
        score = sample.scores["agentgym"]
        result.reward, result.ending = score.value["reward"], score.metadata["ending"]
        result.turn_rewards = score.metadata["turn_rewards"]
    return result


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee, tmp_path: Path):
    hold(Driver(tmp_path), guarantee)


@each_row("policy, success", [(ScriptedPolicy(), 1.0), (RandomPolicy(), 0.35)])
def test_the_numbers_are_those_of_our_own_engine(policy: Policy, success: float, tmp_path: Path):
    from agentgym.interop.trainers import inspect

    trajectories = []
    for entry in load_suite("smoke").entries:
        specs = [(spec.task, spec.seed) for spec in inspect.specs_of(entry, 2, 0)]
        trajectories += played(entry.env_id, policy, specs, **entry.factory.kwargs)
    log = evaluated(inspect.task("smoke", limit=2), repeating(trajectories), tmp_path)
    assert (log.status, log.error, [sample.error for sample in log.samples if sample.error]) == ("success", None, [])
    assert {trajectory.task_id: trajectory.reward for trajectory in trajectories} == {
        task_id: pytest.approx(score.value["reward"]) for task_id, score in scores_of(log).items()
    }
    metrics = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert metrics["reward"] == pytest.approx(sum(trajectory.reward for trajectory in trajectories) / len(trajectories))
    assert metrics["success"] == 1.0 if success == 1.0 else metrics["success"] < success


@each_row("limit, ending", [({"message_limit": 5}, "max_turns"), ({"token_limit": 5}, "token_budget")])
def test_a_limit_of_inspect_ends_the_episode_by_its_name_and_it_is_graded(
    limit: dict[str, int], ending: str, tmp_path: Path
):
    from agentgym.interop.trainers.inspect import env_task

    pay = [ToolCall("pay", {"amount": 0.25})]
    log = evaluated(env_task(PROBE, split="train", count=1), model_that(lambda messages: pay), tmp_path, **limit)
    [score] = scores_of(log).values()
    assert (score.metadata["ending"], score.metadata["truncated"]) == (ending, True)
    assert score.value["reward"] == sum(score.metadata["turn_rewards"]) > 0


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Page: "inspect.md"."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    names = run_page("inspect.md", model=model_that(lambda messages: DONE))
    assert len(names["suite"](entry="guess", limit=3).dataset) == 3
