"""MCPMark's Postgres tasks: a real server, a database of its own for each episode, their own scripts as judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.cli import app
from agentgym.engine.steps import StepResult
from agentgym.envs.mcpmark import MCPMarkPostgresEnv, scripts
from agentgym.errors import InfrastructureError, NoSolution, UsageError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.script import steps
from agentgym.tasks.mcpmark import MCPMarkPostgresTasks
from agentgym.tools.postgres import Server
from tests.postgres_tasks import (
    CONNECT,
    DATABASE,
    SUMMARY,
    VERIFY_SUMMARY,
    need_postgres,
    write_backup,
    write_task,
    write_tasks,
)

pytestmark = pytest.mark.postgres
need_postgres()

LATE, READER = "mcpmark/easy/library/late_summary", "mcpmark/easy/security/reader"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_tasks(tmp_path_factory.mktemp("mcpmark"))


def made(folders: tuple[Path, Path], task: str = LATE) -> MCPMarkPostgresEnv:
    env = MCPMarkPostgresEnv(folder=folders[0], backups=folders[1], split_by="test")
    env.reset(options={"task": env.tasks.find(task)})
    return env


@pytest.fixture
def env(folders: tuple[Path, Path]) -> Iterator[MCPMarkPostgresEnv]:
    env = made(folders)
    yield env
    env.close()


def do(env: MCPMarkPostgresEnv, name: str, /, **arguments: Any) -> str:
    return text_of(env.step(assistant("", [ToolCall(name, arguments)])).observation[0])


def sql(env: MCPMarkPostgresEnv, text: str) -> str:
    return do(env, "execute_sql", sql=text)


def done(env: MCPMarkPostgresEnv) -> StepResult:
    return env.step(assistant("Done."))


def test_right_work_is_worth_1_and_wrong_and_none_0(env: MCPMarkPostgresEnv):
    assert sql(env, SUMMARY) == "SELECT 3"
    ended = done(env)
    assert (ended.reward, ended.info["ending"]) == (1.0, "solved")
    for statement in ("SELECT 1", f"{SUMMARY} HAVING name <> 'Ada'"):
        env.reset(options={"task": env.tasks.find(LATE)})
        assert "Error" not in sql(env, statement)
        ended = done(env)
        assert (ended.reward, ended.info["ending"]) == (0.0, "answered")


def test_a_task_is_prepared_by_its_own_script_and_solved_by_its_own_solution(env: MCPMarkPostgresEnv):
    task = env.tasks.find(READER)
    env.reset(options={"task": task})
    assert done(env).reward == 0.0
    # Twice: roles belong to the whole server, and must not be there again.
    for _ in range(2):
        env.reset(options={"task": task})
        assert list(steps(env, env.solution(task)))[-1].reward == 1.0
    with pytest.raises(NoSolution, match=r"ground_truth\.sql"):
        list(env.solution(env.tasks.find(LATE)))


def test_work_without_an_end_is_judged_when_the_turns_are_over(folders: tuple[Path, Path]):
    env = MCPMarkPostgresEnv(folder=folders[0], backups=folders[1], split_by="test", max_turns=1)
    env.reset(options={"task": env.tasks.find(LATE)})
    ended = env.step(assistant("", [ToolCall("execute_sql", {"sql": SUMMARY})]))
    env.close()
    assert (ended.truncated, ended.reward) == (True, 1.0)


def test_what_a_database_holds_is_shown(env: MCPMarkPostgresEnv):
    assert "public (owner " in do(env, "list_schemas")
    assert do(env, "list_objects", schema_name="public") == "loans\nmembers"
    assert do(env, "list_objects", schema_name="public", object_type="view") == "late"
    assert do(env, "list_objects", schema_name="none") == "There is no table in none."
    assert do(env, "list_objects", schema_name="public", object_type="extension") == "plpgsql"
    shown = do(env, "get_object_details", schema_name="public", object_name="loans")
    for part in ("days integer not null", "PRIMARY KEY (id)", "FOREIGN KEY (member) REFERENCES", "loans_by_member"):
        assert part in shown
    sequence = {"schema_name": "public", "object_name": "loans_id_seq", "object_type": "sequence"}
    assert do(env, "get_object_details", **sequence) == "loans_id_seq: integer, starts at 1, increment 1"
    assert "Seq Scan on members" in do(env, "explain_query", sql="SELECT * FROM members")
    assert "actual time" in do(env, "explain_query", sql="SELECT * FROM members", analyze=True)


def test_results_are_bounded_and_mistakes_are_told(env: MCPMarkPostgresEnv):
    assert sql(env, "SELECT name, NULL AS n FROM members ORDER BY 1 LIMIT 1") == "name | n\nAda | NULL"
    assert sql(env, "SELECT * FROM members WHERE false") == "id | name\n(no rows)"
    assert sql(env, "SELECT 1 AS one; SELECT 2 AS two") == "two\n2"
    many = sql(env, "SELECT * FROM generate_series(1, 5000)").splitlines()
    assert (len(many), many[-1]) == (202, "(5000 rows; the first 200 are shown)")
    assert len(sql(env, "SELECT repeat('x', 3000000)")) < 50_000
    assert 'syntax error at or near "SELEC"' in sql(env, "SELEC 1")
    assert "There is no table or view public.x" in do(env, "get_object_details", schema_name="public", object_name="x")
    for statement in ("COPY members TO STDOUT", "COPY members FROM STDIN"):
        assert "not possible here" in sql(env, statement)
    assert "empty" in sql(env, " ")
    assert "`object_type`" in do(env, "list_objects", schema_name="public", object_type="index")


def test_a_statement_that_takes_too_long_is_stopped_and_the_connection_stays(folders: tuple[Path, Path]):
    env = MCPMarkPostgresEnv(folder=folders[0], backups=folders[1], split_by="test", statement_s=1.0)
    env.reset(options={"task": env.tasks.find(LATE)})
    sql(env, "SET application_name = 'mine'")
    assert "took more than 1 s" in sql(env, "SELECT pg_sleep(100)")
    assert sql(env, "SHOW application_name") == "application_name\nmine"
    env.close()


def test_a_transaction_lasts_from_call_to_call_and_counts_only_if_it_is_committed(env: MCPMarkPostgresEnv):
    sql(env, "BEGIN")
    sql(env, SUMMARY)
    assert "3" in sql(env, "SELECT count(*) FROM summary")
    assert done(env).reward == 0.0


def test_a_connection_that_the_model_ends_is_its_own_doing(env: MCPMarkPostgresEnv):
    assert "another one" in sql(env, "SELECT pg_terminate_backend(pg_backend_pid())")
    sql(env, SUMMARY)
    assert done(env).reward == 1.0


def test_the_superuser_runs_no_program_and_sees_no_file_of_this_machine(env: MCPMarkPostgresEnv, tmp_path: Path):
    (tmp_path / "secret").write_text("secret")
    assert "could not execute" in sql(env, "COPY members TO PROGRAM 'cat'")
    assert "No such file" in sql(env, f"SELECT pg_read_file('{tmp_path}/secret')")
    assert "Read-only" in sql(env, "COPY members TO '/usr/share/x'")
    for folder in ("/home", "/root", "/work", "/var"):
        assert "No such file" in sql(env, f"SELECT pg_ls_dir('{folder}')"), folder


def test_episodes_share_neither_tables_nor_roles_nor_settings(folders: tuple[Path, Path]):
    one, two = made(folders), made(folders)
    try:
        for env in (one, two):
            assert "Error" not in sql(env, "CREATE ROLE same; CREATE TABLE mine (x int); DROP VIEW late")
            assert "Error" not in sql(env, "ALTER ROLE postgres SET search_path = nowhere")
            assert "Error" not in sql(env, "ALTER SYSTEM SET work_mem = '1MB'")
        one.reset(options={"task": one.tasks.find(LATE)})
        assert do(one, "list_objects", schema_name="public") == "loans\nmembers"
        assert sql(one, "SELECT count(*) FROM pg_roles WHERE rolname = 'same'") == "count\n0"
        assert "public" in sql(one, "SHOW search_path")
        assert sql(one, "SELECT count(*) FROM pg_database WHERE datname LIKE 'mcpmark%'") == "count\n1"
    finally:
        one.close()
        two.close()


def server_of(env: MCPMarkPostgresEnv) -> Server:
    database = env._database  # pyright: ignore[reportPrivateUsage]
    assert database is not None
    return database.server


def test_a_server_that_ends_is_an_infrastructure_error_and_no_reward(env: MCPMarkPostgresEnv):
    sql(env, SUMMARY)
    server_of(env).close()
    with pytest.raises(InfrastructureError, match="ended in an episode"):
        sql(env, "SELECT 1")
    env.reset(options={"task": env.tasks.find(LATE)})
    sql(env, SUMMARY)
    server_of(env).close()
    with pytest.raises(InfrastructureError, match="server"):
        done(env)
    env.reset(options={"task": env.tasks.find(LATE)})
    sql(env, SUMMARY)
    assert done(env).reward == 1.0


def test_scripts_that_cannot_run_are_infrastructure_errors(tmp_path: Path):
    ends = "import os\nos.kill(os.getpid(), 9)\n"
    for number, verify in enumerate(("import no_such_module\n", ends)):
        folder = write_task(tmp_path / str(number), "t", verify=verify, prepare_environment_py="pass")
        env = MCPMarkPostgresEnv(folder=folder, split_by="test")
        env.reset(options={"index": 0})
        with pytest.raises(InfrastructureError, match="cannot run here"):
            done(env)
        env.close()
    folder = write_task(tmp_path / "p", "t", verify=VERIFY_SUMMARY, prepare_environment_py="raise SystemExit('broken')")
    env = MCPMarkPostgresEnv(folder=folder, split_by="test")
    with pytest.raises(InfrastructureError, match="broken"):
        env.reset(options={"index": 0})
    env.close()


BREAKS = """
try:
    cur.execute("SELECT how FROM poison")
