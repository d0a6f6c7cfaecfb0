"""Staleness of sampled tokens: the number of training steps between their sampling and the step that learns from them.

Where episodes of several steps overlap (`ahead`), weights of several steps sample one episode. A token that is too
stale carries no loss; the rewards of its episode still count in the group. Long episodes are the stalest, so the
metrics show the tokens without loss by length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentgym.core.trajectory import Tokens
from agentgym.trainers.episode_numbers import EpisodeNumbers

EPISODE_LENGTHS = {
    "1-2": range(3),
    "3-4": range(3, 5),
    "5-8": range(5, 9),
    "9-16": range(9, 17),
    "17+": range(17, 10**9),
}
"""Classes of episodes by their number of turns."""


def loss_mask_of(tokens: Tokens, oldest: int) -> list[int]:
    """Return 1 for each sampled token of version `oldest` or newer, 0 elsewhere."""
    return [int(mask and version >= oldest) for mask, version in zip(tokens.loss_mask, tokens.versions, strict=True)]


def staleness_metrics(episodes: Sequence[EpisodeNumbers], step: int, most: int) -> dict[str, float]:
    """Return metrics on the staleness of a batch's sampled tokens, or nothing if the current weights sampled all.

    Args:
        episodes: The episodes of the batch.
        step: Number of completed steps.
        most: The staleness, in steps, up to which a token carries loss.
    """
    played = [episode for episode in episodes if not episode.failed and episode.sampled_by]
    ages = [(step - version, count) for episode in played for version, count in episode.sampled_by.items()]
    if not any(age for age, _ in ages):
        return {}
    metrics = {
        "staleness": sum(age * count for age, count in ages) / sum(count for _, count in ages),
        "staleness_max": float(max(age for age, _ in ages)),
        "stale_tokens": _without_loss(played, step - most),
    }
    for name, turns in EPISODE_LENGTHS.items():
        if alike := [episode for episode in played if len(episode.model_turns) in turns]:
            metrics[f"stale_tokens/{name}_turns"] = _without_loss(alike, step - most)
    return metrics


def _without_loss(episodes: Iterable[EpisodeNumbers], oldest: int) -> float:
    """Return the share of sampled tokens of a version before `oldest`."""
    counts = [(version < oldest, count) for episode in episodes for version, count in episode.sampled_by.items()]
    return sum(count for is_stale, count in counts if is_stale) / sum(count for _, count in counts)
