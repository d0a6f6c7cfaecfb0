"""`CreditMode`, apart from `credit`, whose numpy the help of `agentgym train` does not need."""

from __future__ import annotations

from enum import StrEnum


class CreditMode(StrEnum):
    """How rewards become advantages."""

    OUTCOME = "outcome"
    GATED = "gated"
    TURN = "turn"
