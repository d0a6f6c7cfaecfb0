"""A black-box agent improves: 30 steps of GRPO on the tokens that a gateway records, with no line changed in the agent.

The agent (`_langgraph_agent.py`: LangGraph, the OpenAI client, an MCP client) runs in an environment of its own, with
the packages of other projects, and plays `errand` through `agentgym serve env errand --mcp`. Behind its endpoint stands
a tiny model, warm-started and trained as the recipe `errand` says, with twice its learning rate. Success is measured on
held-out tasks before and after, by the same agent.

    python -m benchmarks.train_black_box_agent --agent-python .venv-peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agentgym.interop.gateway import Gateway, GatewaySettings, serving
from agentgym.rollout import Group
from agentgym.statistics.intervals import wilson
from agentgym.task import iterate
from agentgym.trajectory import Trajectory
from benchmarks._report import Claim, write

ROOT = Path(__file__).parent.parent
ENV = "errand"
PATIENCE_S = 300.0
PACKAGES = ("torch", "transformers", "trl")
PEERS = ("langgraph", "openai", "mcp")
OVERRIDES: dict[str, Any] = {"env": ENV, "learning_rate": 1e-3, "report_to": []}
SETTINGS = ("difficulty=1",)
TOKEN = "the-token-of-this-benchmark"


class Agents:
    """The agent's process and the environment's server, and who does what.

    Args:
        python: The interpreter with the agent's packages.
        folder: For the server's records.
    """

    def __init__(self, python: str, folder: Path):
        (folder / "token").write_text(TOKEN, encoding="utf-8")
        self._records, self._read, self._known = folder / "episodes.jsonl", 0, {}
        served = [python, "-m", "agentgym", "serve", "env", ENV, "--mcp", "--token-file", str(folder / "token")]
        served += ["--out", str(self._records), *(word for one in SETTINGS for word in ("--set", one))]
        self._server = _started(served)
        self._agent = _started([python, str(Path(__file__).with_name("_langgraph_agent.py"))])
        self._url = self._server.stdout.readline().removeprefix("Listening on ").strip()
        self.errors: list[str] = []
        """What stopped agents, mostly their own limit of turns: nothing tells them that an episode has ended."""

    def play(self, assignments: Sequence[Any]) -> list[Trajectory | None]:
        """Give every assignment to the agent, and return the environment's records."""
        for one in assignments:
            url = f"{self._url}?task={one.task.id}&seed={one.seed}&name={one.session.name}"
            job = {"id": one.session.name, "model_url": one.session.base_url, "api_key": one.session.api_key}
            self._agent.stdin.write(json.dumps({**job, "mcp_url": url, "mcp_token": TOKEN}) + "\n")
        self._agent.stdin.flush()
        told = [json.loads(self._agent.stdout.readline()) for _ in assignments]
        self.errors += [one["error"] for one in told if one["error"]]
        return [self._record(one.session.name) for one in assignments]

    def _record(self, name: str) -> Trajectory | None:
        """Return the record of an episode; the server writes it when the agent has left."""
        end = time.monotonic() + PATIENCE_S
        while name not in self._known and time.monotonic() < end:
            self._read_more()
            if name not in self._known:
                time.sleep(0.05)
        return self._known.pop(name, None)

    def _read_more(self) -> None:
        if not self._records.is_file():
            return
        with self._records.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            record = Trajectory.from_dict(json.loads(line))
            self._known[record.id] = record

    def close(self) -> None:
        """End both."""
        for process in (self._agent, self._server):
            process.terminate()
            process.wait(30)


def _started(command: Sequence[str]) -> Any:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


@contextmanager
def agents_of(python: str) -> Iterator[Agents]:
    with tempfile.TemporaryDirectory() as folder:
        agents = Agents(python, Path(folder))
        try:
            yield agents
        finally:
            agents.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent-python", default=sys.executable, help="the interpreter with the agent's packages")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--eval-tasks", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with ExitStack() as stack:
        row = trained(options, stack.enter_context(agents_of(options.agent_python)))
    gain = row["after"]["success"] - row["before"]["success"]
    claims = [
        Claim("success of a black-box agent, after minus before (points)", round(100 * gain, 1), ">=", 10.0),
        Claim(
            "lower end of the interval after, minus upper end before (points)",
            round(100 * (row["after"]["interval"][0] - row["before"]["interval"][1]), 1), ">=", 0.0,
        ),
        Claim("sampler's and trainer's log-probabilities differ by at most (nats)", row["largest_gap"], "<=", 1e-3),
        Claim("minutes", row["minutes"], "<=", 20.0),
    ]  # fmt: skip
    write("train_black_box_agent", [row], claims, packages=PACKAGES, more_versions=_peers(options.agent_python))


