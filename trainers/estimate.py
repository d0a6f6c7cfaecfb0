"""Estimates how long a run will take, before it begins, from a few solutions and the speed of this machine."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.markup import escape

from agentgym.core.foreign import describe
from agentgym.core.messages import text_of
from agentgym.core.policy import ScriptedPolicy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Limits
from agentgym.rollout.streams import play_jobs
from agentgym.trainers import ranks
from agentgym.trainers.config import QUICK, TrainConfig
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.policies import default_device, warm_start_of, weights_of
from agentgym.trainers.run_folder import PlannedRun
from agentgym.trainers.warm_start.settings import training_jobs, training_tasks

_SAMPLE, _SAMPLE_S = 8, 20.0
"""Solutions to play for an estimate, and the longest time for one of them."""
_MEASURED_S = 0.2
"""Seconds for measuring the speed of the machine."""
_CHARS_PER_TOKEN = 3
_SLOW_S = 1.0
"""If one solution takes longer than these seconds, no more are played."""
_QUICK_S = 45.0
"""Seconds that episodes may take in a quick run."""
_LEAST = {"warm_start_tasks": 4, "warm_start_steps": 4, "eval_tasks": 2, "groups": 1, "steps": 2}
"""Least values of the settings that a quick run cuts further if its episodes take long."""
_SPREAD = 2.0
"""The run may take this much less or more than the estimate."""
_LONG_S = 60.0
"""Seconds of playing solutions that are worth a word of their own."""
_OVERHEAD_S = 20.0
"""Seconds for loading, saving and drawing."""


@dataclass(frozen=True)
class EpisodeCounts:
    """The episodes of a run."""

    solutions: int
    supervised: int
    """Counting each again for each time that it is learned from."""
    evaluated: int
    trained: int

    @property
    def text(self) -> str:
        """The counts in a few words."""
        warm = f"{self.solutions:,} solutions, learned from {self.supervised:,} times; " if self.solutions else ""
        return f"{warm}{self.evaluated:,} episodes of evaluation, {self.trained:,} of training"


def episodes_of(run: PlannedRun, factory: EnvFactory) -> EpisodeCounts:
    """Return the episodes that a run still has to play."""
    config = run.config
    is_warm = not config.resume and config.is_warm_started and not warm_start_of(config).is_cached
    return EpisodeCounts(
        solutions=_solutions(config, factory) if is_warm else 0,
        supervised=config.warm_start_steps * config.warm_start_batch if is_warm else 0,
        evaluated=(1 if run.checkpoint else 2) * config.eval_tasks * config.eval_attempts,
        trained=(config.steps - run.step) * config.batch,
    )


def _solutions(config: TrainConfig, factory: EnvFactory) -> int:
    """Return the number of solutions to play for a warm start."""
    return 0 if config.warm_start_from else training_tasks(factory, config.warm_start_tasks)


def prepared(run: PlannedRun, factory: EnvFactory, progress: RunProgress) -> PlannedRun:
    """Print the work of a run and its estimated time; return the run, with fewer episodes if it is quick but slow.

    The time is unknown if the environment has no solutions.
    """
    progress("estimating the time", 0, 1)
    try:
        env_s, tokens = _sampled(factory)
        if run.config.quick and not run.config.resume and ranks.world_size() == 1:
            run = _shortened(run, factory, env_s, tokens, progress)
        episodes = episodes_of(run, factory)
        time_text = _range(_seconds(run.config, episodes, env_s, tokens))
        if (solutions_s := episodes.solutions * env_s) > _LONG_S:
            time_text += f", of that {_range(solutions_s)} for the solutions (--warm-start-tasks)"
    except Exception as error:  # of the environment or a library: the run itself reports what matters
        time_text = f"the time cannot be estimated ({describe(error)})"
    progress("estimating the time", 1, 1)
    progress.say(f"{episodes_of(run, factory).text}: {escape(time_text)}")
    return run


def _shortened(run: PlannedRun, factory: EnvFactory, env_s: float, tokens: float, progress: RunProgress) -> PlannedRun:
    """Return a quick run with so few episodes that playing and learning from them takes about `_QUICK_S`."""
    config = run.config
    share = _QUICK_S / (_seconds(config, episodes_of(run, factory), env_s, tokens) - _OVERHEAD_S)
    if share >= 1:
        return run
    cuts = {name: max(least, int(share * QUICK[name])) for name, least in _LEAST.items()}
    changes: dict[str, Any] = {
        name: value for name, value in cuts.items() if value < getattr(config, name) <= QUICK[name]
    }
    if not changes:
        return run
    pairs = ", ".join(f"{name} {getattr(config, name)} → {value}" for name, value in changes.items())
    progress.say(f"Episodes take long here, so the quick run also cuts {pairs}.")
    changes["micro_batch"] = None
    return replace(run, config=replace(config, **changes), requested=replace(run.requested, **changes))


def _sampled(factory: EnvFactory) -> tuple[float, float]:
    """Return the seconds and the tokens of an episode: of one solution, or of several at once if that is quick."""
    limits, played, env_s = Limits(episode_timeout_s=_SAMPLE_S, retries=0), [], 0.0
    first, *others = training_jobs(factory, _SAMPLE, seed=0)
    for part in ([first], others):
        if env_s > _SLOW_S or not part:
            break
        began = time.monotonic()
        played += asyncio.run(play_jobs(part, ScriptedPolicy(), factory, limits))
        env_s = (time.monotonic() - began) / len(part)
    return env_s, sum(map(_tokens, played)) / len(played)


def _tokens(trajectory: Trajectory) -> int:
    return sum(len(text_of(message)) for message in trajectory.messages) // _CHARS_PER_TOKEN


def _seconds(config: TrainConfig, episodes: EpisodeCounts, env_s: float, tokens: float) -> float:
    """Return the estimated seconds.

    A pass over a token takes two operations per weight, learning from it three times as many. Sampling computes few
    tokens at a time, which is about ten times as slow as learning's forward pass.
    """
    token_s = 2 * weights_of(config) / _operations_per_s()
    tokens = min(tokens, config.context)
    sampling_s, learning_s = 10 * tokens * token_s, 3 * tokens * token_s
    learned = episodes.supervised + episodes.trained * config.epochs_per_step
    sampled = episodes.evaluated + episodes.trained
    return _OVERHEAD_S + (episodes.solutions + sampled) * env_s + sampled * sampling_s + learned * learning_s


def _operations_per_s() -> float:
    """Return the measured operations per second of products of matrices, twice the multiplications."""
    size, device = 512, default_device()
    matrix = torch.ones(size, size, device=device)
    began, rounds = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < _MEASURED_S:
        float((matrix @ matrix)[0, 0])
        rounds += 1
    return 2 * size**3 * rounds / elapsed


def _range(seconds: float) -> str:
    return f"about {_duration(seconds / _SPREAD)} to {_duration(seconds * _SPREAD)}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(10, round(seconds, -1)):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 60 * 60 else f"{seconds / 3600:.0f} h"
