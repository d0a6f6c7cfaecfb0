"""Our environments on OpenEnv's server, driven by its clients on loopback: the episodes are ours, and so are errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from agentgym.core.messages import ToolCall, shown_pictures, text_of
from tests.doc_blocks import DOCS, blocks_of
from tests.interop.guarantees import SPLIT, Guarantee, Moves, Seen, hold
from tests.interop.peers import by_task, needs
from tests.interop.probe_env import PROBE
from tests.rows import each_row
from tests.serving_cases import running

pytestmark = [pytest.mark.peers, *needs("openenv")]
FINISH = ToolCall("finish_as", {"what": "solved"})


@contextmanager
def served(env: str, **options: Any) -> Iterator[str]:
    """Serve an environment; gives the address."""
    from agentgym.interop.served.openenv import openenv_app

    with running(openenv_app(env, **options), streams=True) as server:
        yield server.url


@contextmanager
def client_of(url: str) -> Iterator[Any]:
    from openenv.core.generic_client import GenericEnvClient  # pyright: ignore[reportMissingImports]

    with GenericEnvClient(base_url=url).sync() as client:
        yield client


def action(move: ToolCall) -> Any:
    from agentgym.interop.served.openenv import call

    return call(move.name, **move.arguments)


class Driver:
    adapter = "openenv"
    package = "openenv"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        indices = [index for index in range(len(episodes)) for _ in range(attempts)]
        with served(PROBE) as url, ThreadPoolExecutor(len(indices)) as pool:
            results = list(pool.map(lambda index: play(url, episodes[index], seed + index, index), indices))
        return by_task(results, attempts)


def play(url: str, moves: Moves, seed: int, index: int) -> Seen:
    from agentgym.interop.served.openenv import stop

    result, rewards = Seen(), []
    with client_of(url) as client:
        try:
            step = client.reset(seed=seed, split=SPLIT, index=index)
            read(result, step)
            for turn in [*map(action, moves), stop()]:
                if not step.done:
                    step = client.step(turn)
                    rewards.append(step.reward)
                    read(result, step)
        except RuntimeError as error:
            result.error = str(error)
            return result
    result.turn_rewards, result.reward, result.ending = rewards, sum(rewards), step.metadata["ending"]
    return result


def read(result: Seen, step: Any) -> None:
    messages = step.observation["messages"]
    result.texts += map(text_of, messages)
    result.pictures += shown_pictures(messages)


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)


def test_an_error_says_what_kind_it_is_and_after_the_end_nothing_is_paid_again():
    with served(PROBE) as url, client_of(url) as client:
        with pytest.raises(RuntimeError, match="ResetNeeded"):
            client.step(action(FINISH))
        with pytest.raises(RuntimeError, match=r"UsageError: reset takes .*, not 'speed'"):
            client.reset(speed=3)
        with pytest.raises(RuntimeError, match="TaskError"):
            client.reset(split="nowhere")
        client.reset(seed=0)
        with pytest.raises(RuntimeError, match="InfrastructureError: the probe collapsed"):
            client.step(action(ToolCall("collapse")))
        with pytest.raises(RuntimeError, match="ResetNeeded"):
            client.step(action(FINISH))
        client.reset(seed=0)
        assert client.step(action(FINISH)).reward == 1.0
        after = client.step(action(FINISH))
        assert (after.reward, after.done, after.metadata["channels"]) == (0.0, True, {})
        assert "ended" in after.observation["result"]


def test_limits_of_a_model_end_an_episode_by_their_name_and_others_are_refused():
    from agentgym.interop.served.openenv import say, stop

    with served(PROBE) as url, client_of(url) as client:
        client.reset(seed=0)
        assert "No tool call was found" in client.step(say("Hm.")).observation["result"]
        with pytest.raises(RuntimeError, match="UsageError: an episode is stopped for one of: gave_up, token_budget"):
            client.step(stop("solved"))
        step = client.step(stop("token_budget"))
        assert (step.metadata["ending"], step.metadata["truncated"], step.done) == ("token_budget", True, True)


def test_the_tool_client_of_openenv_finds_and_calls_the_tools():
    from openenv.core.mcp_client import MCPToolClient  # pyright: ignore[reportMissingImports]

    with served(PROBE) as url, MCPToolClient(base_url=url).sync() as client:
        client.reset(seed=0)
        assert [tool.name for tool in client.list_tools()] == ["pay", "roll", "look", "meet", "collapse", "finish_as"]
        paid = client.call_tool("pay", amount=0.5)
        assert (paid["result"], paid["reward"]) == ("paid", 0.5)
        assert [block["type"] for block in client.call_tool("look")["result"]] == ["text", "image"]


def test_openenv_validate_passes_everything_that_it_asks_of_a_running_server():
    from openenv.cli.__main__ import app  # pyright: ignore[reportMissingImports]

    with served("guess") as url:
        output = CliRunner().invoke(app, ["validate", "--json", "--url", url]).stdout
    report = json.loads(output[output.index("{") :])
    assert (report["passed"], report["summary"]["passed_count"]) == (True, report["summary"]["total_count"])


def test_the_example_of_the_page_runs():
    """Page: "openenv.md"."""
    app, client = (block for block in blocks_of(DOCS / "interop" / "openenv.md") if block.language == "python")
    names: dict[str, Any] = {}
    exec(compile(app.text, "openenv.md", "exec"), names)
    with running(names["app"], streams=True) as server:
        exec(compile(client.text.replace("http://localhost:8000", server.url), "openenv.md", "exec"), {})
