"""`SQLEnv`: answer a question about a database by looking at its tables, querying it and submitting an answer.

Databases come from `agentgym.tools.database` (DuckDB or SQLite, locked down there), questions from
`agentgym.tasks.sql` or a folder of files, the verdict from `grading`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from agentgym.base.choices import one_of
from agentgym.base.errors import BrokenTask, ToolError, UsageError
from agentgym.core.answers.written import ROUNDING
from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Gate, Scheme
from agentgym.core.task import Task, TaskSource
from agentgym.core.toolset import tool
from agentgym.envs.sql.exporting import sql_folder
from agentgym.envs.sql.options import FILES, SQLArguments, at_least, query_limits, task_source
from agentgym.envs.sql.recall import Recall
from agentgym.envs.sql.references import Schema, linking
from agentgym.envs.sql.show import show_schema, show_table
from agentgym.envs.sql.ties import match_up_to_ties, other_golds
from agentgym.envs.sql.verdict import GRADING_LIMITS, query_in, verdict_on_rows, verdict_on_value
from agentgym.procedural import Wording
from agentgym.tasks.exporting import HarborFolder
from agentgym.tasks.sql import ENGINE_KEY, SQLTasks, database_for
from agentgym.tasks.sql.files import SpiderTasks
from agentgym.tools.database import Database, QueryError, QueryLimits, QueryResult, open_database, open_file
from agentgym.tools.database.sqlite.files import serialized

if TYPE_CHECKING:
    from agentgym.eval.suites.doctor import AnswerCase, Doubt

ShowSchema = Literal["tools", "prompt"]
SolutionStyle = Literal["full", "short", "direct"]

RECALL = Recall()
"""Query results cached in this process."""
_SCHEMAS: dict[Hashable, tuple[str, Schema]] = {}
"""Schemas cached in this process, as text and as names, by database."""

_NAMES = {"duckdb": "DuckDB", "sqlite": "SQLite"}
_PLAIN_PROMPT = (
    "Answer the question about the database. Look at its tables, query it (read-only), then submit. Numbers may be "
    "rounded to two decimals."
)
_OPENINGS: Mapping[Wording, tuple[str, str]] = {
    "natural": ("{question}\n\nThe database runs on {engine}.", " Its tables are:\n"),
    "plain": ("{question}\nSQL dialect: {engine}", "\n"),
}
"""The opening message of each wording, and the text between it and the schema."""


class SQLEnv(Env):
    """Answer a question about a database.

    Task: a question, a database, and a gold query that the policy never sees.
    Tools: `list_tables()`, `describe_table(table)`, `query(sql)`, `submit(answer)`.
    Observation: terse text; `query` shows typed column names, the first rows and how many there are.
    Reward: `outcome` 1 if the submitted query's result (or the submitted value) matches the gold's. Episodes that
        submit an answer are also paid for reading few but the right tables and columns, and then for a partly right
        result; those that are solved, for readable actions and calls that run (gates as in G-RA, arXiv 2508.10548).
    Episode end: an answer is submitted (a query that fails to run may be corrected), or 8 turns have passed.
    Version history: v0, first version.

    Args:
        engine: `"duckdb"`, `"sqlite"` or `"mixed"` (either, by task); `"duckdb"` if not given. For a folder, the
            engine to convert its databases to, `"duckdb"` or `"sqlite"`; by default each keeps its own.
        difficulty: Level or levels of the generated questions, 1 to 5; all if not given.
        families: Names of question families; all if not given.
        domains: Names of domains; all if not given.
        databases_per_domain: Number of databases per domain.
        task_seed: Other seeds give other questions about other databases.
        folder: A Spider- or BIRD-style folder to take questions from instead (`agentgym.tasks.sql.files`).
        split_by: How to split these questions: `"auto"`, `"file"`, `"hash"`, or the one split that they all belong to.
        unseen: Share of the databases whose questions form the split `test_unseen`.
        keep_degenerate: Keep questions of the folder that an empty or constant query answers; by default they are left
            out.
        strict: Refuse a folder with a broken question, instead of leaving the question out.
        show_schema: `"tools"`: the policy looks up tables and columns. `"prompt"`: the opening message lists them.
        preview_rows: Rows that `query` shows.
        sample_rows: Rows that `describe_table` shows.
        limits: Bounds on a query (`QueryLimits`, or its fields by name).
        solution_style: Style of `solution`: `"full"` inspects tables first, `"short"` queries and submits,
            `"direct"` submits at once.
        wording: `"natural"`, or `"plain"`: the few words that very small models can learn, in prompts and questions.
        tasks: A custom task source, instead of the choices above.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = {
        OUTCOME: Channel("1 if the submitted answer is right"),
        "format": Channel("1 if the action parsed and its arguments were valid", per_turn=True, cheap=True),
        "executed": Channel("1 if the call ran without an error", per_turn=True, cheap=True),
        "linking": Channel(
            "1 if solved, else the overlap of the tables and columns that the last and the gold query read"
        ),
        "partial": Channel("similarity of the submitted result to the gold result; 1 only if they match"),
        "submitted": Channel("1 if an answer was submitted", cheap=True),
    }
    files = FILES
    scheme = Scheme(
        weights={OUTCOME: 1.0, "format": 0.05, "executed": 0.05, "linking": 0.1, "partial": 0.2},
        gates=(
            Gate(on="submitted", at_least=1.0, opens=("linking", "partial")),
            # A constant may equal a cell of the gold, and the question names some columns: neither takes any work.
            Gate(on="linking", at_least=0.8, opens=("linking", "partial")),
            Gate(on=OUTCOME, at_least=1.0, opens=("format", "executed")),
        ),
        averaged=frozenset({"format", "executed"}),
    )
    system_prompt = (
        "Answer the user's question about a database: look at its tables, try queries, then submit the query whose "
        "result is the answer, with just the columns that are asked for. The order of rows counts only if the question "
        f"asks for one. {ROUNDING} The first answer that runs is final."
    )
    states_turns = True
    example_call = ToolCall("query", {"sql": "SELECT COUNT(*) FROM tickets"})
    max_turns = 8

    harmless_arguments = Env.harmless_arguments | {
        "engine",
        "difficulty",
        "families",
        "domains",
        "databases_per_domain",
        "task_seed",
        "split_by",
        "unseen",
        "keep_degenerate",
        "strict",
        "show_schema",
        "preview_rows",
        "sample_rows",
        "solution_style",
        "wording",
    }

    def __init__(
        self,
        *,
        show_schema: ShowSchema = "tools",
        preview_rows: int = 10,
        sample_rows: int = 3,
        limits: QueryLimits | Mapping[str, Any] | None = None,
        solution_style: SolutionStyle = "full",
        wording: Wording = "natural",
        tasks: TaskSource | None = None,
        **kwargs: Unpack[SQLArguments],
    ):
        choices, others = FILES.divide(kwargs)
        self.wording: Wording = one_of("wording", wording, get_args(Wording))
        super().__init__(tasks=task_source(tasks, choices, self.wording), **others)
        if self.wording == "plain":
            self.system_prompt, self.states_turns, self.example_call = _PLAIN_PROMPT, False, None
        self.show_schema: ShowSchema = one_of("show_schema", show_schema, get_args(ShowSchema))
        self.solution_style: SolutionStyle = one_of("solution_style", solution_style, get_args(SolutionStyle))
        self._preview_rows = at_least("preview_rows", preview_rows, 1)
        self._sample_rows = at_least("sample_rows", sample_rows, 0)
        self._limits = query_limits(limits)
        self._database: Database | None = None
        self._opened: Hashable = None
        self._opened_for: Task | None = None
        self._identity: Hashable = None
        self._last_query = self._decision = ""

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return generated questions of all levels and domains, in DuckDB's SQL."""
        return SQLTasks()

    def start(self, task: Task) -> str:
        """Return the question, the database engine and, if `show_schema` asks for it, the schema."""
        self._last_query = self._why_wrong = self._decision = ""
        form, schema_form = _OPENINGS[self.wording]
        opening = form.format(question=task.prompt, engine=_NAMES[task.data[ENGINE_KEY]])
        return opening + (schema_form + self._schema()[0] if self.show_schema == "prompt" else "")

    @tool
    def list_tables(self) -> str:
        """List the names of the tables."""
        names = ", ".join(self.database.tables())
        self.reward("executed", 1.0)
        return names

    @tool
    def describe_table(self, table: str) -> str:
        """Show the columns, types, keys and first rows of a table.

        Args:
            table: Name of the table.
        """
        info = self.database.describe(table, self._sample_rows)
        self.reward("executed", 1.0)
        return show_table(info)

    @tool
    def query(self, sql: str) -> str:
        """Run a read-only SQL query and show the first rows of its result.

        Args:
            sql: One SELECT statement.
        """
        preview = RECALL.preview(self.database, self._identity, sql, self._limits, self._preview_rows)
        self._last_query = sql
        self.reward("executed", 1.0)
        return preview

    @tool
    def submit(self, answer: str) -> str:
        """Give the final answer.

        Args:
            answer: A query, or the value itself (in quotes if it begins like a query).
        """
        if not answer.strip():
            raise ToolError("The answer is empty. Submit a query or a value.")
        gold, ordered = self._gold(), bool(self.task.gold["ordered"])
        query, question = query_in(answer, self.task.data[ENGINE_KEY]), self.task.prompt
        if query is not None:
            result = self._run_submitted(query)
            self._last_query = query
            verdict = verdict_on_rows(
                result, gold, ordered, question, lambda fewest: self._matches_up_to_ties(result, gold, ordered, fewest)
            )
        else:
            verdict = verdict_on_value(answer, gold, ordered, question)
            if verdict.refused:
                raise ToolError(verdict.refused)
        self._why_wrong, self._decision = verdict.why_wrong, verdict.rule.value
        self._settle_answer(verdict.solved, verdict.similarity)
        return "Submitted."

    def details(self) -> dict[str, Any]:
        """Return the rule that decided on the answer, and how a wrong answer differs from the gold."""
        decision = {"decision": self._decision} if self._decision else {}
        return decision | ({"why_wrong": self._why_wrong} if self._why_wrong else {})

    def solution(self, task: Task) -> Solution:
        """Inspect the needed tables, run the intermediate steps and the gold query, and submit the gold query."""
        gold = task.gold["sql"]
        if self.solution_style == "full":
            yield ToolCall("list_tables")
            for table in task.gold.get("tables", ()):
                yield ToolCall("describe_table", {"table": table})
        if self.solution_style != "direct":
            for step in task.gold.get("steps", ()):
                yield ToolCall("query", {"sql": step})
            yield ToolCall("query", {"sql": gold})
        yield ToolCall("submit", {"answer": gold})

    def doubts(self, task: Task) -> Iterator[Doubt]:
        """Yield the reasons why the database may not determine the gold (`agentgym tasks validate --doctor`)."""
        from agentgym.envs.sql import doctor

        return doctor.doubts(task, self.database, lambda sql: self._ask(sql, GRADING_LIMITS))

    def answer_cases(self, task: Task) -> Iterator[AnswerCase]:
        """Yield right and wrong answers, to measure the grader."""
        from agentgym.envs.sql import doctor

        return doctor.answer_cases(task, self._gold(), lambda sql: self._ask(sql, GRADING_LIMITS))

    def harbor_folder(self, task: Task) -> HarborFolder:
        """Return a task as a Harbor task folder. Raises `UsageError` unless it is on SQLite, which Python includes."""
        if task.data[ENGINE_KEY] != "sqlite":
            raise UsageError(
                f"task {task.id!r} runs on DuckDB, which is not part of Python; for tasks on SQLite, pass engine=sqlite"
            )
        named = "file" not in task.data
        database, _ = self._open(task)
        with closing(database):
            others = other_golds(task.gold["sql"], "sqlite", lambda sql: database.query(sql, GRADING_LIMITS))
        return sql_folder(task, serialized(database_for(task.data) if named else self._file(task)), others)

    @property
    def database(self) -> Database:
        """The current task's database, opened when first needed."""
        task = self.task
        if self._database is None or (self._opened_for is not task and self._opened != _database_key(task)):
            self.release()
            self._database, self._identity = self._open(task)
            self._opened = _database_key(task)
        self._opened_for = task
        return self._database

    def release(self) -> None:
        """Close the database handle."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_database": None, "_opened": None, "_opened_for": None}

    def _open(self, task: Task) -> tuple[Database, Hashable]:
        """Open the database of `task`; return it with a key that identifies its content."""
        engine = task.data[ENGINE_KEY]
        if "file" not in task.data:
            return open_database(database_for(task.data), engine, self._limits), _database_key(task)
        path = self._file(task)
        return open_file(path, engine, self._limits), (engine, str(path), path.stat().st_mtime_ns)

    def _file(self, task: Task) -> Path:
        """Return the database file of a task from a folder."""
        if not isinstance(self.tasks, SpiderTasks):
            raise UsageError(f"task {task.id!r} needs a database file; pass folder=... to SQLEnv")
        return self.tasks.database_file(task)

    def _ask(self, sql: str, limits: QueryLimits) -> QueryResult:
        return RECALL.query(self.database, self._identity, sql, limits)

    def _schema(self) -> tuple[str, Schema]:
        """Return the current database's schema, as text and as names, read once."""
        database = self.database
        if self._identity not in _SCHEMAS:
            _SCHEMAS[self._identity] = show_schema(database), Schema.of(database)
        return _SCHEMAS[self._identity]

    def _gold(self) -> QueryResult:
        try:
            return self._ask(self.task.gold["sql"], GRADING_LIMITS)
        except QueryError as error:
            raise BrokenTask(f"the gold query of task {self.task.id!r} fails: {error}") from error

    def _matches_up_to_ties(self, result: QueryResult, gold: QueryResult, ordered: bool, fewest: int) -> bool:
        sql, engine = self.task.gold["sql"], self.task.data[ENGINE_KEY]

        def run(other: str) -> QueryResult:
            return self._ask(other, GRADING_LIMITS)

        return match_up_to_ties(result, gold, sql, engine, ordered, run, fewest)

    def _run_submitted(self, sql: str) -> QueryResult:
        try:
            return self._ask(sql, GRADING_LIMITS)
        except QueryError as error:
            hint = "The answer was run as a query and failed; correct it, or put quotes around it if it is a value."
            raise ToolError(f"{error}\n{hint}", mistake=error.mistake) from error

    def _settle_answer(self, solved: bool, similarity: float) -> None:
        self.reward("executed", 1.0)
        self.reward("submitted", 1.0)
        self.reward("partial", similarity)
        if solved:
            self.reward("linking", 1.0)  # other tables and columns may lead to the answer as well
        elif self._last_query:
            gold, engine = self.task.gold["sql"], self.task.data[ENGINE_KEY]
            self.reward("linking", linking(self._last_query, gold, engine, self._schema()[1]))
        self.reward(OUTCOME, float(solved))
        self.finish(Reason.SOLVED if solved else Reason.ANSWERED)


def _database_key(task: Task) -> tuple[Any, ...]:
    data = task.data
    return data[ENGINE_KEY], data.get("file"), data.get("domain"), data.get("database_seed")
