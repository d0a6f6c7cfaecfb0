"""`Session`: one connection on which a model runs SQL, with bounds on time, disk and what is kept of results."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentgym.errors import InfrastructureError, ToolError
from agentgym.tools.postgres.growth import Growth, TooMuch
from agentgym.tools.postgres.server import Server

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGconn, PGresult

_DRAIN_S = 10.0
_LOOK_S = 0.25
_GIB = 1 << 30
_LOST = "The connection was lost and with it the transaction that was open; the next call opens another one."


@dataclass
class Outcome:
    """The result of the last statement of a text."""

    status: str = ""
    """What the server says of it, such as `CREATE TABLE`."""
    columns: tuple[str, ...] = ()
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    """The first rows, as text."""
    row_count: int = 0


class Session:
    """A connection to a database, opened when needed. Its settings and transaction last from call to call.

    Args:
        server: The server.
        database: The database.
        max_rows: Rows kept of a result.
        max_chars: Characters kept of all cells of a result.
        max_growth: Bytes by which statements may make the server's files grow, those for temporary results included.
    """

    def __init__(
        self,
        server: Server,
        database: str,
        *,
        max_rows: int = 200,
        max_chars: int = 40_000,
        max_growth: int = 2 * _GIB,
    ):
        self._server, self._database = server, database
        self._max_rows, self._max_chars, self._max_growth = max_rows, max_chars, max_growth
        self._growth = Growth(server.folder, max_growth)
        self._connection: psycopg.Connection[Any] | None = None

    def run(self, sql: str, timeout_s: float) -> Outcome:
        """Run one or several statements.

        Raises:
            ToolError: One fails, takes too long or too much room, or ends the connection.
            InfrastructureError: The server is gone.
        """
        import psycopg

        connection = self._open()
        deadline = time.monotonic() + timeout_s
        try:
            connection.pgconn.send_query(sql.encode("utf-8"))
            connection.pgconn.set_single_row_mode()
            return self._collected(connection.pgconn, deadline)
        except UnicodeEncodeError:
            raise ToolError("The statement is not valid Unicode text.") from None
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        except TimeoutError:
            self._cancel(connection)
            raise ToolError(f"The statement took more than {timeout_s:g} s and was stopped.") from None
        except TooMuch:
            self._cancel(connection)
            most = f"{self._max_growth / _GIB:.3g} GiB"
            raise ToolError(
                f"The database grew by more than {most}, so the statement was stopped. Drop what you do not need."
            ) from None

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query of ours on the same connection. Raises as `run` does."""
        import psycopg

        try:
            return self._open().execute(sql.encode(), list(values)).fetchall()
        except psycopg.OperationalError as error:
            raise self._lost(str(error)) from error
        except psycopg.Error as error:
            raise ToolError(str(error).strip()) from error

    def close(self) -> None:
        """Close the connection; a transaction that is open is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> psycopg.Connection[Any]:
        import psycopg

        if self._connection is None or self._connection.closed:
            try:
                self._connection = self._server.connect(self._database)
            except psycopg.OperationalError as error:
                raise self._lost(str(error)) from error
        return self._connection

    def _lost(self, why: str) -> Exception:
        """Return the error to raise for a connection that is lost: the model's own doing, unless the server is gone."""
        self.close()
        if self._server.is_alive():
            return ToolError(f"{why.strip()}\n{_LOST}")
        return InfrastructureError(f"the PostgreSQL server ended in an episode: {why}")

    def _collected(self, pgconn: PGconn, deadline: float) -> Outcome:
        from psycopg.pq import ConnStatus, ExecStatus

        outcome, error = Outcome(), ""
        for result in _results(pgconn, deadline, self._growth.check):
            match result.status:
                case ExecStatus.SINGLE_TUPLE | ExecStatus.TUPLES_OK:
                    outcome = self._with(outcome, result)
                case ExecStatus.COMMAND_OK:
                    outcome = Outcome(_status(result))
                case ExecStatus.COPY_IN | ExecStatus.COPY_OUT | ExecStatus.COPY_BOTH:
                    self.close()
                    raise ToolError(f"COPY from STDIN or to STDOUT is not possible here. {_LOST}")
                case ExecStatus.EMPTY_QUERY:
                    error = error or "The statement is empty."
                case _:
                    error = error or result.get_error_message("utf-8").strip()
        if error:
            if pgconn.status != ConnStatus.OK:
                raise self._lost(error)
            raise ToolError(error)
        return outcome

    def _with(self, outcome: Outcome, result: PGresult) -> Outcome:
        """Return the outcome with the rows of one more piece of a result; the last piece has a status and no rows."""
        if outcome.status or not outcome.columns:
            names = (result.fname(number) or b"" for number in range(result.nfields))
            outcome = Outcome(columns=tuple(name.decode("utf-8", "replace") for name in names))
        for number in range(result.ntuples):
            outcome.row_count += 1
            if len(outcome.rows) < self._max_rows and _chars(outcome.rows) < self._max_chars:
                outcome.rows.append(tuple(self._cell(result, number, column) for column in range(result.nfields)))
        outcome.status = "" if result.ntuples else _status(result)
        return outcome

    def _cell(self, result: PGresult, row: int, column: int) -> str | None:
        value = result.get_value(row, column)
        if value is None:
            return None
        text = bytes(value[: 4 * self._max_chars]).decode("utf-8", "replace")
        return text if len(text) <= self._max_chars else text[: self._max_chars] + "..."

    def _cancel(self, connection: psycopg.Connection[Any]) -> None:
        """Stop the running statement, or give up the connection."""
        import psycopg

        with contextlib.suppress(psycopg.Error):
            connection.pgconn.get_cancel().cancel()
        try:
            for _ in _results(connection.pgconn, time.monotonic() + _DRAIN_S, lambda: None):
                pass
        except (TimeoutError, psycopg.Error):
            self.close()


def _results(pgconn: PGconn, deadline: float, check: Callable[[], None]) -> Iterator[PGresult]:
    """Yield the pieces of the results, and call `check` on the way. Raises `TimeoutError` at the deadline."""
    while True:
        while pgconn.is_busy():
            check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if _comes(pgconn.socket, min(left, _LOOK_S)):
                pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return
        yield result


def _comes(fileno: int, seconds: float) -> bool:
    """Whether data comes in time. Unlike `select`, `poll` also takes the descriptors of a process with many files."""
    waiting = select.poll()
    waiting.register(fileno, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _chars(rows: Sequence[tuple[str | None, ...]]) -> int:
    return sum(len(cell or "") for row in rows for cell in row)


def _status(result: PGresult) -> str:
    return (result.command_status or b"").decode("utf-8", "replace")
