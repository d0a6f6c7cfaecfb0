"""What the charts of the first page show. `data/query.js` computes the same for a report in one file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import fmean, median
from typing import Any, TypeVar

from agentgym.statistics import task_interval
from agentgym.view.rows import Row

K = TypeVar("K", bound=Hashable)


def overview(rows: Sequence[Row]) -> dict[str, Any]:
    """Return figures of rows as JSON data. Failed trajectories count in `count`, `failed` and `endings` only."""
    played = [row for row in rows if not row["failed"]]
    stepped = [row for row in played if row["step"] is not None]
    return {
        "count": len(rows),
        "failed": len(rows) - len(played),
        "all": rate(played),
        "means": {name: _mean(row[name] for row in played) for name in ("reward", "turns", "sampled", "seconds")},
        "generation": _generation(played),
        **{by: _rates(played, by) for by in ("difficulty", "env", "policy", "file")},
        "turns": [
            [turns, sum(row["success"] for row in some), sum(not row["success"] for row in some)]
            for turns, some in _sorted(played, lambda row: row["turns"])
        ],
        "endings": _endings(rows),
        "channels": _channels(played),
        "steps": _rates(stepped, "step"),
    }


def rate(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how often tasks were solved: the mean over tasks of the share of attempts, as `Summary` has it.

    Its 95 % interval takes no draws (`task_interval`), since the page computes it for every bar.
    """
    tasks = _groups(rows, lambda row: (row["file"], row["env"], row["policy"], row["task"]))
    shares = [fmean(row["success"] for row in group) for group in tasks.values()]
    distinct = {(row["env"], row["task"]) for row in rows}
    interval = task_interval(shares, len(rows)) if shares else None
    return {"rate": _mean(shares), "interval": interval, "attempts": len(rows), "tasks": len(distinct)}


def _rates(rows: Sequence[Row], by: str) -> list[dict[str, Any]]:
    """Return the series of a chart: the name of each, and its rates by the values of a column, in order."""
    return [
        {"name": name, "values": [[value, rate(some)] for value, some in _sorted(part, lambda row: row[by])]}
        for name, part in _groups(rows, _series(rows, by)).items()
    ]


def _series(rows: Sequence[Row], by: str) -> Callable[[Row], str]:
    """Return what tells the series of a chart apart: the policies, or the files if there is one policy."""
    if by in ("policy", "file"):
        return lambda row: ""
    name = "policy" if len({row["policy"] for row in rows}) > 1 else "file"
    return lambda row: row[name]


def _generation(rows: Sequence[Row]) -> dict[str, float] | None:
    """Return medians over episodes of the time that their turns waited: for the policy, the environment, the share."""
    timed = [row for row in rows if row["generation"] is not None and row["generation"] + row["environment"] > 0]
    if not timed:
        return None
    return {
        "policy": median(row["generation"] for row in timed),
        "environment": median(row["environment"] for row in timed),
        "share": median(row["generation"] / (row["generation"] + row["environment"]) for row in timed),
    }


def _endings(rows: Sequence[Row]) -> list[list[Any]]:
    found = [
        [reason, some[0]["ending"], len(some)] for reason, some in _groups(rows, lambda row: row["reason"]).items()
    ]
    return sorted(found, key=lambda one: (-one[2], str(one[0])))


def _channels(played: Sequence[Row]) -> list[list[Any]]:
    """Return the mean total of each channel, over solved episodes and over the others."""
    names = dict.fromkeys(name for row in played for name in row["channels"])
    solved = [row["channels"] for row in played if row["success"]]
    others = [row["channels"] for row in played if not row["success"]]
    return [[name, *(_mean(one[name] for one in some if name in one) for some in (solved, others))] for name in names]


def _groups(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, list[Row]]:
    found: dict[K, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _sorted(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[tuple[Any, list[Row]]]:
    return sorted(_groups(rows, key).items(), key=lambda item: item[0])


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
