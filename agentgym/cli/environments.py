"""`agentgym list`: the declared environments, described from their source, since importing all takes seconds."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec, resolve_name
from pathlib import Path

from rich.table import Table
from rich.text import Text

from agentgym.base.console import new_table
from agentgym.base.loading import load_named
from agentgym.core.registration import common_beginning, declared_environments

_MANY = 3
"""Maximum number of ids of one class that get a row each."""


def environments_table() -> Table:
    """Return a table of the declared environments: id and description."""
    table = new_table("environment", "about")
    for name, path in by_class():
        try:
            about = Text(_description(path))
        except Exception as error:
            # A broken plugin must not hide the others; show its error.
            about = Text(f"cannot be read: {error}"[:200], style="red")
        table.add_row(name, about)
    return table


def by_class() -> Iterator[tuple[str, str]]:
    """Yield ids with the paths of their classes. Many ids of one class become one, such as `acme/page-* (20)`."""
    classes: dict[str, list[str]] = {}
    for env_id, (path, _) in sorted(declared_environments().items()):
        classes.setdefault(path, []).append(env_id)
    for path, ids in classes.items():
        if len(ids) <= _MANY:
            yield from ((env_id, path) for env_id in ids)
        else:
            yield f"{common_beginning(ids)}* ({len(ids)})", path


def _description(path: str) -> str:
    """Return the first line of a class's docstring. The class is imported only if no source says it."""
    module, _, name = path.partition(":")
    with suppress(ImportError):
        return first_line(module, name)
    return (inspect.getdoc(load_named(path, "a class")) or "").partition("\n")[0]


def first_line(module: str, name: str) -> str:
    """Return the first line of a class's docstring. Raises `ImportError` if the source does not show it plainly."""
    source = _source(module)
    if definition := re.search(rf'^(?:class|def) {name}\b.*:\n +"""(.*?)(?:"""|$)', source, re.MULTILINE):
        return definition[1]
    if imported := re.search(rf"^from (\S+) import (?:.*, )?(?:(\w+) as )?{name}\b", source, re.MULTILINE):
        return first_line(resolve_name(imported[1], module), imported[2] or name)
    raise ImportError(f"the module {module!r} has no {name!r}")


def _source(module: str) -> str:
    top, *parts = module.split(".")
    spec = find_spec(top)  # of a submodule, it would import the packages above
    for place in spec.submodule_search_locations or () if spec else ():
        path = Path(place, *parts)
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file():
                return file.read_text(encoding="utf-8")
    if spec is None or spec.origin is None or parts:
        raise ImportError(f"there is no module {module!r}")
    return Path(spec.origin).read_text(encoding="utf-8")
