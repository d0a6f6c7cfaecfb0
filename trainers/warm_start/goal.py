"""Ends a warm start at its goal."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from agentgym.rollout import EnvFactory
from agentgym.trainers.warm_start.playing import MakePolicy, attempts, training_jobs
from agentgym.trainers.warm_start.settings import Goal, Progress, WarmStart


class Until(TrainerCallback):
    """Evaluates the model at intervals, and ends the training once it solves enough tasks."""

    def __init__(self, goal: Goal, settings: WarmStart, progress: Progress, make_policy: MakePolicy):
        self._goal, self._progress, self._make_policy = goal, progress, make_policy
        self._factory = EnvFactory(settings.env, settings.env_kwargs)
        self._jobs = list(training_jobs(self._factory, goal.tasks, settings.seed, skip=settings.tasks))
        self._every = max(1, settings.steps // goal.tests)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Evaluate the model if it is due."""
        if state.global_step % self._every:
            return
        model, tokenizer = kwargs["model"], kwargs["processing_class"]
        played = attempts(model, tokenizer, self._make_policy, self._jobs, self._factory, self._goal.max_new_tokens)
        solved = sum(t.success for t in played)
        self._progress("solved after the warm start", solved, len(played))
        if solved >= self._goal.share * len(played):
            control.should_training_stop = control.should_save = True
