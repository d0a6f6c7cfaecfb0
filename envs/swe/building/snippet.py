"""`Snippet`: a few lines of code that end in an expression, as an issue shows them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

_PRIVATE = re.compile(r"^_(?!_*$)(?!_.*__$)")
_STANDARD = sys.stdlib_module_names
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Snippet:
    """Code that ends in an expression with an interesting value or exception."""

    setup: tuple[ast.stmt, ...]
    """Statements before the expression, without imports."""
    last: ast.expr
    imports: tuple[Import, ...] = ()
    """Import statements of the test's module, also those that the code does not need."""

    @property
    def header(self) -> str:
        """The import statements that the code needs."""
        used = self.names
        lines = {ast.unparse(needed) for item in self.imports if (needed := _needed(item, used)) is not None}
        return "\n".join(sorted(lines, key=lambda line: (line.split()[1].partition(".")[0] not in _STANDARD, line)))

    @property
    def before(self) -> str:
        """Everything before the expression."""
        return "\n".join(part for part in (self.header, *map(ast.unparse, self.setup)) if part)

    @property
    def end(self) -> str:
        """The expression."""
        return ast.unparse(self.last)

    @property
    def code(self) -> str:
        """The whole snippet."""
        return f"{self.before}\n{self.end}" if self.before else self.end

    @property
    def names(self) -> set[str]:
        """Names that the code uses."""
        return {node.id for node in self.walk() if isinstance(node, ast.Name)}

    @property
    def is_public(self) -> bool:
        """Whether it uses no private name."""
        return not any(_PRIVATE.match(name) for name in re.findall(r"[A-Za-z_]\w*", self.code))

    def walk(self) -> Iterator[ast.AST]:
        """Yield all nodes but those of the imports."""
        for item in (*self.setup, self.last):
            yield from ast.walk(item)

    def but(self, setup: Iterable[ast.stmt], last: ast.expr | None = None) -> Snippet:
        """Return the snippet with other code."""
        return replace(self, setup=tuple(setup), last=last or self.last)


def imports_of(tree: ast.Module, exported: Sequence[str], package: str) -> tuple[Import, ...]:
    """Return a test module's imports; what a package exports is imported from the package itself.

    Args:
        tree: The test module.
        exported: Names that the package exports.
        package: Its import name.
    """
    imports: list[Import] = []
    for item in tree.body:
        if isinstance(item, ast.Import):
            imports.append(item)
        elif isinstance(item, ast.ImportFrom) and item.module not in (None, "__future__") and not item.level:
            own = (item.module or "").partition(".")[0] == package
            public = [alias for alias in item.names if own and alias.name in exported]
            rest = [alias for alias in item.names if alias not in public]
            imports += [ast.ImportFrom(module=package, names=public, level=0)] if public else []
            imports += [ast.ImportFrom(module=item.module, names=rest, level=0)] if rest else []
    return _joined(imports)


def _joined(imports: Sequence[Import]) -> tuple[Import, ...]:
    """Return the imports with one statement for each module."""
    froms: dict[str, list[ast.alias]] = {}
    for item in imports:
        if isinstance(item, ast.ImportFrom):
            froms.setdefault(item.module or "", []).extend(item.names)
    plain: list[Import] = [item for item in imports if isinstance(item, ast.Import)]
    return (
        *plain,
        *(ast.ImportFrom(module=module, names=_in_order(names), level=0) for module, names in froms.items()),
    )


def _in_order(names: Sequence[ast.alias]) -> list[ast.alias]:
    return sorted(names, key=lambda alias: (alias.name[:1].islower(), alias.name))


def _needed(item: Import, used: set[str]) -> Import | None:
    aliases = [alias for alias in item.names if (alias.asname or alias.name).partition(".")[0] in used]
    if not aliases:
        return None
    if isinstance(item, ast.Import):
        return ast.Import(names=aliases)
    return ast.ImportFrom(module=item.module, names=aliases, level=item.level)
