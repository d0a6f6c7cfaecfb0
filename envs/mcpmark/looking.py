"""What a database contains, and results of queries, as text."""

from __future__ import annotations

from agentgym.errors import ToolError
from agentgym.tools.postgres import Outcome, Session

_TABLES = {"table": "BASE TABLE", "view": "VIEW"}
TYPES = (*_TABLES, "sequence", "extension")


def schemas(session: Session) -> str:
    """Return the schemas and their owners."""
    found = session.rows("SELECT schema_name, schema_owner FROM information_schema.schemata ORDER BY schema_name")
    return "\n".join(f"{name} (owner {owner})" for name, owner in found)


def objects(session: Session, schema: str, kind: str) -> str:
    """Return the names of the objects of a kind, one on a line."""
    found = session.rows(_listing(kind), [] if kind == "extension" else [schema])
    return "\n".join(str(row[0]) for row in found) or f"There is no {kind} in {schema}."


def details(session: Session, schema: str, name: str, kind: str) -> str:
    """Return columns, constraints and indexes of a table or view, or what there is to say of another object."""
    _check(kind)
    if kind in _TABLES:
        return _table(session, schema, name)
    if kind == "sequence":
        query = "SELECT data_type, start_value, increment FROM information_schema.sequences WHERE sequence_schema = %s"
        found = session.rows(f"{query} AND sequence_name = %s", [schema, name])
        said = [f"{name}: {kind_of}, starts at {start}, increment {step}" for kind_of, start, step in found]
    else:
        found = session.rows("SELECT extversion FROM pg_extension WHERE extname = %s", [name])
        said = [f"{name}: version {version}" for (version,) in found]
    if not said:
        raise ToolError(f"There is no {kind} {name} in {schema}.")
    return "\n".join(said)


def shown(outcome: Outcome) -> str:
    """Return the result of a statement."""
    if not outcome.columns:
        return outcome.status or "Done."
    lines = [" | ".join(outcome.columns)]
    lines += [" | ".join("NULL" if cell is None else cell for cell in row) for row in outcome.rows]
    if outcome.row_count > len(outcome.rows):
        lines.append(f"({outcome.row_count} rows; the first {len(outcome.rows)} are shown)")
    elif not outcome.rows:
        lines.append("(no rows)")
    return "\n".join(lines)


def _check(kind: str) -> None:
    if kind not in TYPES:
        raise ToolError(f"`object_type` must be one of {', '.join(TYPES)}, not {kind}.")


def _listing(kind: str) -> str:
    _check(kind)
    if kind in _TABLES:
        type_ = _TABLES[kind]
        where = f"table_schema = %s AND table_type = '{type_}'"
        return f"SELECT table_name FROM information_schema.tables WHERE {where} ORDER BY table_name"
    if kind == "sequence":
        return "SELECT sequence_name FROM information_schema.sequences WHERE sequence_schema = %s ORDER BY 1"
    return "SELECT extname FROM pg_extension ORDER BY extname"


def _table(session: Session, schema: str, name: str) -> str:
    columns = session.rows(
        "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns "
        "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        [schema, name],
    )
    if not columns:
        raise ToolError(f"There is no table or view {schema}.{name}.")
    constraints = session.rows(
        "SELECT c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid "
        "JOIN pg_namespace n ON n.oid = t.relnamespace WHERE n.nspname = %s AND t.relname = %s ORDER BY c.conname",
        [schema, name],
    )
    indexes = session.rows(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s AND tablename = %s ORDER BY indexname",
        [schema, name],
    )
    lines = ["Columns:"]
    for column, type_, nullable, default in columns:
        rest = "" if nullable == "YES" else " not null"
        lines.append(f"  {column} {type_}{rest}{f' default {default}' if default is not None else ''}")
    for title, found in (("Constraints", constraints), ("Indexes", indexes)):
        lines += [f"{title}:", *(f"  {label}: {text}" for label, text in found)] if found else []
    return "\n".join(lines)
