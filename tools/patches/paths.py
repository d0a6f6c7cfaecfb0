"""Paths in patches: git's quoting, prefixes such as `a/` and `b/`, and forbidden destinations."""

from __future__ import annotations

import re

from agentgym.tools.patches.model import PatchError

NOWHERE = "/dev/null"
_PREFIXES = frozenset({("a", "b"), ("b", "a"), ("i", "w"), ("w", "i"), ("c", "i"), ("i", "c"), ("c", "w"), ("w", "c")})
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_LETTERS = {code: letter for letter, code in _ESCAPES.items()}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_EPOCH = re.compile(r"\t(?:1970-01-01|1969-12-31)[ T]|\tThu Jan +1 \d\d:\d\d:\d\d 1970")


def quote(path: str) -> str:
    """Return the path as git writes it: quoted if it contains control characters, quotes or backslashes."""
    data = path.encode("utf-8", "surrogateescape")
    plain = all(code >= 32 and code not in (34, 92, 127) for code in data) and _is_utf8(data)
    return path if plain else f'"{"".join(_escaped(code) for code in data)}"'


def unquote(text: str, line: int) -> tuple[str, str]:
    """Return the unquoted path at the start of `text`, and the remaining text."""
    if not text.startswith('"'):
        path, tab, rest = text.partition("\t")
        return path, tab + rest
    match = _QUOTED.match(text)
    if match is None:
        raise PatchError(f"the quoted path is not terminated: {text[:80]!r}", line)
    data = bytearray()
    position = 0
    inner = match.group(1)
    for escape in _ESCAPE.finditer(inner):
        data += inner[position : escape.start()].encode("utf-8", "surrogateescape")
        code = escape.group(1)
        if not code[0].isdigit() and code not in _ESCAPES:
            raise PatchError(f"unknown escape {escape.group(0)!r} in the path {text[:80]!r}", line)
        data.append(int(code, 8) & 255 if code[0].isdigit() else _ESCAPES[code])
        position = escape.end()
    data += inner[position:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape"), text[match.end() :]


def header_path(text: str, line: int) -> str | None:
    """Return the path of a `---` or `+++` line, or `None` if that side has no file."""
    path, rest = unquote(text, line)
    # A tab follows names that end in a space; other trailing spaces are mistakes.
    path = path if rest else path.rstrip(" ")
    return None if path == NOWHERE or _EPOCH.search(rest) else path


def without_prefixes(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Return two header paths without their `a/` and `b/` (or `i/`, `w/`, `c/`) if both have them."""
    first, second = old and _first(old), new and _first(new)
    prefixes = {pair[0] for pair in _PREFIXES}
    if (first, second) in _PREFIXES or (new is None and first in prefixes) or (old is None and second in prefixes):
        return old and old[2:], new and new[2:]
    return old, new


def git_header_paths(text: str, line: int) -> tuple[str, str] | None:
    """Return the paths of `diff --git`, without prefixes; `None` if spaces make the end of the first one ambiguous."""
    if text.startswith('"'):
        old, rest = unquote(text, line)
        new = unquote(rest[1:], line)[0] if rest.startswith(' "') else rest[1:]
    elif text.endswith('"') and ' "' in text:
        old, _, rest = text.partition(' "')
        new = unquote(f'"{rest}', line)[0]
    else:
        pairs = [(text[:at], text[at + 1 :]) for at, letter in enumerate(text) if letter == " "]
        plain = pairs if len(pairs) == 1 else [pair for pair in pairs if without_prefixes(*pair)[0] == pair[1][2:]]
        same = plain or [pair for pair in pairs if pair[0] == pair[1]]
        if len(same) != 1:
            return None
        old, new = same[0]
    stripped = without_prefixes(old, new)
    return stripped[0] or "", stripped[1] or ""


def check_path(path: str, line: int | None = None) -> str:
    """Return the path if it stays in the tree and out of `.git`, else raise `PatchError`."""
    parts = path.split("/")
    if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise PatchError(f"path {path!r} is not a plain path inside the tree", line, path)
    if any(part.lower() == ".git" for part in parts):
        raise PatchError(f"path {path!r} is inside git's own folder, which a patch may not change", line, path)
    return path


def _first(path: str) -> str:
    return path[0] if len(path) > 2 and path[1] == "/" else ""


def _escaped(code: int) -> str:
    if code in _LETTERS:
        return f"\\{_LETTERS[code]}"
    return chr(code) if 32 <= code < 127 else f"\\{code:03o}"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
