"""The measures of what adapters guarantee find what an adapter loses, and the page shows what they found."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interop.guarantees import MEASURED, Guarantee
from tests.interop.table import TABLES, pinned_peers, with_table
from tests.rows import each_row


@each_row("page", TABLES)
def test_the_page_shows_what_was_measured(page: Path):
    text = page.read_text(encoding="utf-8")
    assert text == with_table(text, TABLES[page]()), "run: python -m tests.interop.table"


def test_a_row_is_whole_and_has_the_version_that_ci_has():
    pins = pinned_peers()
    for file in MEASURED.rglob("*.json"):
        measured = json.loads(file.read_text(encoding="utf-8"))
        assert file.parent != MEASURED or {*measured} == {"package", *Guarantee}, file.name
        package, version = measured["package"].split()
        assert version in pins.get(package, {version}), f"{file.name}: measure it with the version in .ci/peers"
