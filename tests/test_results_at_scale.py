"""The steps of `benchmarks/resume_200k.py` on a small evaluation, which is killed early."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.resume_200k import Size, claims, run

pytest.importorskip("starlette", reason="needs the [view] extra")
pytest.importorskip("uvicorn", reason="needs the [view] extra")

pytestmark = pytest.mark.nightly


def test_an_evaluation_is_killed_continued_scored_compared_and_shown(tmp_path: Path):
    rows = run(tmp_path, Size(tasks=80, attempts=10, kill_at=0.2))
    assert [row["step"] for row in rows] == [
        "resume",
        "resume with nothing left",
        "view",
        "view without an index",
        "compare",
        "rescore",
        "view with grades",
    ]
    assert rows[0]["twice"] == 0
    assert 160 <= rows[0]["recorded"] < 800 == rows[0]["recorded"] + rows[0]["played"]
    assert {one.claim for one in claims(rows) if not one.holds} == set()
