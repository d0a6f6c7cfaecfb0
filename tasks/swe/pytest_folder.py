"""A folder with pytest and its dependencies, and no other installed package.

Tests run in sandboxes with the running interpreter; if they saw all of its packages, these might
include a fixed version of the package under test. So only these
few are copied, compiled once, and shown to sandboxes read-only.
"""

from __future__ import annotations

import compileall
import hashlib
import shutil
import sys
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path, PurePosixPath
from py_compile import PycInvalidationMode

from agentgym.base.cache import cache_folder, into_cache
from agentgym.base.errors import InfrastructureError, require

NAMES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""Distributions that pytest requires."""
_VERSION = 2


def require_pytest() -> None:
    """Raise `MissingExtra` unless pytest is installed."""
    require("pytest", "swe")


def pytest_folder() -> Path:
    """Return the folder; create it if needed. Raises `MissingExtra` if pytest is not installed."""
    return _made(cache_folder())


def versions() -> str:
    """Return the versions of the folder's content, as text that changes with it."""
    require_pytest()
    parts = [f"{name}-{metadata.version(name)}" for name in NAMES]
    return " ".join([str(_VERSION), sys.implementation.cache_tag or "python", *parts])


@cache
def _made(root: Path) -> Path:
    digest = hashlib.sha256(versions().encode()).hexdigest()[:16]
    folder = root / "swe" / f"pytest-{digest}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    try:
        for name in NAMES:
            _copy(name, staging)
        # A sandbox cannot write bytecode next to these files, and should not compile them in every run.
        compileall.compile_dir(
            staging, quiet=2, stripdir=str(staging), invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
        )
        staging.chmod(0o755)
        into_cache(staging, folder)
    except OSError as error:
        raise InfrastructureError(f"cannot copy pytest to {str(folder)!r}: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _copy(distribution: str, folder: Path) -> None:
    for file in metadata.files(distribution) or ():
        path = PurePosixPath(file)
        # Some of them look up their own version, which only the metadata have.
        needed = path.suffix == ".py" or (path.name == "METADATA" and len(path.parts) == 2)
        if needed and ".." not in path.parts and not path.is_absolute():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), target)
            target.chmod(0o644)
            target.parent.chmod(0o755)
