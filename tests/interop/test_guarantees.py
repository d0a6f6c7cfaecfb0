"""The measures of what adapters guarantee find what an adapter loses, and the page shows what they found."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.interop.guarantees import MEASURED, Guarantee
from tests.interop.table import BY_HAND, PAGE, TABLES, pinned_peers, table, with_table
from tests.rows import each_row


@each_row("page", TABLES)
def test_the_page_shows_what_was_measured(page: Path):
    text = page.read_text(encoding="utf-8")
    assert text == with_table(text, TABLES[page]()), "run: python -m tests.interop.table"


def test_a_row_is_one_of_ci_with_the_version_that_ci_has_or_says_that_it_is_not():
    pins = pinned_peers()
    for file in MEASURED.rglob("*.json"):
        package, version = json.loads(file.read_text(encoding="utf-8"))["package"].split()
        assert version in pins.get(package, {version}), f"{file.name}: measure it with the version in .ci/peers"
    rows = [line for line in table().splitlines() if BY_HAND in line]
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [["nemo"], ["rllm"], ["verl"]]


def test_every_row_has_its_page():
    for page in re.findall(r"\]\((.*?)\)", table()):
        assert (PAGE.parent / page).is_file()


def test_every_adapter_was_measured_wholly():
    for file in MEASURED.glob("*.json"):
        assert set(json.loads(file.read_text(encoding="utf-8"))) == {"package", *Guarantee}, file.name
