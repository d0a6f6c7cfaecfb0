"""Engine-independent checks of statements, and the wording of errors for the model."""

from __future__ import annotations

from agentgym.tools.database.base import QueryError, QueryErrorKind, QueryLimits

MAX_MESSAGE_CHARS = 600


def check_text(sql: str, limits: QueryLimits) -> None:
    """Reject text that no engine should see: empty, too long, with NUL bytes or broken Unicode.

    Args:
        sql: The statement as the model wrote it.
        limits: Its `max_sql_bytes` bounds the text.
    """
    if not sql.strip().strip(";").strip():
        raise QueryError("The statement is empty; write one SELECT statement.", QueryErrorKind.SYNTAX)
    if "\0" in sql:
        raise QueryError("The statement contains a NUL character; remove it.", QueryErrorKind.SYNTAX)
    try:
        size = len(sql.encode())
    except UnicodeEncodeError as error:
        raise QueryError("The statement is not valid Unicode text.", QueryErrorKind.SYNTAX) from error
    if size > limits.max_sql_bytes:
        raise QueryError(
            f"The statement has {size} bytes; at most {limits.max_sql_bytes} are allowed. Write a shorter one.",
            QueryErrorKind.TOO_LARGE,
        )


def quote_name(name: str) -> str:
    """Return `name` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def shorten(message: str) -> str:
    """Return `message` on one line, shortened for the model."""
    text = " ".join(message.split())
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def forbidden(what: str, allowed: str) -> QueryError:
    """Return the error for a forbidden statement: `what` is wrong with it, and what is `allowed` instead."""
    return QueryError(f"{what} The database is read-only: {allowed}.", QueryErrorKind.FORBIDDEN)


def too_slow(limits: QueryLimits) -> QueryError:
    """Return the error for a statement that exceeded its time limit."""
    return QueryError(
        f"The statement was stopped after {limits.timeout_s:g} s; make it cheaper (filter earlier, join on keys).",
        QueryErrorKind.TIMEOUT,
    )


def too_much_memory(limits: QueryLimits) -> QueryError:
    """Return the error for a statement that exceeded its memory limit."""
    return QueryError(
        f"The statement needs more than the allowed {limits.memory_mb} MB of memory; make it smaller.",
        QueryErrorKind.MEMORY,
    )
