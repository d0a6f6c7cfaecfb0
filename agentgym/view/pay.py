"""The pay of trajectories as JSON data: raw reward channels, gates and their values, credit, and advantages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from agentgym.base.components import ADVANTAGES
from agentgym.base.loading import load_named
from agentgym.core.rewards import GateState, Scheme
from agentgym.core.trajectory import Trajectory
from agentgym.view.environments import Unknown

_SAME = 1e-6
"""Largest relative difference of rewards that count as equal."""


def pays_of(group: Sequence[Trajectory], scheme: Scheme | Unknown, *, compared: bool = True) -> list[dict[str, Any]]:
    """Return the pay of each attempt at a task, turn by turn, and its advantages; or `{"problem": reason}`.

    Args:
        group: Attempts at the task, in the same environment.
        scheme: The reward scheme of the environment, or why it is unknown.
        compared: Whether the group is complete, so that advantages can be computed.
    """
    if isinstance(scheme, Unknown):
        return [{"problem": scheme.reason} for _ in group]
    modes = load_named(ADVANTAGES, "a function")(group, scheme) if compared and len(group) > 1 else {}
    return [
        {
            **_settings(scheme),
            "turns": _turns(trajectory, scheme),
            "modes": {mode: rows[place] for mode, rows in modes.items()},
            "about": _about(len(group), compared),
            "note": _difference(trajectory, scheme),
        }
        for place, trajectory in enumerate(group)
    ]


def as_trained(pay: dict[str, Any], credit: Any, turns: int) -> dict[str, Any]:
    """Return the pay of a trajectory, with the advantages that the trainer used, if annotated.

    Args:
        pay: A result of `pays_of`.
        credit: The annotation of kind `credit`, if any.
        turns: Number of the model's turns.
    """
    values = credit.get("advantages") if isinstance(credit, dict) else None
    if "problem" in pay or not isinstance(values, list) or len(values) != turns:
        return pay
    if not all(type(value) in (int, float) for value in values):
        return pay
    mode = f"{credit.get('mode', 'unknown')}, as trained" if isinstance(credit, dict) else ""
    return {**pay, "modes": {mode: values}, "about": "Advantages are those that the trainer used."}


def _settings(scheme: Scheme) -> dict[str, Any]:
    return {
        "scheme": {
            "weights": dict(scheme.weights),
            "averaged": sorted(scheme.averaged),
            "capped": dict(scheme.capped),
            "in_full": sorted(scheme.in_full),
        },
        "gates": [asdict(gate) for gate in scheme.gates],
    }


def _turns(trajectory: Trajectory, scheme: Scheme) -> list[dict[str, Any]]:
    gated, states = scheme.trace(trajectory.channels)
    credited = scheme.contributions(trajectory.channels)
    return [
        {
            "raw": turn.rewards,
            "gated": open_channels,
            "credited": paid,
            "paid": sum(paid.values()),
            "gates": _states(state),
        }
        for turn, open_channels, paid, state in zip(trajectory.turns, gated, credited, states, strict=True)
    ]


def _states(states: Sequence[GateState]) -> list[dict[str, Any]]:
    return [{"value": state.value if isfinite(state.value) else None, "open": state.open} for state in states]


def _about(size: int, compared: bool) -> str:
    if not compared:
        return "The group is too large to compute advantages here."
    if size < 2:
        return "A single attempt has no advantages, since there is nothing to compare it with."
    return f"Advantages as each mode of credit computes them for this group of {size} attempts, with default settings."


def _difference(trajectory: Trajectory, scheme: Scheme) -> str:
    """Return a note if the environment's current pay differs from the recorded one."""
    paid = scheme.total(trajectory.channels)
    if abs(paid - trajectory.reward) <= _SAME * max(1.0, abs(paid)):
        return ""
    return (
        f"The environment's current scheme gives {paid:.4g}, but {trajectory.reward:.4g} was recorded with another "
        "one. Gates and credit are those of the current scheme."
    )
