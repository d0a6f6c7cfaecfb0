"""The doctor names golds that the data do not determine, and measures the grader on right and wrong answers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.core.task import Task
from agentgym.envs.sql import SQLEnv
from agentgym.envs.sql.doctor import doubts
from agentgym.eval.suites.doctor import altered, examine, respelt
from agentgym.eval.suites.loading import sets_of_env
from agentgym.rollout import EnvFactory
from agentgym.tasks.sql import SQLTasks
from agentgym.tools.database import open_file
from tests.refusals import sampled

SCRIPT = """
CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO teams VALUES (1, 'Reds'), (2, 'Blues'), (3, 'Greens');
CREATE TABLE players (id INTEGER PRIMARY KEY, team INTEGER REFERENCES teams(id), name TEXT, age INTEGER, number TEXT,
    pay REAL);
INSERT INTO players VALUES (1, 1, 'Ann', 30, '9', 0.1), (2, 1, 'Bob', 30, '10', 0.2), (3, 2, 'Cy', NULL, '7', 0.3),
    (4, 2, 'Dee', 41, '23', 0.3);
"""
JOINED = "FROM teams AS t JOIN players AS p ON t.id = p.team"
DOUBTFUL = {
    "tie at LIMIT": (
        "Who is a player of the lowest known age?",
        "SELECT name FROM players WHERE age > 0 ORDER BY age LIMIT 1",
    ),
    "row order": ("What are the names?", "SELECT GROUP_CONCAT(name) FROM players"),
    "NULL order": ("Who is youngest?", "SELECT name FROM players ORDER BY age LIMIT 1"),
    "numbers as text": ("Who has the highest number?", "SELECT name FROM players ORDER BY number DESC LIMIT 1"),
    "rows without partners": (
        "How many players are in each team?",
        f"SELECT t.name, COUNT(p.id) {JOINED} GROUP BY t.id",
    ),
    "no order": ("List the names in alphabetical order.", "SELECT name FROM players"),
    "duplicates": ("What are the teams of players over 20?", "SELECT team FROM players WHERE age > 20"),
    "clock or chance": (
        "Who is older than the year?",
        "SELECT name FROM players WHERE age > strftime('%Y', 'now') - 2000",
    ),
    "rounding": ("Which teams pay 0.3 or less?", "SELECT team FROM players GROUP BY team HAVING SUM(pay) <= 0.1 + 0.2"),
}
"""A question and its gold, by the doubt about it."""
SETTLED = [
    ("Who is a player of the highest age?", "SELECT name FROM players WHERE age > 0 ORDER BY age DESC LIMIT 1"),
    ("Who is youngest?", "SELECT name FROM players WHERE age > 0 ORDER BY age, id LIMIT 1"),
    ("Who has the highest number?", "SELECT name FROM players ORDER BY CAST(number AS INTEGER) DESC LIMIT 1"),
    ("How many are in each team? Leave out teams without players.", f"SELECT t.name, COUNT(*) {JOINED} GROUP BY t.id"),
    (
        "How many are in each team?",
        "SELECT t.name, COUNT(p.id) FROM teams t LEFT JOIN players p ON t.id = p.team GROUP BY 1",
    ),
    (
        "Which team has most players over 20?",
        f"SELECT t.name {JOINED} WHERE age > 20 GROUP BY t.id ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    ("List the names in alphabetical order.", "SELECT name FROM players ORDER BY name"),
    ("What are the different teams?", "SELECT DISTINCT team FROM players"),
    ("Which teams have at least 2 players?", "SELECT team FROM players GROUP BY team HAVING COUNT(*) >= 2"),
    ("Which teams pay more than 0.5?", "SELECT team FROM players GROUP BY team HAVING SUM(pay) > 0.5"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "database" / "league").mkdir(parents=True)
    with closing(sqlite3.connect(tmp_path / "database" / "league" / "league.sqlite")) as connection:
        connection.executescript(SCRIPT)
    rows = [{"db_id": "league", "question": question, "query": sql} for question, sql in SETTLED]
    (tmp_path / "test.json").write_text(json.dumps(rows))
    return tmp_path


def kinds_of(question: str, sql: str, folder: Path) -> set[str]:
    task = Task("t", "test", question, data={"dialect": "sqlite"}, gold={"sql": sql, "ordered": "ORDER BY" in sql})
    with closing(open_file(folder / "database" / "league" / "league.sqlite", "sqlite")) as database:
        return {doubt.kind for doubt in doubts(task, database, database.query)}


def test_golds_that_the_data_do_not_determine_are_named(folder: Path):
    named = {kind: kinds_of(question, sql, folder) for kind, (question, sql) in DOUBTFUL.items()}
    assert {kind: kinds for kind, kinds in named.items() if kind not in kinds} == {}
    assert {sql: kinds for question, sql in SETTLED if (kinds := kinds_of(question, sql, folder))} == {}


@sampled(8, 150)
def test_generated_golds_are_determined_by_their_data(count: int):
    for engine in ("duckdb", "sqlite"):
        [tasks] = sets_of_env(EnvFactory("sql", {"engine": engine}), ["train"], count)
        examination = examine(tasks)
        assert (examination.doubts, examination.not_examined) == ([], [])
        assert examination.verdicts == []


def test_a_task_that_breaks_is_not_examined():
    [tasks] = sets_of_env(EnvFactory("sql", {}), ["train"], 2)
    broken, fine = tasks.tasks
    examination = examine(replace(tasks, tasks=[replace(broken, gold={**broken.gold, "sql": "SELECT"}), fine]))
    assert examination.not_examined == [broken.id]
    assert examination.right > 0


def test_averages_say_which_rows_count():
    env = SQLEnv(families=["average", "average_where", "best_child_of_each", "count_per_year"])
    tasks = [env.tasks.get("train", index) for index in range(40)]
    for task in tasks:
        assert isinstance(env.tasks, SQLTasks)
        column = task.gold["columns"][0]
        [table, *_] = [table for table in env.tasks.database(task).tables if table.name == task.gold["tables"][0]]
        if "average" in task.tags[0]:
            place = [c.name for c in table.columns].index(column)
            misses = any(row[place] is None for row in table.rows)
            assert ("out of the average" in task.prompt) == misses, task.prompt
        else:
            assert any(words in task.prompt for words in ("leaving out", "eave out", "without", "occurs")), task.prompt


def test_answers_are_respelt_and_altered():
    assert respelt("Zoë's 12")["decomposed accents"] != "Zoë's 12"
    assert respelt("1203000")["thousands separated"] == "1,203,000"
    assert altered("19.5")["the next number"] == "20.5"
    assert altered("2.5 km")["ten times as much"] == "25.0 km"
    assert altered("Port Veld")["another order"] == "Veld Port"
    for text in ("", "7", "0", "-3", "Ann", "a b"):
        assert text not in (*respelt(text).values(), *altered(text).values()), text


def test_the_command_reports_doubts_and_rates(folder: Path):
    words = ["tasks", "validate", "sql", "--set", f"folder={folder}", "--no-gold", "--doctor", "--split", "test"]
    done = CliRunner().invoke(app, [*words, "--json"])
    [found] = json.loads(done.stdout)["examinations"].values()
    assert (found["doubts"], found["false_reject_rate"], found["not_examined"]) == ([], 0.0, [])
    assert found["right_answers"] > 20
    question, sql = DOUBTFUL["tie at LIMIT"]
    (folder / "test.json").write_text(json.dumps([{"db_id": "league", "question": question, "query": sql}]))
    printed = " ".join(CliRunner().invoke(app, words).stdout.split())
    assert "tie at LIMIT (1 task): test: test/0" in printed
    assert "0 of 5 right answers refused" in printed