except psycopg2.Error:
    sys.exit(1)
if cur.fetchall() == [("dies",)]:
    os.kill(os.getpid(), 9)
raise RuntimeError("ModuleNotFoundError")
"""


@pytest.mark.parametrize("how", ["dies", "cannot be told from a script that lacks a module"])
def test_work_that_keeps_the_script_from_a_verdict_is_worth_0(tmp_path: Path, how: str):
    folder = write_task(tmp_path, "t", verify=f"{CONNECT}{BREAKS}", prepare_environment_py="pass")
    env = MCPMarkPostgresEnv(folder=folder, split_by="test")
    env.reset(options={"index": 0})
    assert sql(env, f"CREATE TABLE poison AS SELECT '{how}' AS how") == "SELECT 1"
    ended = done(env)
    assert (ended.reward, ended.info["ending"]) == (0.0, "answered")
    env.close()


def test_a_script_without_an_end_is_stopped_and_so_is_what_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scripts, "_SCRIPT_S", 3.0)
    (tmp_path / "verify.py").write_text(f"{CONNECT}cur.execute('SELECT pg_sleep(600)')\n")
    server = Server.start()
    server.create_database("judged")
    with pytest.raises(InfrastructureError, match="does not end"):
        scripts.run_script(server, "judged", tmp_path / "verify.py")
    server.run("DROP DATABASE judged")  # which fails while anybody is connected
    server.close()


def from_backup(root: Path, backup: Callable[[Path], object]) -> MCPMarkPostgresEnv:
    """Return the environment of a task on `library.backup`, which `backup` writes."""
    (root / "backups").mkdir()
    backup(root / "backups/library.backup")
    folder = write_task(root, "t", verify=VERIFY_SUMMARY)
    return MCPMarkPostgresEnv(folder=folder, backups=root / "backups", split_by="test")


def test_the_planner_knows_the_tables_of_a_backup(env: MCPMarkPostgresEnv):
    assert sql(env, "SELECT reltuples FROM pg_class WHERE relname = 'loans'") == "reltuples\n300"
    assert sql(env, "SELECT n_distinct FROM pg_stats WHERE tablename = 'loans' AND attname = 'member'").endswith("\n3")


def test_a_backup_may_name_roles_of_another_server(tmp_path: Path):
    rights = "CREATE ROLE other; ALTER TABLE loans OWNER TO other; GRANT SELECT ON members TO other;"
    env = from_backup(tmp_path, lambda path: write_backup(path, f"{DATABASE}{rights}"))
    env.reset(options={"index": 0})
    sql(env, SUMMARY)
    assert done(env).reward == 1.0
    env.close()


NEEDS_ORDER = """
CREATE TABLE b_limits (most int);
CREATE FUNCTION allowed(n int) RETURNS boolean LANGUAGE sql AS 'SELECT n <= (SELECT max(most) FROM public.b_limits)';
INSERT INTO b_limits VALUES (9);
CREATE TABLE a_amounts (n int CHECK (coalesce(allowed(n), false)));
INSERT INTO a_amounts VALUES (5);
"""
"""A database whose rows cannot be restored in the order of the tables."""


def test_a_backup_of_which_rows_are_missing_is_an_infrastructure_error(tmp_path: Path):
    env = from_backup(tmp_path, lambda path: write_backup(path, NEEDS_ORDER))
    with pytest.raises(InfrastructureError, match="a_amounts"):
        env.reset(options={"index": 0})
    env.close()


def test_a_backup_of_a_newer_postgresql_says_what_to_install(tmp_path: Path):
    def newer(path: Path) -> None:
        write_backup(path, "SELECT 1")
        head = bytearray(path.read_bytes())
        head[6] = 99  # the second part of the version of the format
        path.write_bytes(head)

    env = from_backup(tmp_path, newer)
    with pytest.raises(UsageError, match=r"newer PostgreSQL .* AGENTGYM_POSTGRES"):
        env.reset(options={"index": 0})
    env.close()


def test_a_script_that_fills_another_database_is_an_infrastructure_error(tmp_path: Path):
    (tmp_path / "library.sql").write_text(f"CREATE DATABASE library;\n\\connect library\n{DATABASE}")
    folder = write_task(tmp_path, "t", verify=VERIFY_SUMMARY)
    env = MCPMarkPostgresEnv(folder=folder, backups=tmp_path, split_by="test")
    with pytest.raises(InfrastructureError, match="leaves its database empty"):
        env.reset(options={"index": 0})
    env.close()


def test_a_backup_that_cannot_be_restored_is_an_infrastructure_error(tmp_path: Path):
    for ending in ("sql", "backup"):
        backups = tmp_path / ending
        backups.mkdir()
        (backups / f"library.{ending}").write_text("no backup")
        folder = write_task(tmp_path / f"of-{ending}", "t", verify=VERIFY_SUMMARY)
        env = MCPMarkPostgresEnv(folder=folder, backups=backups, split_by="test")
        with pytest.raises(InfrastructureError, match="cannot be restored"):
            env.reset(options={"index": 0})
        env.close()


def test_tasks_without_a_database_or_for_another_service_are_left_out(tmp_path: Path):
    write_task(tmp_path, "here", verify=VERIFY_SUMMARY, prepare_environment_py="pass")
    write_task(tmp_path, "nowhere", verify=VERIFY_SUMMARY)
    write_task(tmp_path, "files", verify=VERIFY_SUMMARY, meta='{"mcp": ["filesystem"]}')
    source = MCPMarkPostgresTasks(tmp_path / "tasks", split_by="test")
    assert source.size("test") == 1
    told = " ".join(one.reason for one in source.left_out)
    assert "no library.backup" in told
    assert "only postgres is supported here" in told


def test_it_is_listed_with_what_it_plays():
    from typer.testing import CliRunner

    shown = CliRunner().invoke(app, ["tasks", "sources", "mcpmark-postgres"])
    assert "backups=postgres_state" in shown.output.replace("\n", "")
