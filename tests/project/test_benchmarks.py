"""Result files of the benchmarks are complete, name no local paths, and are read by `python -m benchmarks`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.rows import each_row

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


@each_row("path", RESULTS)
def test_a_result_file_records_command_versions_hardware_rows_and_claims(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not [place for place in ("/home/", "/root/", "/tmp/", "/Users/") if place in text], "no local paths"
    content = json.loads(text)
    assert {"command", "versions", "hardware", "rows", "claims"} <= content.keys()
    assert content["rows"]
    for claim in content["claims"]:
        assert claim.keys() == {"claim", "value", "op", "goal"}
        assert claim["op"] in (">=", "<=")
        assert isinstance(claim["value"], int | float)
