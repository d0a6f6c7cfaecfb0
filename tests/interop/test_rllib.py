"""RLlib's PPO trains on our environments through `DiscreteCalls`, and leaves out what breaks around an episode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from agentgym.core.messages import ToolCall
from agentgym.core.registry import load_class, make
from agentgym.interop.trainers.discrete import DiscreteCalls
from tests.interop.peers import needs
from tests.interop.test_trl import SHAKY

pytestmark = [pytest.mark.peers, *needs("ray", "tree", "torch")]

SPACE = spaces.Box(0, 1, (1,), np.float32)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    import ray  # type: ignore[import-not-found]

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


def shaky() -> DiscreteCalls:
    """An environment that pays 1 for `done` and fails `breaks` times."""
    calls = [ToolCall("add"), ToolCall("done")]
    return DiscreteCalls(lambda: make(SHAKY), calls, lambda _: np.zeros(1, np.float32), SPACE, attempts=1)


def algorithm(**tolerance: bool) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig  # type: ignore[import-not-found]
    from ray.tune.registry import register_env  # type: ignore[import-not-found]

    register_env("shaky", lambda _: shaky())
    config = PPOConfig().environment("shaky").env_runners(num_env_runners=0, num_envs_per_env_runner=2)
    config = config.training(lr=1e-2, train_batch_size=128, minibatch_size=64, num_epochs=4)
    return config.fault_tolerance(**tolerance).debugging(seed=0).build_algo()


def returns(result: dict[str, Any]) -> tuple[float, float]:
    metrics = result["env_runners"]
    return float(metrics["episode_return_min"]), float(metrics["episode_return_mean"])


@pytest.fixture
def kind() -> Iterator[Any]:
    kind: Any = load_class(SHAKY)
    kind.breaks = 0
    yield kind
    kind.breaks = 0


def test_if_told_to_it_makes_another_environment_and_leaves_the_episode_out(kind: Any):
    algo = algorithm(restart_failed_sub_environments=True)
    kind.breaks = 3
    least, mean = returns(algo.train())
    algo.stop()
    assert kind.breaks == 0
    assert least >= 0
    assert mean > 0
