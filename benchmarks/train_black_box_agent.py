"""Improve a black-box agent without changing it: 30 steps of GRPO on the tokens that a gateway records.

The agent (`_langgraph_agent.py`: LangGraph, the OpenAI client, an MCP client) runs in its own Python environment with
the packages of other projects, and plays `errand` through `agentgym serve env errand --mcp`. Its endpoint serves a tiny
model, warm-started and trained with the recipe `errand` at twice its learning rate. The same agent measures success on
held-out tasks before and after.

    python -m benchmarks.train_black_box_agent --agent-python .venv-peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentgym.core.task import iterate
from agentgym.core.trajectory import Trajectory
from agentgym.eval.statistics import wilson
from agentgym.interop.served.gateway import Gateway, GatewaySettings, serving
from agentgym.rollout import Group
from benchmarks._peers import started, versions_in
from benchmarks._report import Claim, argument_parser, write

ENV = "errand"
PATIENCE_S = 300.0
PACKAGES = ("torch", "transformers", "trl")
PEERS = ("langgraph", "openai", "mcp")
OVERRIDES: dict[str, Any] = {"env": ENV, "learning_rate": 1e-3, "report_to": []}
SETTINGS = ("difficulty=1",)
TOKEN = "the-token-of-this-benchmark"


class Agents:
    """The agent's process and the records of the environment's server.

    Args:
        agent: The process of the agent.
        url: URL of the environment's server.
        records: The server's file of episodes.
    """

    def __init__(self, agent: subprocess.Popen[str], url: str, records: Path):
        assert agent.stdin is not None
        assert agent.stdout is not None
        self._jobs, self._reports, self._url = agent.stdin, agent.stdout, url
        self._records, self._offset, self._arrived = records, 0, dict[str, Trajectory]()
        self.errors: list[str] = []
        """Errors that stopped agents, mostly their own turn limit, since they do not notice the end of an episode."""

    def play(self, assignments: Sequence[Any]) -> list[Trajectory | None]:
        """Send all assignments to the agent, and return the environment's records."""
        for assignment in assignments:
            url = f"{self._url}?task={assignment.task.id}&seed={assignment.seed}&name={assignment.session.name}"
            job = {
                "id": assignment.session.name,
                "model_url": assignment.session.base_url,
                "api_key": assignment.session.api_key,
            }
            print(json.dumps({**job, "mcp_url": url, "mcp_token": TOKEN}), file=self._jobs)
        self._jobs.flush()
        reports = [json.loads(self._reports.readline()) for _ in assignments]
        self.errors += [report["error"] for report in reports if report["error"]]
        return [self._record(assignment.session.name) for assignment in assignments]

    def _record(self, name: str) -> Trajectory | None:
        """Return the record of an episode; the server writes it when the agent disconnects."""
        end = time.monotonic() + PATIENCE_S
        while name not in self._arrived and time.monotonic() < end:
            self._read_more()
            if name not in self._arrived:
                time.sleep(0.05)
        return self._arrived.pop(name, None)

    def _read_more(self) -> None:
        if not self._records.is_file():
            return
        with self._records.open("rb") as file:
            file.seek(self._offset)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            record = Trajectory.from_dict(json.loads(line))
            self._arrived[record.id] = record


@contextmanager
def agents_of(python: str) -> Iterator[Agents]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "token").write_text(TOKEN, encoding="utf-8")
        records, one_thread = folder / "episodes.jsonl", {"OMP_NUM_THREADS": "1"}
        serve = [python, "-m", "agentgym", "serve", "env", ENV, "--mcp", "--token-file", str(folder / "token")]
        serve += ["--out", str(records), *(word for setting in SETTINGS for word in ("--set", setting))]
        with (
            started(serve, one_thread) as server,
            started([python, "-m", "benchmarks._langgraph_agent"], one_thread) as agent,
        ):
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("Listening on ").strip()
            yield Agents(agent, url, records)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--agent-python", default=sys.executable, help="the interpreter with the agent's packages")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--eval-tasks", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with agents_of(options.agent_python) as agents:
        row = trained(options, agents)
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
    versions = versions_in(options.agent_python, *PEERS)
    write("train_black_box_agent", [row], claims, packages=PACKAGES, more_versions=versions)


def trained(options: argparse.Namespace, agents: Agents) -> dict[str, Any]:
    """Train the agent's model, and return the row of the result."""
    import torch
    from accelerate import PartialState

    from agentgym.trainers.batches import task_rows
    from agentgym.trainers.config import load_config
    from agentgym.trainers.grpo import AgentGRPOTrainer
    from agentgym.trainers.outside import OutsideRollouts
    from agentgym.trainers.policies import dialect_of, load_model, policy_of
    from agentgym.trainers.trl_config import credit_of, env_factory, grpo_config, limits_of, probe

    torch.set_num_threads(1)  # the agent and the environment need the other core
    PartialState()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(
            None, {**OVERRIDES, "steps": options.steps, "seed": options.seed, "output_dir": str(Path(folder) / "run")}
        )
        source, scheme = probe(env_factory(config))
        model, tokenizer = load_model(config)
        warm_s = time.monotonic() - began
        began = time.monotonic()
        policy = policy_of(config, model, tokenizer, slots=64)
        gateway = Gateway(policy, GatewaySettings(dialect_of(config), limits_of(config)))
        with serving(gateway):
            rollouts = OutsideRollouts(gateway, source, agents.play, env_id=ENV)
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
    """Metrics of each step."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.gaps: list[float] = [0.0]

    def batch(self, sampled: Any, step: int) -> None:
        real = [trajectory for trajectory in sampled.own if not trajectory.failed]
        self.steps.append(
            {
                "step": step,
                "success": round(statistics.fmean(trajectory.success for trajectory in real), 3),
                "reward": round(statistics.fmean(trajectory.reward for trajectory in real), 3),
                "turns": round(statistics.fmean(len(trajectory.model_turns) for trajectory in real), 2),
                "failed": len(sampled.own) - len(real),
            }
        )
        print(self.steps[-1], flush=True)

    def callback(self) -> Any:
        from transformers import TrainerCallback

        gaps = self.gaps

        class Gaps(TrainerCallback):
            def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
                gaps.append(round(float((logs or {}).get("sampling/current_logp_difference/max", 0.0)), 6))

        return Gaps()


def measured(rollouts: Any, tasks: Sequence[Any], version: int) -> dict[str, Any]:
    """Let the agent play held-out tasks, in sessions named after `version`, which must differ from all steps."""
    groups = [Group(task, seed=number, first=number) for number, task in enumerate(tasks)]
    played = [trajectory for group in rollouts.played(groups, version) for trajectory in group.trajectories]
    real = [trajectory for trajectory in played if not trajectory.failed]
    solved = sum(trajectory.success for trajectory in real)
    return {
        "success": round(solved / len(real), 4),
        "interval": [round(end, 4) for end in wilson(solved, len(real))],
        "episodes": len(real),
        "failed": len(played) - len(real),
        "reward": round(statistics.fmean(trajectory.reward for trajectory in real), 3),
        "turns": round(statistics.fmean(len(trajectory.model_turns) for trajectory in real), 2),
    }


if __name__ == "__main__":
    main()
