"""Stands in for `by_log` where an exported task is judged: tasks that are graded by a log cannot be exported."""

from __future__ import annotations

MANNER = "log"
FINE: tuple[str, ...] = ()
