"""Our environments among those of verifiers 0.3.1: its own evaluation gives our rewards, and no failure is a reward."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.making import make_env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.task import Task, iterate
from tests.doc_blocks import DOCS, blocks_of
from tests.endpoints import Fake
from tests.interop.guarantees import Guarantee, Moves, Seen, hold
from tests.interop.peers import as_completion, needs, played, replaying_model, scripted_model, seen_in
from tests.interop.probe_env import PROBE
from tests.rows import each_row

pytestmark = [pytest.mark.peers, *needs("verifiers")]
STATE = ["turn_rewards", "ending", "channels", "task_id", "trajectory"]


def evaluated(env: Any, url: str, **options: Any) -> list[dict[str, Any]]:
    """The outputs of verifiers' own evaluation, in the order of the tasks."""
    from verifiers.types import ClientConfig  # pyright: ignore[reportMissingImports]

    client = ClientConfig(api_base_url=url, api_key_var="NO_KEY", max_retries=0)
    done = asyncio.run(env.evaluate(client, "scripted", state_columns=STATE, on_progress=[], **options))
    return done["outputs"]


def loaded(env: str, **options: Any) -> Any:
    from agentgym.interop.trainers.verifiers import load_environment

    return load_environment(env, **options)


def tasks_of(env: str, split: str, count: int, seed: int) -> list[tuple[Task, int]]:
    instance = make_env(env, {})
    return [(task, seed + index) for index, task in enumerate(iterate(instance.tasks, split, count))]


class Driver:
    adapter = "verifiers"
    package = "verifiers"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        env = loaded(PROBE, count=len(episodes), eval_split="train", seed=seed)
        with scripted_model(episodes, seed) as url:
            outputs = evaluated(env, url, rollouts_per_example=attempts)
        return [[seen(output) for output in outputs if output["example_id"] == index] for index in range(len(episodes))]


def seen(output: dict[str, Any]) -> Seen:
    result = seen_in([*output["prompt"], *(m for m in output["completion"] or () if m["role"] != "assistant")])
    result.reward = None if math.isnan(output["reward"]) else output["reward"]
    result.turn_rewards, result.ending = [step["reward"] or 0.0 for step in output["trajectory"]], output["ending"]
    result.error = output["error"] and output["error"]["error"]
    return result


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)


def test_an_episode_that_verifiers_stops_is_graded_under_the_name_of_the_limit():
    env = loaded(PROBE, count=1, eval_split="train")
    env.set_max_total_completion_tokens(5)
    with Fake(lambda request, number: as_completion(ToolCall("pay", {"amount": 0.5}))).serving() as url:
        [output] = evaluated(env, url)
    assert (output["ending"], output["error"]) == ("token_budget", None)
    assert output["is_truncated"]


def test_the_example_of_the_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Page: "verifiers.md"."""
    tasks = tasks_of("sql", "test", 2, 0)
    with replaying_model(played("sql", ScriptedPolicy(), tasks)) as url:
        for block in blocks_of(DOCS / "interop" / "verifiers.md"):
            if block.language == "python" and block.file is None:
                exec(compile(block.text.replace("http://localhost:8000/v1", url), "verifiers.md", "exec"), {})
