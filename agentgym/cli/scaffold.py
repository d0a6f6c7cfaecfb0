"""`agentgym new`: write a small working environment and its tests as a starting point."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from agentgym.base.errors import UsageError

_LONGEST = 60
"""Maximum length of a module name, below that of file names."""

_TEMPLATES = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Scaffold:
    """The files that were written."""

    module: Path
    test: Path
    target: str
    """`module:Class`, the form that all commands accept."""


def write_scaffold(name: str, folder: Path) -> Scaffold:
    """Write an environment called `name` and its tests into `folder`, which is created if needed.

    Raises:
        UsageError: The name is not valid for a module, or a file already exists or cannot be written.
    """
    module = _module_name(name)
    cls = "".join(part.capitalize() for part in module.split("_")) + "Env"
    scaffold = Scaffold(folder / f"{module}.py", folder / f"test_{module}.py", f"{module}:{cls}")
    for path in (scaffold.module, scaffold.test):
        if path.exists():
            raise UsageError(f"{str(path)!r} exists already; choose another name, or another folder with --path")
    values = {"module": module, "cls": cls, "title": module.replace("_", " ").capitalize(), "test": scaffold.test.name}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scaffold.module.write_text(_filled("environment.txt", values), encoding="utf-8")
        scaffold.test.write_text(_filled("environment_test.txt", values), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror or error}") from error
    return scaffold


def _filled(template: str, values: dict[str, str]) -> str:
    return (_TEMPLATES / template).read_text(encoding="utf-8").format(**values)


def _module_name(name: str) -> str:
    """Return the module name for `name` (`word-count`, `WordCount`, `word count`)."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    module = re.sub(r"[\s_-]+", "_", snake).lower().removesuffix("_env").strip("_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        raise UsageError(
            f"{name!r} is not a valid module name; use a letter, then letters, digits and dashes, e.g. 'word-count'"
        )
    if len(module) > _LONGEST:
        raise UsageError(f"{name[:_LONGEST]!r}… is too long for a module name; use at most {_LONGEST} characters")
    if module == "test" or module.startswith("test_"):
        raise UsageError(f"pytest would collect the module {module!r} as tests; choose another name")
    if module in sys.stdlib_module_names or module == "agentgym":
        raise UsageError(f"{name!r} would shadow the module {module!r}; choose another name")
    return module
