"""Our environments as tasksets of verifiers 0.4, in an environment of its own: no account, no program, our rewards."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.messages import ToolCall
from tests.doc_blocks import DOCS, blocks_of
from tests.endpoints import Fake
from tests.interop.guarantees import Guarantee, Moves, Seen, hold
from tests.interop.peers import as_completion, scripted_model, seen_in
from tests.interop.probe_env import PROBE
from tests.rows import each_row

PAGE = DOCS / "interop" / "verifiers.md"


def has_tasksets() -> bool:
    with suppress(PackageNotFoundError):
        return version("verifiers") >= "0.4"
    return False


needs_tasksets = pytest.mark.skipif(not has_tasksets(), reason="verifiers 0.4: not in this environment (see .ci/peers)")
pytestmark = [pytest.mark.peers, needs_tasksets]


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with a name that verifiers can load, as on the page."""
    monkeypatch.setenv("NO_KEY", "none")
    if has_tasksets():
        module = types.ModuleType("my_tasks")
        [block] = [candidate for candidate in blocks_of(PAGE) if candidate.file == "my_tasks.py"]
        exec(compile(block.text, "my_tasks.py", "exec"), module.__dict__)
        module.__spec__ = types.SimpleNamespace(name="my_tasks", parent="")  # pyright: ignore[reportAttributeAccessIssue]
        monkeypatch.setitem(sys.modules, "my_tasks", module)


def evaluated(url: str, folder: Path, env: str, *words: str) -> list[dict[str, Any]]:
    """The traces of verifiers' own command, in the order of the tasks."""
    from verifiers.v1.cli.eval.main import main  # pyright: ignore[reportMissingImports]

    taskset = ["--env.taskset.env", env, "--env.agent.runtime.type", "subprocess", "--no-push"]
    model = ["--model", "scripted", "--client.base-url", url, "--client.api-key-var", "NO_KEY"]
    main(["my_tasks", *taskset, *model, "--output-dir", str(folder), "--run.dir", "run", *words])
    lines = (folder / "run" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted(map(json.loads, lines), key=lambda episode: episode["task"]["data"]["idx"])


def trace_of(episode: dict[str, Any]) -> dict[str, Any]:
    [trace] = episode["traces"]
    return trace


class Driver:
    adapter = "verifiers_tasks"
    package = "verifiers"

    def __init__(self, folder: Path):
        self._folder = folder

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        words = ["--env.taskset.count", str(len(episodes)), "--env.taskset.seed", str(seed), "-r", str(attempts)]
        with scripted_model(episodes, seed) as url:
            rollouts = evaluated(url, self._folder, PROBE, *words)
        tasks = range(len(episodes))
        return [
            [seen(trace_of(episode)) for episode in rollouts if episode["task"]["data"]["idx"] == index]
            for index in tasks
        ]


def seen(trace: dict[str, Any]) -> Seen:
    messages = [node["message"] for node in trace["nodes"] if node["message"]["role"] != "assistant"]
    result = seen_in(messages)
    if trace["errors"]:
        result.error = trace["errors"][-1]["type"]
    reward = trace["rewards"].get("reward")
    result.reward = reward and reward["score"]
    info = trace["info"].get("agentgym", {})
    result.turn_rewards, result.ending = info.get("turn_rewards"), info.get("ending")
    return result


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee, tmp_path: Path):
    hold(Driver(tmp_path), guarantee)


def test_a_limit_of_verifiers_ends_the_episode_by_its_name_and_it_is_graded(tmp_path: Path):
    words = ["--env.taskset.count", "1", "--env.agent.max-turns", "2"]
    with Fake(lambda request, number: as_completion(ToolCall("pay", {"amount": 0.25}))).serving() as url:
        [episode] = evaluated(url, tmp_path, PROBE, *words)
    info = trace_of(episode)["info"]["agentgym"]
    assert (info["ending"], info["reward"], info["truncated"]) == ("max_turns", 0.5, True)
