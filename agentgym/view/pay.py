"""What a trajectory was paid and why: raw channels, gates and what decided them, credit, advantages. As JSON data.

The environment's scheme is needed, so the environment is made, as far as a recording may choose one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from agentgym.errors import AgentGymError
from agentgym.loading import load_named
from agentgym.registry import class_of, make
from agentgym.rewards import GateState, Scheme
from agentgym.rooms import ADVANTAGES
from agentgym.task_files.arguments import recorded_arguments, refuse_class
from agentgym.trajectory import Trajectory

_SAME = 1e-6
"""Difference up to which a reward is the recorded one."""


@dataclass(frozen=True)
class Problem:
    """Why a scheme is not known."""

    reason: str


class Schemes:
    """The reward schemes of environments, by their id and arguments; each environment is made once.

    Args:
        trust: Accept any class and any argument from a recording.
    """

    def __init__(self, *, trust: bool = False):
        self._trust = trust
        self._known: dict[str, Scheme | Problem] = {}

    def of(self, trajectory: Trajectory) -> Scheme | Problem:
        """Return the scheme of a trajectory's environment, or why it is not known."""
        key = json.dumps([trajectory.env_id, trajectory.env_kwargs], sort_keys=True)
        if key not in self._known:
            self._known[key] = self._make(trajectory)
        return self._known[key]

    def _make(self, trajectory: Trajectory) -> Scheme | Problem:
        try:
            arguments = trajectory.env_kwargs
            if not self._trust:
                refuse_class(trajectory.env_id, "the recording")
                arguments = recorded_arguments(class_of(trajectory.env_id), arguments, {}, "the recording")
            env = make(trajectory.env_id, **arguments)
        except Exception as error:  # whatever the code of an environment raises
            return Problem(f"the environment {trajectory.env_id!r} cannot be made: {_without_advice(error)}")
        try:
            return env.scheme
        finally:
            env.close()


def _without_advice(error: Exception) -> str:
    text = str(error).partition("; if you trust it")[0]
    return text if isinstance(error, AgentGymError) else f"{type(error).__name__}: {text}"


def pays_of(group: Sequence[Trajectory], schemes: Schemes, *, compared: bool = True) -> list[dict[str, Any]]:
    """Return what each attempt at a task was paid, turn by turn, and its advantages; or `{"problem": reason}`.

    Args:
        group: All attempts at the task, in the same environment.
        schemes: The schemes of environments.
        compared: Whether these are all attempts, so that advantages can be computed.
    """
    scheme = schemes.of(group[0])
    if isinstance(scheme, Problem):
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
    """Return what a trajectory was paid, with the advantages that it was trained on if they were annotated.

    Args:
        pay: One of the results of `pays_of`.
        credit: The annotation of that kind, if there is one.
        turns: Number of turns in which the model acted.
    """
    values = credit.get("advantages") if isinstance(credit, dict) else None
    if "problem" in pay or not isinstance(values, list) or len(values) != turns:
        return pay
    if not all(type(one) in (int, float) for one in values):
        return pay
    mode = f"{credit.get('mode', 'unknown')}, as trained" if isinstance(credit, dict) else ""
    return {**pay, "modes": {mode: values}, "about": "Advantages are those that the trainer used."}


def _settings(scheme: Scheme) -> dict[str, Any]:
    return {
        "scheme": {"weights": dict(scheme.weights), "averaged": sorted(scheme.averaged), "capped": dict(scheme.capped)},
        "gates": [asdict(gate) for gate in scheme.gates],
    }


def _turns(trajectory: Trajectory, scheme: Scheme) -> list[dict[str, Any]]:
    gated, states = scheme.trace(trajectory.channels)
    credited = scheme.contributions(trajectory.channels)
    return [
        {"raw": turn.rewards, "gated": kept, "credited": paid, "paid": sum(paid.values()), "gates": _states(state)}
        for turn, kept, paid, state in zip(trajectory.turns, gated, credited, states, strict=True)
    ]


def _states(states: Sequence[GateState]) -> list[dict[str, Any]]:
    return [{"value": state.value if isfinite(state.value) else None, "open": state.open} for state in states]


def _about(size: int, compared: bool) -> str:
    if not compared:
        return "The group is too large to compute advantages here."
    if size < 2:
        return "There are no advantages: a single attempt has nothing to be compared with."
    return f"Advantages are what each mode of credit would give in this group of {size} attempts, by default settings."


def _difference(trajectory: Trajectory, scheme: Scheme) -> str:
    """Return a sentence if the environment pays something else today than what was recorded."""
    paid = scheme.total(trajectory.channels)
    if abs(paid - trajectory.reward) <= _SAME * max(1.0, abs(paid)):
        return ""
    return (
        f"The environment's scheme gives {paid:.4g}, but {trajectory.reward:.4g} was recorded: it was another scheme "
        "then. Gates and credit are those of today's."
    )