def trained(options: argparse.Namespace, agents: Agents) -> dict[str, Any]:
    """Train the agent's model, and return what became of it."""
    import torch
    from accelerate import PartialState

    from agentgym.trainers.batches import task_rows
    from agentgym.trainers.config import load_config
    from agentgym.trainers.grpo import AgentGRPOTrainer
    from agentgym.trainers.outside import OutsideRollouts
    from agentgym.trainers.policies import dialect_of, load_model, policy_of
    from agentgym.trainers.trl_config import credit_of, env_factory, grpo_config, limits_of, optimizer_steps, probe

    torch.set_num_threads(1)  # the agent and the environment need the other core
    PartialState()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(
            None, {**OVERRIDES, "steps": options.steps, "seed": options.seed, "output_dir": str(Path(folder) / "run")}
        )
        source, scheme = probe(env_factory(config))
        model, tokenizer = load_model(config, lambda what, done, of: None)
        warm_s = time.monotonic() - began
        began = time.monotonic()
        policy = policy_of(config, model, tokenizer, slots=64)
        gateway = Gateway(policy, GatewaySettings(dialect_of(config), limits_of(config)))
        with serving(gateway):
            rollouts = OutsideRollouts(
                gateway, source, agents.play, env_id=ENV, updates_per_step=optimizer_steps(config)
            )
            log = Log()
            trainer = AgentGRPOTrainer(
                model=model,
                args=grpo_config(config, world_size=1, use_cpu=True),
                processing_class=tokenizer,
                train_dataset=task_rows(source, config.steps * config.groups, config.seed),
                rollouts=rollouts,
                credit=credit_of(config, scheme),
                on_batch=log.batch,
                callbacks=[log.callback()],
            )
            policy.use(trainer.accelerator.unwrap_model(trainer.model))
            held_out = list(iterate(source, "test", options.eval_tasks))
            before = measured(rollouts, held_out, 1_000_000)
            print("before:", before, flush=True)
            trainer.train()
            after = measured(rollouts, held_out, 2_000_000)
    return {
        "before": before,
        "after": after,
        "steps": log.steps,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "warm_start_s": round(warm_s),
        "largest_gap": max(log.gaps),
        "agents_stopped_by": Counter(error[:60] for error in agents.errors),
    }


class Log:
    """What happened in each step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.gaps: list[float] = [0.0]

    def batch(self, sampled: list[Trajectory], updates: int) -> None:
        real = [one for one in sampled if not one.failed]
        self.steps.append(
            {
                "update": updates,
                "success": round(statistics.fmean(one.success for one in real), 3),
                "reward": round(statistics.fmean(one.reward for one in real), 3),
                "turns": round(statistics.fmean(len(one.model_turns) for one in real), 2),
                "failed": len(sampled) - len(real),
            }
        )
        print(self.steps[-1], flush=True)

    def callback(self) -> Any:
        from transformers import TrainerCallback

        gaps = self.gaps

        class Gaps(TrainerCallback):
            def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
                gaps.append(round(float((logs or {}).get("sampling/sampling_logp_difference/max", 0.0)), 6))

        return Gaps()


def measured(rollouts: Any, tasks: Sequence[Any], version: int) -> dict[str, Any]:
    """Let the agent play held-out tasks; sessions are named after a number that no update has."""
    groups = [Group(task, seed=number, first=number) for number, task in enumerate(tasks)]
    played = [one for group in rollouts.played(groups, version) for one in group.trajectories]
    real = [one for one in played if not one.failed]
    solved = sum(one.success for one in real)
    return {
        "success": round(solved / len(real), 4),
        "interval": [round(end, 4) for end in wilson(solved, len(real))],
        "episodes": len(real),
        "failed": len(played) - len(real),
        "reward": round(statistics.fmean(one.reward for one in real), 3),
        "turns": round(statistics.fmean(len(one.model_turns) for one in real), 2),
    }


def _peers(python: str) -> dict[str, str]:
    told = f"import importlib.metadata as m; print(*(m.version(name) for name in {PEERS!r}))"
    found = subprocess.run([python, "-c", told], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(PEERS, found, strict=True))


if __name__ == "__main__":
    main()
