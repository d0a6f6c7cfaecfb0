"""Logs a run to the metrics file, TRL's own log and the terminal, and warns of a plateau."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import TrainerCallback

from agentgym.trainers.config import TrainConfig
from agentgym.trainers.episode_numbers import EpisodeNumbers
from agentgym.trainers.logbook.progress import RunProgress, Stopwatch
from agentgym.trainers.logbook.records import MetricsFile

_GAPS = {
    "sampler_gap": "sampling/current_logp_difference/mean",
    "sampler_gap_max": "sampling/current_logp_difference/max",
    "sampler_ratio_max": "sampling/importance_sampling_ratio/max",
}
"""Differences between the sampler's and the trainer's log-probabilities: names in the metrics and in TRL's log."""


class RunLog(TrainerCallback):
    """Writes the metrics of each step to the JSONL file, TRL's own log and the terminal; warns of a plateau."""

    def __init__(self, config: TrainConfig, progress: RunProgress):
        self._config, self._progress = config, progress
        self._file: MetricsFile | None = None
        self._batch: dict[str, float] = {}
        self._tokens = 0
        self._watch = Stopwatch()
        self._flat = 0

    def open(self, resume_at: int | None) -> None:
        """Open the metrics file and keep its lines up to `resume_at`."""
        self._file = MetricsFile(self._config.folder / "metrics.jsonl", resume_at=resume_at)
        self._watch.lap()

    def close(self) -> None:
        """Close the metrics file."""
        if self._file is not None:
            self._file.close()

    def batch(self, metrics: dict[str, float], episodes: Sequence[EpisodeNumbers]) -> None:
        """Store the metrics of the batch that was just sampled."""
        self._batch = metrics
        self._tokens = sum(episode.token_count for episode in episodes)
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
        seconds = self._watch.lap()
        metrics = self._batch | {name: logs[name] for name in ("loss", "entropy", "grad_norm") if name in logs}
        metrics |= {
            "learning_rate": logs["learning_rate"],
            "seconds": seconds,
            "tokens_per_second": self._tokens / seconds,
        }
        metrics |= {ours: logs[theirs] for ours, theirs in _GAPS.items() if theirs in logs}
        if "clip_ratio/region_mean" in logs:
            metrics["clipped"] = logs["clip_ratio/region_mean"]
        logs.update({f"agentgym/{name}": value for name, value in metrics.items()})
        if state.is_world_process_zero:
            self._file.write({"step": step, **metrics})
            self._progress.step(step, metrics)
            self._progress("training", step, self._config.steps)
