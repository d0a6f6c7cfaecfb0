"""Rewards: the public names of `agentgym.core.rewards`."""

from __future__ import annotations

from agentgym.core.rewards import OUTCOME, SOLVED_AT, Channel, Gate, GateState, Scheme, Turns, check_scheme, lint

__all__ = ["OUTCOME", "SOLVED_AT", "Channel", "Gate", "GateState", "Scheme", "Turns", "check_scheme", "lint"]
