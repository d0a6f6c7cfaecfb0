"""Faults that are none: the program does the same, or what it does otherwise nobody is promised."""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A mutant that no test should notice. Named by what its line says, so that it is found again after edits."""

    file: str
    line: str
    becomes: str | None
    """`None` where nothing that the line may say instead can be noticed."""
    why: str


_GRADING = "envs/sql/grading.py"
_BOUND_ON_WORK = "a bound on how long is searched, far beyond any real result; one more or less changes no grade"

EQUIVALENT = (
    Equivalent(_GRADING, "tries = 0", "tries = 1", _BOUND_ON_WORK),
    Equivalent(_GRADING, "tries = 0", "tries = -1", _BOUND_ON_WORK),
    Equivalent(_GRADING, "_MAX_TRIES = 2_000", "_MAX_TRIES = 2001", _BOUND_ON_WORK),
    Equivalent(_GRADING, "_MAX_TRIES = 2_000", "_MAX_TRIES = 1999", _BOUND_ON_WORK),
    Equivalent(
        _GRADING,
        "if i in chosen or mine.columns[i] in seen or tries >= _MAX_TRIES:",
        "if i in chosen or mine.columns[i] in seen or tries > _MAX_TRIES:",
        _BOUND_ON_WORK,
    ),
    Equivalent(
        _GRADING,
        "if ordered or len(chosen) == 1:",
        "if ordered or len(chosen) == 0:",
        "a short cut: one chosen column has been compared already, and comparing it again finds the same",
    ),
    Equivalent(
        "trainers/credit.py",
        "if count and len(earned) > count:",
        "if count or len(earned) > count:",
        "where only one of the two holds, nothing is added to any turn that is returned",
    ),
    Equivalent(
        "trainers/credit.py",
        "if count and len(earned) > count:",
        "if count and len(earned) >= count:",
        "the sum of no turns is added",
    ),
    Equivalent(
        "trainers/batches.py",
        '"env_seed": draw.getrandbits(31),',
        None,
        "a bit more or less leaves seeds as unlikely to meet",
    ),
    Equivalent(
        "agentgym/statistics.py",
        "powers = [2**exponent for exponent in range(attempts.bit_length()) if 2**exponent <= attempts]",
        "powers = [2**exponent for exponent in range(attempts.bit_length()) if 2**exponent < attempts]",
        "the number of attempts itself is added in any case",
    ),
    Equivalent(
        "agentgym/rollout.py",
        "await asyncio.sleep(min(0.05 * 2 ** (attempt - 1), 1.0))",
        None,
        "how long is waited between two tries is a courtesy to what broke; it changes no result",
    ),
    Equivalent(
        "agentgym/rewards.py",
        "return 0.0, 0.0",
        "return 1.0, 0.0",
        "of a failed episode only the greatest pay is used, which is the second number",
    ),
    Equivalent(
        "agentgym/rewards.py",
        "return 0.0, 0.0",
        "return -1.0, 0.0",
        "of a failed episode only the greatest pay is used, which is the second number",
    ),
    Equivalent(
        "agentgym/history.py",
        'if index < old_until and message.get("role") in ("user", "tool")',
        'if index <= old_until and message.get("role") in ("user", "tool")',
        "the message at that place is the policy's own",
    ),
    Equivalent(
        "agentgym/history.py",
        "_shortened(message, index < task_until, max_chars)",
        "_shortened(message, index <= task_until, max_chars)",
        "the message at that place is the policy's own",
    ),
)
