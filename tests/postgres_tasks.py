"""Small Postgres tasks in the format of MCPMark, written here, and what they need."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentgym.errors import UsageError
from agentgym.tools.postgres import PORT, USER, Server
from agentgym.tools.postgres.confining import confinement
from agentgym.tools.postgres.programs import find_programs

DATABASE = """
CREATE TABLE members (id serial PRIMARY KEY, name text NOT NULL);
CREATE TABLE loans (id serial PRIMARY KEY, member int REFERENCES members, days int NOT NULL);
CREATE INDEX loans_by_member ON loans (member);
CREATE VIEW late AS SELECT * FROM loans WHERE days > 28;
INSERT INTO members (name) VALUES ('Ada'), ('Ben'), ('Cyd');
INSERT INTO loans (member, days) SELECT 1 + n % 3, n FROM generate_series(1, 300) AS n;
"""
CONNECT = """
import os, sys
import psycopg2

conn = psycopg2.connect(
    host=os.getenv("POSTGRES_HOST", "localhost"),
    port=int(os.getenv("POSTGRES_PORT", 5432)),
    database=os.getenv("POSTGRES_DATABASE"),
    user=os.getenv("POSTGRES_USERNAME"),
    password=os.getenv("POSTGRES_PASSWORD"),
)
conn.autocommit = True
cur = conn.cursor()
"""
_LATE = "SELECT name, count(*) AS late FROM late JOIN members m ON m.id = member GROUP BY name"
SUMMARY = f"CREATE TABLE summary AS {_LATE}"
VERIFY_SUMMARY = (
    CONNECT
    + """
try:
    cur.execute("SELECT name, late FROM summary ORDER BY name")
    sys.exit(0 if cur.fetchall() == [("Ada", 91), ("Ben", 90), ("Cyd", 91)] else 1)
except psycopg2.Error as error:
    print(error)
    sys.exit(1)
"""
)
PREPARE = CONNECT + 'cur.execute("CREATE TABLE secrets (id int, word text)")\n'
READER = "CREATE ROLE reader LOGIN; GRANT SELECT ON secrets TO reader;"
VERIFY_READER = (
    CONNECT
    + """
cur.execute("SELECT 1 FROM information_schema.table_privileges WHERE grantee = 'reader' AND table_name = 'secrets'")
sys.exit(0 if cur.fetchall() else 1)
"""
)


@cache
def why_not() -> str:
    """Why tests marked `postgres` cannot run here; empty when they can."""
    if find_spec("psycopg") is None or find_spec("psycopg2") is None:
        return "needs the [postgres] extra"
    try:
        find_programs()
        confinement(allow_weak=False)
    except UsageError as problem:
        return str(problem)
    return ""


def need_postgres() -> None:
    """Skip the test, or the module, where there is no PostgreSQL."""
    if why_not():
        pytest.skip(why_not(), allow_module_level=True)


def write_task(root: Path, name: str, *, verify: str, category: str = "library", **files: str) -> Path:
    """Write a task and return the folder of tasks. Files are by name, with `_` for the dot; `meta` is more JSON."""
    folder = root / "tasks/easy" / category / name
    folder.mkdir(parents=True)
    meta: dict[str, Any] = {"task_id": name, "category_id": category, "difficulty": "L1", "mcp": ["postgres"]}
    (folder / "meta.json").write_text(json.dumps(meta | json.loads(files.pop("meta", "{}"))))
    (folder / "description.md").write_text(f"# {name}\n\nDo it.\n")
    (folder / "verify.py").write_text(verify)
    for file, text in files.items():
        (folder / ".".join(file.rsplit("_", 1))).write_text(text)
    return root / "tasks"


def write_tasks(root: Path) -> tuple[Path, Path]:
    """Write two tasks, one on a backup and one with a script; return the folders of tasks and of backups."""
    backups = root / "backups"
    backups.mkdir()
    (backups / "library.sql").write_text(DATABASE)
    write_task(root, "late_summary", verify=VERIFY_SUMMARY)
    prepared = {"prepare_environment_py": PREPARE, "ground_truth_sql": READER}
    return write_task(root, "reader", category="security", verify=VERIFY_READER, **prepared), backups


def write_backup(path: Path, sql: str) -> None:
    """Write a backup of a database that SQL makes, as `pg_dump` does in its own format."""
    server = Server.start()
    try:
        server.create_database("dumped")
        with server.connect("dumped") as connection:
            connection.execute(sql.encode())
        reached = ["-h", str(server.folder), "-p", str(PORT), "-U", USER]
        subprocess.run([server.programs / "pg_dump", *reached, "-Fc", "-f", path, "dumped"], check=True)
    finally:
        server.close()
