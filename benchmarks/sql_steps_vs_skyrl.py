"""Steps per second of the SQL environment, compared with plain sqlite3 and DuckDB and with SkyRL-Gym's `text2sql`.

Our environment caches results, as databases are only read. "Groups of 8" plays every task like a GRPO group whose
members all send the same queries, which is the best case; "no repeats" plays every task once, so that only a gold query
that was also submitted comes from the cache, which is the worst. Both play the same episodes.

SkyRL-Gym 0.4.0 needs a separate environment:

    python -m venv skyrl && skyrl/bin/pip install skyrl-gym==0.4.0
    python -m benchmarks.sql_steps_vs_skyrl --peer-python skyrl/bin/python
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from agentgym.envs.sql import SQLEnv
from agentgym.messages import ToolCall, text_of
from agentgym.task import Task
from agentgym.tasks.sql.files import SpiderTasks
from benchmarks._peers import ask_peer
from benchmarks._report import Claim, interleaved, median_ratio, write
from benchmarks._sql_workload import DB_ID, PLACES, Episode, build, episodes, play_ours, play_plain

EPISODES = 40

PROBE = "SELECT city, age FROM customers WHERE age > 60 ORDER BY age DESC, id"
WRONG_ANSWERS = {
    "order": "SELECT city, age FROM customers WHERE age > 60 ORDER BY age, id",
    "duplicates": "SELECT DISTINCT city, age FROM customers WHERE age > 60 ORDER BY age DESC, id",
}
"""Wrong answers to `PROBE`, by the aspect that a grader must compare to notice."""


def ask_skyrl(python: str, request: dict[str, Any], hash_seed: str = "0") -> dict[str, Any]:
    return ask_peer(python, "_skyrl_peer.py", request, needs="skyrl-gym", environment={"PYTHONHASHSEED": hash_seed})


def run(folder: Path, peer_python: str, runs: int) -> list[dict[str, Any]]:
    work = episodes(EPISODES)
    ours = {engine: SQLEnv(tasks=SpiderTasks(folder / place, split_by="file")) for engine, place in PLACES.items()}
    files = {engine: folder / place / "database" / DB_ID / f"{DB_ID}.{engine}" for engine, place in PLACES.items()}

    def peer(played: list[Episode]) -> float:
        request = {"do": "measure", "folder": str(folder), "db_id": DB_ID, "episodes": played}
        answer = ask_skyrl(peer_python, request)
        if answer["solved"] != answer["of"]:
            sys.exit(f"SkyRL-Gym solved {answer['solved']} of {answer['of']} gold episodes")
        return answer["steps_per_s"]

    def plain_sqlite() -> sqlite3.Connection:
        return sqlite3.connect(f"file:{files['sqlite']}?mode=ro", uri=True)

    keep_open = duckdb.connect(files["duckdb"], read_only=True)
    for engine in PLACES:
        play_ours(ours[engine], work[:1], 1)
    rows = interleaved(
        runs,
        {
            "agentgym sqlite, no repeats": lambda: play_ours(ours["sqlite"], work, 1),
            "agentgym sqlite, groups of 8": lambda: play_ours(ours["sqlite"], work, 8),
            "agentgym duckdb, no repeats": lambda: play_ours(ours["duckdb"], work, 1),
            "agentgym duckdb, groups of 8": lambda: play_ours(ours["duckdb"], work, 8),
            "plain sqlite3": lambda: play_plain(plain_sqlite, work),
            "plain duckdb": lambda: play_plain(keep_open.cursor, work),
            "skyrl-gym text2sql, no repeats": lambda: peer(work * 3),
            "skyrl-gym text2sql, groups of 8": lambda: peer([episode for episode in work for _ in range(8)]),
        },
    )
    for env in ours.values():
        env.close()
    keep_open.close()
    return rows


def against(rows: list[dict[str, Any]], engine: str, played: str) -> float:
    return median_ratio(rows, f"agentgym {engine}, {played}", f"skyrl-gym text2sql, {played}")


def probes(folder: Path, peer_python: str) -> list[dict[str, Any]]:
    """Return, for both graders, whether the probes of result order, duplicates, column names and determinism pass."""
    answers = [PROBE, *WRONG_ANSWERS.values()]
    request = {"do": "probe", "folder": str(folder), "db_id": DB_ID, "sql": PROBE, "answers": answers}
    peers = [ask_skyrl(peer_python, request, seed) for seed in ("0", "1", "2")]
    theirs = {"shown": peers[0]["shown"], "earned": {a: r == 1.0 for a, r in peers[0]["earned"].items()}}
    ours = _probe_ours(folder / "spider", answers)
    connection = sqlite3.connect(folder / "spider" / "database" / DB_ID / f"{DB_ID}.sqlite")
    truth = [str(row[1]) for row in connection.execute(PROBE)]
    connection.close()
    same_text = {"agentgym": True, "skyrl-gym": len({peer["shown"] for peer in peers}) == 1}
    rows: list[dict[str, Any]] = []
    for name, found in (("agentgym", ours), ("skyrl-gym", theirs)):
        ages = [word for word in found["shown"].replace("|", " ").split() if word.isdigit()]
        shown = [age for age in ages if int(age) > 60][: len(truth)]
        verdicts = {
            "rows are shown in the query's order": shown == truth[: len(shown)] and len(shown) > 5,
            "column names are shown": "age" in found["shown"],
            "the text does not depend on PYTHONHASHSEED": same_text[name],
            "the gold query passes": found["earned"][PROBE],
            "a wrong order fails": not found["earned"][WRONG_ANSWERS["order"]],
            "missing duplicates fail": not found["earned"][WRONG_ANSWERS["duplicates"]],
        }
        rows += [{"probe": probe, "name": name, "right": right} for probe, right in verdicts.items()]
    return rows


def _probe_ours(folder: Path, answers: list[str]) -> dict[str, Any]:
    source = SpiderTasks(folder, split_by="file")
    task = Task("probe", "train", "?", data=source.get("train", 0).data, gold={"sql": PROBE, "ordered": True})
    env = SQLEnv(tasks=source, preview_rows=100)
    earned = {}
    for answer in answers:
        env.reset(options={"task": task})
        step = env.step(env.dialect.render("", [ToolCall("submit", {"answer": answer})], env.tools))
        earned[answer] = bool(step.info["is_success"])
    env.reset(options={"task": task})
    step = env.step(env.dialect.render("", [ToolCall("query", {"sql": PROBE})], env.tools))
    env.close()
    return {"shown": text_of(step.observation[-1]), "earned": earned}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has skyrl-gym==0.4.0")
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        build(folder)
        checks = probes(folder, options.peer_python)
        rows = run(folder, options.peer_python, options.runs)
        version = ask_skyrl(
            options.peer_python,
            {"do": "measure", "folder": place, "db_id": DB_ID, "episodes": episodes(1)},
        )["version"]
    right = [row["right"] for row in checks if row["name"] == "agentgym"]
    claims = [
        Claim("sql_steps_vs_skyrl_groups_of_8", against(rows, "sqlite", "groups of 8"), ">=", 15),
        Claim("sql_steps_vs_skyrl", against(rows, "sqlite", "no repeats"), ">=", 15),
        Claim("sql_steps_vs_skyrl_duckdb_groups_of_8", against(rows, "duckdb", "groups of 8"), ">=", 5),
        Claim("sql_steps_vs_skyrl_duckdb", against(rows, "duckdb", "no repeats"), ">=", 5),
        Claim("sql_steps_vs_sqlite3", median_ratio(rows, "agentgym sqlite, no repeats", "plain sqlite3"), ">=", 0.3),
        Claim("sql_steps_vs_duckdb", median_ratio(rows, "agentgym duckdb, no repeats", "plain duckdb"), ">=", 0.5),
        Claim("sql_probes_right", sum(right) / len(right), ">=", 1.0),
    ]
    write("sql_steps_vs_skyrl", [*rows, *checks], claims, packages=("duckdb",), more_versions={"skyrl-gym": version})


if __name__ == "__main__":
    main()
