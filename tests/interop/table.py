"""Puts what the tests of adapters measured into docs/interop/README.md: `python -m tests.interop.table`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.interop.guarantees import MEASURED, Guarantee

PAGE = Path(__file__).parent.parent.parent / "docs" / "interop" / "README.md"
_TABLE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end of what is measured -->)", re.S)


def table() -> str:
    """Return the table: a row for each adapter, a column for each guarantee."""
    header = ["adapter", "tried with", *(guarantee.value for guarantee in Guarantee)]
    rows = [_row(file) for file in sorted(MEASURED.glob("*.json"))]
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _row(file: Path) -> list[str]:
    measured = json.loads(file.read_text(encoding="utf-8"))
    page = PAGE.parent / f"{file.stem}.md"
    name = f"[`{file.stem}`]({page.name})" if page.is_file() else f"`{file.stem}`"
    return [name, measured["package"], *(measured[guarantee.value] for guarantee in Guarantee)]


def with_table(page: str) -> str:
    """Return the page with the table in its place."""
    return _TABLE.sub(lambda _: table(), page)


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
