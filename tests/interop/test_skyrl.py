"""Our environments in SkyRL-Gym, played as SkyRL's generator plays (skyrl/train/generators/skyrl_gym_generator.py)."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentgym.core.messages import ToolCall
from tests.interop.guarantees import Guarantee, Moves, Seen, hold, said_next
from tests.interop.peers import in_hermes, needs, run_page, saying, together
from tests.interop.probe_env import PROBE
from tests.rows import each_row

pytestmark = [pytest.mark.peers, *needs("skyrl_gym")]

Say = Callable[[list[Any]], str]
_NUMBERS = count()


def registered(env: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Register an environment under a new name; its first row."""
    from agentgym.interop.trainers.skyrl import register, rows

    name = f"agentgym-{next(_NUMBERS)}"
    register(name, env, **arguments)
    return name, json.loads(json.dumps(rows(name, env, count=1, **arguments)[0]))


async def generated(row: dict[str, Any], say: Say, workers: ThreadPoolExecutor, max_turns: int = 8) -> dict[str, Any]:
    """Play a row: each call in a thread of the pool, and `close` only if nothing was raised."""
    import skyrl_gym  # type: ignore[import-not-found]

    loop = asyncio.get_running_loop()
    extras = {key: value for key, value in row.items() if key not in ("prompt", "env_class")}
    extras["max_turns"] = max_turns
    env = skyrl_gym.make(row["env_class"], env_config={}, extras=extras)
    history, _ = await loop.run_in_executor(workers, env.init, copy.deepcopy(row["prompt"]))
    rewards: list[float] = []
    done, step = False, {}
    while not done:
        text = say(history)
        step = await loop.run_in_executor(workers, env.step, text)
        history = [*history, {"role": "assistant", "content": text}, *step["observations"]]
        rewards.append(step["reward"])
        done = step["done"]
    metrics = env.get_metrics()
    await loop.run_in_executor(workers, env.close)
    return {"history": history, "rewards": rewards, "metrics": metrics, "metadata": step["metadata"]}


PAY, FINISH = ToolCall("pay", {"amount": 0.25}), ToolCall("finish_as", {"what": "solved"})


def test_each_step_pays_its_turn_and_metrics_are_numbers_that_skyrl_averages():
    from agentgym.interop.trainers.skyrl import SkyRLEnv

    _, row = registered(PROBE)
    with ThreadPoolExecutor(1) as workers:
        outcome = asyncio.run(generated(row, saying(PAY, FINISH), workers))
    assert outcome["rewards"] == [0.25, 1.0]
    assert outcome["metadata"]["ending"] == "solved"
    assert outcome["metrics"] == {"turns": 2, "reward": 1.25, "is_over": 1.0, "is_success": 1.0}
    assert SkyRLEnv.aggregate_metrics([outcome["metrics"]] * 2)["reward"] == 1.25
    assert outcome["history"][: len(row["prompt"])] != []
    assert {message["role"] for message in outcome["history"]} == {"system", "user", "assistant"}


class Driver:
    """Plays as SkyRL's generator does."""

    adapter = "skyrl"
    package = "skyrl-gym"

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> Sequence[Sequence[Seen]]:
        name, _ = registered(PROBE)

        async def one(index: int) -> Seen:
            row = {"prompt": [], "env_class": name, "task_id": f"probe/train/{index}", "seed": seed + index}
            try:
                outcome = await generated(row, lambda history: in_hermes(said_next(history, episodes, seed)), workers)
            except Exception as error:
                return Seen(error=type(error).__name__)
            read = [message["content"] for message in outcome["history"] if message["role"] == "user"]
            ending = outcome["metadata"]["ending"]
            return Seen(read, [], outcome["rewards"], outcome["metrics"]["reward"], ending)

        with ThreadPoolExecutor(8) as workers:
            return together(one, len(episodes), attempts)


@each_row("guarantee", Guarantee)
def test_guarantees(guarantee: Guarantee):
    hold(Driver(), guarantee)


def test_the_page_s_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run_page("skyrl.md")
