"""Jobs that a fresh interpreter runs for the checks: replay, unpickle, vectorise, and look for leaked resources.

Run as `python -m agentgym.check.probe_child REQUEST RESULTS JOB...`. Each job's result is written as soon as it is
known, so that a job that hangs does not lose the results of those before it.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv

from agentgym.check.holdings import grown, resources
from agentgym.check.outcomes import CheckFailed
from agentgym.check.play import canonical, must_equal, play, replayed, solving_player
from agentgym.check.probe import ENDING_S, ProbeRequest
from agentgym.check.subject import Subject
from agentgym.core import registry
from agentgym.core.env import Env
from agentgym.core.foreign import describe, ends_work

ROUNDS = 3
"""Environments made and closed between the two measurements of held resources."""


def traces(request: ProbeRequest) -> list[list[str]]:
    """Replay the recorded episodes and return their traces."""
    subject = Subject.of(request)
    with subject.env() as env:
        return [replayed(env, episode).trace() for episode in request.episodes]


def unpickled(request: ProbeRequest) -> None:
    """Replay episodes in an environment that another process pickled."""
    if request.pickled is None:
        raise CheckFailed("it could not be pickled; see 'pickles'")
    env = pickle.loads(request.pickled)
    try:
        for episode in request.episodes[:3]:
            advice = "Keep nothing in the class or module that the other process has set up."
            must_equal(episode.trace(), replayed(env, episode).trace(), f"task {episode.task.id!r}", advice)
    finally:
        env.close()


def vector_async(request: ProbeRequest) -> None:
    """Compare the openings of copies in worker processes with single environments, then step the copies."""
    with tempfile.TemporaryDirectory() as folder:
        error_file = Path(folder) / "error"
        try:
            _step_in_workers(request, partial(_make_env, request, error_file))
        except (EOFError, ConnectionError):
            for worker in multiprocessing.active_children():  # before the folder is removed
                worker.kill()
                worker.join()
            if not error_file.exists():
                raise
            raise CheckFailed(f"it cannot be made in a worker: {error_file.read_text(encoding='utf-8')}") from None


def _make_env(request: ProbeRequest, error_file: Path) -> Env:
    """Make an environment in a worker; write errors to a file: the vector may kill a worker while it reports."""
    try:
        return registry.make(request.target, **request.kwargs)
    except BaseException as error:
        words = error_file.with_name(str(os.getpid()))
        words.write_text(describe(error), encoding="utf-8", errors="replace")
        words.rename(error_file)
        raise


def _step_in_workers(request: ProbeRequest, make: Callable[[], Env]) -> None:
    subject = Subject.of(request)
    vector: Any = AsyncVectorEnv([make, make], shared_memory=False)
    try:
        observations, _ = vector.reset(seed=request.seed)
        for index, observation in enumerate(observations):
            with subject.env() as env:
                alone, _ = env.reset(seed=request.seed + index)
            must_equal([canonical(alone)], [canonical(observation)], f"copy {index}, alone and in the vector", "")
        vector.action_space.seed(request.seed)
        for _ in range(3):
            vector.step(vector.action_space.sample())
    finally:
        vector.close()


def leftovers(request: ProbeRequest) -> None:
    """Make and close environments; the resources the process holds must not grow with their number."""
    subject = Subject.of(request)
    _use(subject, request)  # creates the state that all environments share
    growth = _growth(subject, request)
    if growth:  # on a busy machine a shared pool may grow once; a leak grows every time
        again = _growth(subject, request)
        growth = {name: count for name, count in growth.items() if name in again}
    if growth:
        more = "; ".join(f"{count} more {name} than before; free them in release()" for name, count in growth.items())
        raise CheckFailed(f"after {ROUNDS} environments were made, played and closed: {more}")


def _growth(subject: Subject, request: ProbeRequest) -> dict[str, int]:
    """Return the growth of resources over `ROUNDS` environments, if it is at least one per environment."""
    before = resources()
    for _ in range(ROUNDS):
        _use(subject, request)
    patience = time.monotonic() + ENDING_S
    while (growth := grown(before, resources(), least=ROUNDS)) and time.monotonic() < patience:
        time.sleep(0.05)
    return growth


def surroundings(request: ProbeRequest) -> dict[str, Any] | None:
    """Find out what episodes depend on in their surroundings, and what they change there."""
    # Imported here: time_machine imports pytest, which is slow, and only one process has this job.
    from agentgym.check import surroundings

    return surroundings.surroundings(request)


JOBS: dict[str, Callable[[ProbeRequest], Any]] = {
    "leftovers": leftovers,
    "surroundings": surroundings,
    "traces": traces,
    "unpickled": unpickled,
    "vector_async": vector_async,
}


def _use(subject: Subject, request: ProbeRequest) -> None:
    """Play one episode to its end and leave another in the middle, then close twice."""
    env = subject.make()
    try:
        play(env, request.episodes[0].task, request.seed, solving_player)
        env.reset(seed=request.seed)
        env.step("")
    finally:
        env.close()
        env.close()
    del env
    gc.collect()


def main(request_path: str, results_path: str, jobs: list[str]) -> None:
    """Run the jobs and write one JSON line for each."""
    request: ProbeRequest = pickle.loads(Path(request_path).read_bytes())
    if request.spec.id not in gymnasium.registry and ":" not in request.target:
        gymnasium.register(request.spec.id, entry_point=request.spec.entry_point, kwargs=request.spec.kwargs)
    with open(results_path, "a", encoding="utf-8") as results:
        for job in jobs:
            try:
                line: dict[str, Any] = {"job": job, "value": JOBS[job](request)}
            except CheckFailed as failure:
                line = {"job": job, "failed": str(failure)}
            except (EOFError, ConnectionError) as error:
                line = {"job": job, "failed": f"a worker ended early ({type(error).__name__})", "died": True}
            except BaseException as error:
                if ends_work(error, None):
                    raise
                line = {"job": job, "failed": describe(error)}
            results.write(json.dumps(line) + "\n")
            results.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
