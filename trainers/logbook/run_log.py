"""Logs a run to the metrics file, TRL's own log and the terminal, and warns of a plateau."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.logbook.phases import LEARN, PhaseClock, Work, phase_metrics, shares_text
from agentgym.trainers.logbook.progress import RunProgress
from agentgym.trainers.logbook.records import MetricsFile
from agentgym.trainers.logbook.speed import LearningSpeed

_GAPS = {
    "sampler_gap": "sampling/sampling_logp_difference/mean",
    "sampler_gap_max": "sampling/sampling_logp_difference/max",
    "sampler_ratio_max": "sampling/importance_sampling_ratio/max",
}
"""Differences between the sampler's and the trainer's log-probabilities: names in the metrics and in TRL's log."""


class RunLog(TrainerCallback):
    """Writes the metrics of each step to the JSONL file, TRL's own log and the terminal; warns of a plateau.

    Args:
        config: The settings of the run.
        progress: The terminal output.
        clock: Measures the phases of each step.
        sampler_s: Returns the seconds in which an episode has waited for the policy so far.
        speed: The operations that learning needs, and the peak of all devices.
    """

    def __init__(
        self,
        config: TrainConfig,
        progress: RunProgress,
        clock: PhaseClock,
        sampler_s: Callable[[], float],
        speed: LearningSpeed,
    ):
        self._config, self._progress = config, progress
        self._clock, self._sampler_s, self._speed = clock, sampler_s, speed
        self._sampled_before_s = 0.0
        self._file: MetricsFile | None = None
        self._batch: dict[str, float] = {}
        self._tokens = self._sampled = 0
        self._flops = 0.0
        self._flat = 0

    def open(self, resume_at: int | None) -> None:
        """Open the metrics file and keep its lines up to `resume_at`."""
        self._file = MetricsFile(self._config.folder / "metrics.jsonl", resume_at=resume_at)
        self._clock.lap()

    def close(self) -> None:
        """Close the metrics file."""
        if self._file is not None:
            self._file.close()

    def batch(self, metrics: dict[str, float], episodes: Sequence[EpisodeNumbers]) -> None:
        """Store the metrics of the batch that was just sampled."""
        self._batch = metrics
        self._tokens = sum(episode.token_count for episode in episodes)
        self._sampled = sum(episode.sampled_tokens for episode in episodes)
        self._flops = self._speed.learning_flops(episode.token_count for episode in episodes)
        self._flat = self._flat + 1 if metrics.get("flat_groups") == 1.0 else 0
        if self._flat == self._config.plateau_warning:
            self._progress.say(
                f"[yellow]For {self._flat} steps, all rewards within each group were equal: the model cannot learn. "
                "Choose easier tasks (env_kwargs: difficulty), a longer warm start (warm_start_steps), a larger "
                "group_size, or --credit gated, which distinguishes failures."
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        """Write a line; TRL logs once per step."""
        if logs is None or "loss" not in logs or self._file is None:
            return
        step = state.global_step  # counted in steps (`trl_seam`)
        lap = self._clock.lap()
        seconds = sum(lap.values())
        metrics = self._batch | {name: logs[name] for name in ("loss", "entropy", "grad_norm") if name in logs}
        metrics |= {
            "learning_rate": logs["learning_rate"],
            "seconds": seconds,
            "tokens_per_second": self._tokens / seconds,
        }
        phases = self._phases(lap)
        metrics |= phases
        metrics |= {ours: logs[theirs] for ours, theirs in _GAPS.items() if theirs in logs}
        if "clip_ratio/region_mean" in logs:
            metrics["clipped"] = logs["clip_ratio/region_mean"]
        logs.update({f"agentgym/{name}": value for name, value in metrics.items()})
        if state.is_world_process_zero:
            self._file.write({"step": step, **metrics})
            self._progress.step(step, metrics)
            self._progress("training", step, self._config.steps, shares_text(phases))

    def _phases(self, lap: dict[str, float]) -> dict[str, float]:
        """Return the metrics of the phases since the last step."""
        before, self._sampled_before_s = self._sampled_before_s, self._sampler_s()
        passes = self._config.epochs_per_step
        work = Work(self._sampled, passes * self._tokens, passes * self._flops, self._speed.peak_flops)
        return phase_metrics(lap, self._sampled_before_s - before, work)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start the phase of learning; TRL makes rollouts within it."""
        self._clock.begin(LEARN)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """End the phase of learning, after the device has finished."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._clock.end()
