"""`MCPMarkPostgresEnv`: the Postgres tasks of MCPMark, on a real server of our own, judged by their own scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym.engine.steps import Solution
from agentgym.envs.mcpmark.databases import Database
from agentgym.envs.mcpmark.judged import JudgedEnv
from agentgym.envs.mcpmark.looking import details, objects, schemas, shown
from agentgym.envs.mcpmark.scripts import accepts
from agentgym.errors import InfrastructureError, NoSolution, UsageError, require
from agentgym.messages import ToolCall
from agentgym.rewards import OUTCOME, Channel
from agentgym.task import Task, TaskSource
from agentgym.task_files.declaring import Layout, TaskFiles
from agentgym.tasks.mcpmark import PREPARE, VERIFY, MCPMarkPostgresTasks
from agentgym.tools.postgres import ServerPool, Session, default_pool
from agentgym.toolset import tool

FILES = TaskFiles(
    argument="folder",
    loader="agentgym.tasks.mcpmark:MCPMarkPostgresTasks",
    options={
        "backups": "folder of the databases: CATEGORY.backup or CATEGORY.sql",
        "split_by": "auto or hash (the content decides), or one split: train, validation, test",
    },
    layouts=(
        Layout(
            "MCPMark",
            "tasks/postgres of its repository, and the backups that it downloads",
            "folder=tasks/postgres --set backups=postgres_state",
        ),
    ),
)


class MCPMarkPostgresEnv(JudgedEnv):
    """Work on a PostgreSQL database.

    Task: a Postgres task of MCPMark: reports, migrations, indexes, permissions, row security.
    Tools: those of the MCP server that MCPMark uses (postgres-mcp, unrestricted) which look and change: `list_schemas`,
        `list_objects`, `get_object_details`, `explain_query`, `execute_sql`. Its advice on indexes and health is not
        here.
    Observation: terse text; of a result, the first 200 rows.
    Reward: `outcome` 1 if the task's own `verify.py` accepts the database.
    Episode end: a turn without a call, or 100 turns.
    Needs: PostgreSQL and bubblewrap on this machine, and the extra `[postgres]`.
    Version history: v0, first version.

    Args:
        folder: A folder of tasks, such as `tasks/postgres` of MCPMark's repository.
        backups: The folder of the databases, `CATEGORY.backup` or `CATEGORY.sql`. Without it, only tasks with a
            `prepare_environment.py` are played.
        split_by: `"auto"`, `"hash"`, or the one split of all tasks.
        strict: Refuse a broken task, instead of leaving it out.
        statement_s: Most seconds that a call may take.
        allow_weak: Start a server that is not confined where bubblewrap does not work.
        tasks: A custom task source, instead of a folder.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = {OUTCOME: Channel("1 if the task's own script accepts the database")}
    files = FILES
    system_prompt = (
        "You work on a PostgreSQL database with the tools, as its superuser. When you are done, answer in plain text "
        "without a call: that ends the episode, and a script checks the database."
    )
    example_call = ToolCall("execute_sql", {"sql": "SELECT COUNT(*) FROM orders"})
    max_concurrent = 16

    harmless_arguments = JudgedEnv.harmless_arguments | {"statement_s"}

    def __init__(
        self,
        *,
        folder: str | Path | None = None,
        backups: str | Path | None = None,
        split_by: str | None = None,
        strict: bool = False,
        statement_s: float = 60.0,
        allow_weak: bool = False,
        tasks: TaskSource | None = None,
        **kwargs: Any,
    ):
        for module in ("psycopg", "psycopg2"):
            require(module, "postgres")
        choices = {"folder": folder, "backups": backups, "split_by": split_by, "strict": strict}
        super().__init__(tasks=FILES.source(tasks, choices), **kwargs)
        if not statement_s > 0:
            raise UsageError(f"statement_s must be above 0, not {statement_s!r}")
        self._statement_s, self._allow_weak = statement_s, allow_weak
        self._database: Database | None = None
        self._session: Session | None = None

    def prepare(self, task: Task) -> None:
        """Make the database of the episode."""
        self._database = self._made(task)
        self._session = Session(self._database.server, self._database.name)

    def accepts(self) -> bool:
        """Return whether the task's script accepts the database; it runs after the agent's connection is closed.

        A script that gives a verdict on an untouched database, but none on the agent's, does not accept that.

        Raises:
            InfrastructureError: The server fails, or the script without the agent's doing.
        """
        self._opened.close()
        verdict = self._verdict_or_none()
        if verdict is None:
            self._check_untouched()
            verdict = self._verdict_or_none()  # once more, since what broke it may be over
        return verdict is True

    @tool
    def list_schemas(self) -> str:
        """List all schemas in the database."""
        return schemas(self._opened)

    @tool
    def list_objects(self, schema_name: str, object_type: str = "table") -> str:
        """List objects in a schema.

        Args:
            schema_name: The schema.
            object_type: 'table', 'view', 'sequence', or 'extension'.
        """
        return objects(self._opened, schema_name, object_type)

    @tool
    def get_object_details(self, schema_name: str, object_name: str, object_type: str = "table") -> str:
        """Show detailed information about a database object.

        Args:
            schema_name: The schema.
            object_name: The object.
            object_type: 'table', 'view', 'sequence', or 'extension'.
        """
        return details(self._opened, schema_name, object_name, object_type)

    @tool(max_chars=20_000)
    def explain_query(self, sql: str, analyze: bool = False) -> str:
        """Show the execution plan for a SQL query, with cost estimates.

        Args:
            sql: The query.
            analyze: Run the query, and show what it really took.
        """
        return shown(self._opened.run(f"EXPLAIN {'(ANALYZE) ' if analyze else ''}{sql}", self._statement_s))

    @tool(max_chars=40_000)
    def execute_sql(self, sql: str) -> str:
        """Execute any SQL. Settings and transactions last from call to call.

        Args:
            sql: One or several statements; the result of the last one is shown.
        """
        return shown(self._opened.run(sql, self._statement_s))

    def solution(self, task: Task) -> Solution:
        """Run the task's `ground_truth.sql`. Raises `NoSolution` if it has none."""
        if "solution" not in task.gold:
            raise NoSolution(f"task {task.id!r} has no solution of its own (ground_truth.sql)")
        yield ToolCall("execute_sql", {"sql": task.gold["solution"]})
        yield "Done."

    def release(self) -> None:
        """Remove the database, and give the server back."""
        database, session = self._database, self._session
        self._database = self._session = None
        if session is not None:
            session.close()
        if database is not None:
            database.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_database": None, "_session": None}

    @property
    def _source(self) -> MCPMarkPostgresTasks:
        if not isinstance(self.tasks, MCPMarkPostgresTasks):
            raise UsageError(f"the scripts of the tasks are unknown; pass {self.needs}")
        return self.tasks

    @property
    def _pool(self) -> ServerPool:
        return default_pool(allow_weak=self._allow_weak)

    @property
    def _opened(self) -> Session:
        assert self._session is not None
        return self._session

    def _made(self, task: Task) -> Database:
        """Make a database as the task begins with it."""
        source = self._source
        return Database.make(self._pool, source.backup(task), source.folder(task) / PREPARE)

    def _verdict_or_none(self) -> bool | None:
        """Return what the script says of the database, if anything. Raises `InfrastructureError` without a server."""
        assert self._database is not None
        try:
            return self._judged(self._database)
        except InfrastructureError:
            if not self._database.server.is_alive():
                raise
            return None

    def _judged(self, database: Database) -> bool:
        return accepts(database.server, database.name, self._source.folder(self.task) / VERIFY)

    def _check_untouched(self) -> None:
        """Raise `InfrastructureError` if the script gives no verdict on the initial database either."""
        initial = self._made(self.task)
        try:
            self._judged(initial)
        finally:
            initial.close()
