"""Puts what the tests of adapters measured into their pages: `python -m tests.interop.table`.

What holds of our environments in other programs goes into docs/interop/README.md, what others' environments say that
they cannot keep here into docs/interop/environments.md.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement

from tests.interop.guarantees import MEASURED, Guarantee
from tests.interop.theirs import TOLD

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "interop" / "README.md"
THEIR_PAGE = PAGE.parent / "environments.md"
PAGES = {"remote": "serve", "verifiers_tasks": "verifiers"}
"""Pages of adapters that have none of their own name."""
BY_HAND = ", by hand"
"""Follows what a row was tried with, if no automatic run has that package and measures the row again."""

_CHECK = re.compile(r"^([a-z]+(?:-[a-z]+)+):")
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)")
_TABLE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end of what is measured -->)", re.S)


def table() -> str:
    """Return the table: a row for each adapter, a column for each guarantee."""
    header = ["adapter", "tried with", *(guarantee.value for guarantee in Guarantee)]
    rows = [_row(file) for file in sorted(MEASURED.glob("*.json"))]
    return _lines([header, *rows])


def their_table() -> str:
    """Return the table of others' environments: a row for each that was asked for its caveats."""
    return _lines([["environment", "tried with", "says that it cannot keep"], *_their_rows()])


def _their_rows() -> Iterator[list[str]]:
    for file in sorted(TOLD.glob("*.json")):
        told = json.loads(file.read_text(encoding="utf-8"))
        for example, caveats in told["examples"].items():
            yield [f"`{file.stem}`: {example}", told["package"], "<br>".join(map(_caveat, caveats)) or "nothing"]


def _caveat(text: str) -> str:
    return _CHECK.sub(r"`\1`:", text)


def _lines(rows: list[list[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(file: Path) -> list[str]:
    measured = json.loads(file.read_text(encoding="utf-8"))
    tried = measured["package"] + ("" if is_in_ci(measured["package"].split()[0]) else BY_HAND)
    name = f"[`{file.stem}`]({PAGES.get(file.stem, file.stem)}.md)"
    return [name, tried, *(measured[guarantee.value] for guarantee in Guarantee)]


def is_in_ci(package: str) -> bool:
    """Whether `.ci/peers` or `.ci/run` installs a package, so that the tests of its adapter run there."""
    return package in pinned_peers() or package in _installed_for_tests()


def pinned_peers() -> dict[str, set[str]]:
    """Return the versions of other projects' packages that `.ci/peers` installs."""
    pins: dict[str, set[str]] = {}
    for name, pin in _PIN.findall((ROOT / ".ci" / "peers").read_text(encoding="utf-8")):
        pins.setdefault(name, set()).add(pin)
    return pins


def _installed_for_tests() -> set[str]:
    """Return the packages of the environment that `.ci/run` runs all tests in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    setup = re.search(r"scripts/setup (\S+)", (ROOT / ".ci" / "install").read_text(encoding="utf-8"))
    assert setup is not None
    extras = [project["optional-dependencies"][extra] for extra in setup[1].split(",")]
    return {Requirement(line).name for lines in (project["dependencies"], *extras) for line in lines}


def with_table(page: str, made: str) -> str:
    """Return a page with its table in its place."""
    return _TABLE.sub(lambda _: made, page)


def main() -> None:
    """Write the pages."""
    for page, made in TABLES.items():
        page.write_text(with_table(page.read_text(encoding="utf-8"), made()), encoding="utf-8")


TABLES: Mapping[Path, Callable[[], str]] = {PAGE: table, THEIR_PAGE: their_table}
"""What makes the table of each page."""


if __name__ == "__main__":
    main()
