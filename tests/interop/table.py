"""Writes the results of the adapters' tests into their pages: `python -m tests.interop.table`.

The guarantees of our environments in other programs go into docs/interop/README.md, the caveats of other packages'
environments into docs/interop/environments.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.interop.guarantees import MEASURED, Guarantee
from tests.interop.theirs import TOLD

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "interop" / "README.md"
THEIR_PAGE = PAGE.parent / "environments.md"
PAGES = {"remote": "serve", "verifiers_tasks": "verifiers"}
"""Pages of adapters whose page has another name."""
BY_HAND, NOT_IN_CI = ", by hand", {"nemo-gym", "rllm", "verl"}
"""Marks the package version of rows that CI cannot measure, and their packages."""

_CHECK = re.compile(r"^([a-z]+(?:-[a-z]+)+):")
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)")
_TABLE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end of what is measured -->)", re.S)


def table() -> str:
    """Return the table: a row for each adapter, a column for each guarantee."""
    header = ["adapter", "tested with", *(guarantee.value for guarantee in Guarantee)]
    rows = [_row(file) for file in sorted(MEASURED.glob("*.json"))]
    return _lines([header, *rows])


def their_table() -> str:
    """Return the table of other packages' environments, with the caveats of each example."""
    return _lines([["environment", "tested with", "caveats"], *_their_rows()])


def _their_rows() -> Iterator[list[str]]:
    for file in sorted(TOLD.glob("*.json")):
        recorded = json.loads(file.read_text(encoding="utf-8"))
        for example, caveats in recorded["examples"].items():
            yield [f"`{file.stem}`: {example}", recorded["package"], "<br>".join(map(_caveat, caveats)) or "none"]


def _caveat(text: str) -> str:
    return _CHECK.sub(r"`\1`:", text)


def _lines(rows: list[list[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(file: Path) -> list[str]:
    measured = json.loads(file.read_text(encoding="utf-8"))
    package = measured["package"] + (BY_HAND if measured["package"].split()[0] in NOT_IN_CI else "")
    name = f"[`{file.stem}`]({PAGES.get(file.stem, file.stem)}.md)"
    return [name, package, *(measured[guarantee.value] for guarantee in Guarantee)]


def pinned_peers() -> dict[str, set[str]]:
    """Return the versions of other projects' packages that `.ci/peers` installs."""
    pins: dict[str, set[str]] = {}
    for name, pin in _PIN.findall((ROOT / ".ci" / "peers").read_text(encoding="utf-8")):
        pins.setdefault(name, set()).add(pin)
    return pins


def with_table(page: str, table_text: str) -> str:
    """Return a page with a new table."""
    return _TABLE.sub(lambda _: table_text, page)


def main() -> None:
    """Write the pages."""
    for page, make_table in TABLES.items():
        page.write_text(with_table(page.read_text(encoding="utf-8"), make_table()), encoding="utf-8")


TABLES: Mapping[Path, Callable[[], str]] = {PAGE: table, THEIR_PAGE: their_table}
"""The function that makes the table of each page."""


if __name__ == "__main__":
    main()
