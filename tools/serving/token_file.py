"""The token that clients of a server must send, stored in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from agentgym.errors import UsageError


def read_token(path: Path | None) -> str:
    """Return the token in a file. Without a path, return a new token; if the file is missing, create it."""
    if path is None:
        return secrets.token_urlsafe(32)
    try:
        token = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return _write_token(path)
    except OSError as error:
        raise UsageError(f"cannot read the token in {str(path)!r}: {error.strerror}") from None
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(f"{str(path)!r} must hold only a token of at least 16 characters without spaces")
    return token


def _write_token(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(token + "\n")
    except OSError as error:
        raise UsageError(f"cannot write a token to {str(path)!r}: {error.strerror}") from None
    return token
