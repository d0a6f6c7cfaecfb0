"""Ray actors on several nodes give the same trajectories as other workers, and survive the loss of a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from agentgym.base.errors import UsageError
from agentgym.cli.app import app
from agentgym.core.endings import Reason
from agentgym.core.policy import RandomPolicy, ScriptedPolicy
from agentgym.core.registry import make
from agentgym.core.task import iterate
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from agentgym.rollout.workers.ray_actors import RayWorkers
from tests.counter_env import groups
from tests.rollout.worker_processes import in_every_environment, play_with
from tests.waiting import HANG_S, eventually

pytestmark = [pytest.mark.nightly, pytest.mark.ray, pytest.mark.slow]

NODES = 2
NODE = {
    "num_cpus": 1,
    "object_store_memory": 80 * 2**20,
    "node_ip_address": "127.0.0.1",
    "include_dashboard": False,
}
SURROUNDINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # only the loopback device
    "RAY_AUTH_MODE": "disabled",  # a token would be kept in the home folder
}


@pytest.fixture(scope="module", autouse=True)
def ray() -> Iterator[Any]:
    """Ray on this machine only, without usage reports, with its files in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        for name, value in (SURROUNDINGS | {"RAY_TMPDIR": folder}).items():
            patch.setenv(name, value)
        yield pytest.importorskip("ray", reason="needs the [ray] extra")


@pytest.fixture(scope="module")
def cluster(ray: Any) -> Iterator[Any]:
    """A cluster of several nodes on this machine with a connection to it; no process is left afterwards."""
    from ray.cluster_utils import Cluster  # type: ignore[import-not-found]

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        for _ in range(NODES - 1):
            cluster.add_node(**NODE)
        ray.init(cluster.address, log_to_driver=False, configure_logging=False)
        yield cluster
    finally:
        started = processes(cluster.list_all_nodes())
        ray.shutdown()
        cluster.shutdown()
        _, alive = psutil.wait_procs(started, timeout=HANG_S)
    assert [process.cmdline() for process in alive] == []


def processes(nodes: list[Any]) -> list[psutil.Process]:
    """Return the processes of nodes and their children."""
    services = [info.process.pid for node in nodes for infos in node.all_processes.values() for info in infos]
    own = [psutil.Process(pid) for pid in services if psutil.pid_exists(pid)]
    return [process for service in own for process in (service, *service.children(recursive=True))]


def places(played_groups: Any, what: str) -> list[Any]:
    return [trajectory.details[what] for group in played_groups for trajectory in group.trajectories]


# This test must run before the other tests start their cluster.
def test_a_missing_cluster_is_refused():
    for address in ("ray://127.0.0.1:10001", "127.0.0.1:1"):
        with pytest.raises(UsageError, match=f"'{address}'"):
            RayWorkers(EnvFactory("agentgym/guess-v0", {}), 1, address=address)


@in_every_environment
def test_the_same_seeds_give_the_same_trajectories_in_actors(cluster: Any, env_id: str, kwargs: dict[str, Any]):
    env = make(env_id, **kwargs)
    work = [Group(task, seed) for seed, task in enumerate(iterate(env.tasks, "train", 2))]
    env.close()
    factory = EnvFactory(env_id, kwargs)
    policy = RandomPolicy() if env_id == "agentgym/guess-v0" else ScriptedPolicy()
    expected = play_with(factory, policy, work, "threads")
    assert not any(t.failed for t in expected)
    assert play_with(factory, policy, work, RayWorkers(factory, 2, actors=1)) == expected


@pytest.mark.parametrize("hangs", [False, True])
def test_episodes_of_a_dead_actor_are_retried(cluster: Any, tmp_path: Path, hangs: bool):
    factory = EnvFactory("tests.rollout.worker_envs:Killing", {"folder": str(tmp_path), "hangs": hangs})
    limits = Limits(max_in_flight=6, retries=1, step_timeout_s=1.0)
    with RolloutEngine(factory, ScriptedPolicy(), limits, workers=RayWorkers(factory, 6, actors=2)) as engine:
        played_groups = engine.collect(groups(8))
    assert [t.reason for group in played_groups for t in group.trajectories] == [Reason.ANSWERED] * 8
    assert len(list(tmp_path.iterdir())) > 0
    assert engine.tally.failed["step" if hangs else "worker"] > 0


def test_the_command_plays_on_a_cluster(cluster: Any):
    options = ["--workers", "ray", "--ray", cluster.address, "--limit", "2", "--json"]
    result = CliRunner().invoke(app, ["eval", "--env", "guess", *options])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["overall"]["success"] == 1.0


def test_every_group_is_completed_once_despite_the_loss_of_a_node(cluster: Any, tmp_path: Path):
    factory = EnvFactory("tests.rollout.worker_envs:Waiting", {"folder": str(tmp_path)})
    node = cluster.add_node(**NODE)
    on_node: list[psutil.Process] = []
    at_once = 2 * (NODES + 1)
    work = groups(8, size=3)

    def break_off() -> None:
        eventually(lambda: len(list(tmp_path.glob("waiting-*"))) == at_once)
        on_node.extend(processes([node]))
        cluster.remove_node(node, allow_graceful=False)
        psutil.wait_procs(on_node, timeout=HANG_S)
        (tmp_path / "go").touch()

    breaking = Thread(target=break_off)
    breaking.start()
    workers = RayWorkers(factory, 64, cpus_per_actor=1)
    with RolloutEngine(factory, ScriptedPolicy(), Limits(max_in_flight=64), workers=workers) as engine:
        played_groups = list(engine.play(work))
    breaking.join()
    assert sorted(played.group.task.id for played in played_groups) == sorted(group.task.id for group in work)
    ids = [trajectory.id for played in played_groups for trajectory in played.trajectories]
    assert sorted(ids) == sorted(job.id for group in work for job in group.jobs)
    assert all(t.reason is Reason.ANSWERED for played in played_groups for t in played.trajectories)
    assert engine.tally.failed == {"worker": 2}
    assert node.node_id not in places(played_groups, "node")
    assert on_node
    assert not any(process.is_running() for process in on_node)


DRIVER = """
import json, psutil
from agentgym.core.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Limits, RolloutEngine

with RolloutEngine(EnvFactory("agentgym/guess-v0", {}), ScriptedPolicy(), Limits(), workers="ray") as engine:
    started = psutil.Process().children(recursive=True)
    listening = [c.laddr.ip for p in (psutil.Process(), *started) for c in p.net_connections() if c.status == "LISTEN"]
_, alive = psutil.wait_procs(started, timeout=30)
import ray
print(json.dumps({
    "listening": sorted(set(listening)), "started": len(started), "alive": len(alive), "ended": not ray.is_initialized()
}))
"""


def test_a_local_ray_uses_only_the_loopback_device_and_leaves_nothing(tmp_path: Path):
    files_before = set(Path("/tmp").glob("ray*"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", DRIVER], env=environment, capture_output=True, text=True, check=True)
    data = json.loads(run.stdout)
    assert data.pop("listening") in (["127.0.0.1", "::ffff:127.0.0.1"], ["127.0.0.1"])
    assert data.pop("started") > 0
    assert data == {"alive": 0, "ended": True}
    assert run.stderr == ""
    assert set(Path("/tmp").glob("ray*")) <= files_before
