"""Lays out the code of an issue: as a script, as a session of the interpreter, or as an assertion."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence

from agentgym.base.syntax import parse
from agentgym.envs.swe.building.probe import SnippetResult
from agentgym.envs.swe.building.snippet import Snippet

PRINT = "print({})"
_WIDTH = 96


def script(snippet: Snippet, *, printing: str = PRINT, comment: str = "") -> str:
    """Return a snippet as a script, as a fenced block.

    Args:
        snippet: The snippet.
        printing: Template for its last expression; ``{}`` leaves it as it is.
        comment: Added to its last line.
    """
    lines = [line for item in snippet.setup for line in (*_laid_out(ast.unparse(item)), *_gap(item))]
    last = _laid_out(printing.format(_without_str(snippet.last) if printing == PRINT else snippet.end))
    last[-1] += f"  # {comment}" if comment else ""
    return fenced("\n".join([*_header(snippet), *lines, *last]), "python")


def session(snippet: Snippet, got: Sequence[str]) -> str:
    """Return a snippet as typed into the interpreter, with the lines that it answers."""
    lines: list[str] = [f">>> {line}" for line in snippet.header.splitlines()]
    for item in (*snippet.setup, snippet.last):
        first, *more = _laid_out(ast.unparse(item))
        lines += [f">>> {first}", *(f"... {line}" for line in more)]
        lines += ["... "] if hasattr(item, "body") and not isinstance(item, ast.expr) else []
    return fenced("\n".join(line.rstrip() for line in [*lines, *got]), "pycon")


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of code."""
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}"


def traceback_of(result: SnippetResult) -> str:
    """Return the first and last line of a traceback."""
    return f"Traceback (most recent call last):\n  ...\n{error_of(result)}"


def error_of(result: SnippetResult) -> str:
    """Return the last line of a traceback."""
    return f"{result.raised}: {result.message}" if result.message else result.raised


def _gap(item: ast.stmt) -> list[str]:
    """Return the empty line after a definition."""
    return [""] if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []


def _without_str(last: ast.expr) -> str:
    """Return an expression without `str()`, which `print` does not need."""
    if isinstance(last, ast.Call) and ast.unparse(last.func) == "str" and len(last.args) == 1:
        last = last.args[0]
    return ast.unparse(last)


def _header(snippet: Snippet) -> list[str]:
    return [*snippet.header.splitlines(), ""] if snippet.header else []


def _laid_out(code: str) -> list[str]:
    """Return the lines of code, with double quotes, long calls and lists broken."""
    lines: list[str] = []
    for line in _with_gaps(double_quoted(code)):
        lines += [line] if len(line) <= _WIDTH else _broken(line)
    return lines


def double_quoted(code: str) -> str:
    """Return code with double quotes around texts that need no escapes."""
    lines = code.split("\n")
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        return code
    for token in reversed(tokens):
        plain = token.type == tokenize.STRING and token.string.startswith("'") and token.start[0] == token.end[0]
        if plain and '"' not in token.string and "'" not in token.string[1:-1]:
            line, first, last = lines[token.start[0] - 1], token.start[1], token.end[1]
            lines[token.start[0] - 1] = f'{line[:first]}"{line[first + 1 : last - 1]}"{line[last:]}'
    return "\n".join(lines)


def _with_gaps(code: str) -> list[str]:
    """Return the lines of code with an empty one after a definition within another."""
    lines = code.split("\n")
    ends = {
        node.end_lineno: node.col_offset
        for node in ast.walk(parse(code))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.col_offset
    }
    gaps = {
        end for end, column in ends.items() if (end or 0) < len(lines) and lines[end or 0][column : column + 1].strip()
    }
    return [part for number, line in enumerate(lines, start=1) for part in ([line, ""] if number in gaps else [line])]


def _broken(line: str) -> list[str]:
    """Return a long line broken after the arguments of its outermost call, or the elements of its list."""
    indent = line[: len(line) - len(line.lstrip())]
    try:
        statement = parse(line.strip()).body[0]
    except SyntaxError:
        return [line]
    value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
        value = value.args[0]
    parts = _parts(value)
    if len(parts) < 2 and isinstance(value, ast.Call) and value.args:
        value = value.args[0]
        parts = _parts(value)
    if value is None or len(parts) < 2:
        return [line]
    # Offsets count bytes; a line that is not ASCII stays as it is.
    text = line.strip()
    if not text.isascii():
        return [line]
    start, end = parts[0].col_offset, parts[-1].end_col_offset or 0
    if isinstance(parts[-1], ast.keyword):
        end = parts[-1].value.end_col_offset or 0
    inner = [f"{indent}    {text[part.col_offset : _end(part)]}," for part in parts]
    return [f"{indent}{text[:start].rstrip()}", *inner, f"{indent}{text[end:].lstrip(', ')}"]


def _parts(value: ast.expr | None) -> list[ast.expr | ast.keyword]:
    if isinstance(value, ast.Call):
        return [*value.args, *value.keywords]
    return list(value.elts) if isinstance(value, ast.List) else []


def _end(part: ast.expr | ast.keyword) -> int:
    return part.end_col_offset or 0
