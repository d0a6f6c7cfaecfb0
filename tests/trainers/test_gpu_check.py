"""The measurements for a GPU, at tiny shapes on a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from benchmarks.gpu_check import PARTS, main, played

pytestmark = [pytest.mark.real, pytest.mark.train]


def test_each_part_measures_what_it_is_named_for():
    rows = {
        name: PARTS[name][0](True) for name in ("fused_head", "lora_step", "scoring_memory", "merge_drift", "sampler")
    }
    assert rows["fused_head"][0]["largest_difference"] < 0.1
    assert [row["lengths"] for row in rows["lora_step"]] == ["equal", "different"]
    assert all(row["tokens_per_s"] > 0 for row in (*rows["lora_step"], *rows["sampler"]))
    assert [row["scores"] for row in rows["scoring_memory"]] == [31, 127]
    copies, in_place = rows["merge_drift"]
    assert (copies["moved_by_delta"], in_place["moved_by_delta"] > 0.001) == (0.0, True)


@pytest.mark.slow
def test_a_part_runs_in_a_process_of_its_own_and_the_result_is_written(tmp_path: Path):
    main(["--tiny", "--parts", "fsdp2", "--results", str(tmp_path)])
    content = json.loads((tmp_path / "gpu_check.json").read_text(encoding="utf-8"))
    device, row = content["rows"]
    assert (device["part"], row["part"], row["backend"]) == ("device", "fsdp2", "gloo")
    assert row["losses"][0] > row["losses"][-1]
    assert content["claims"] == [{"claim": "gpu_check_failed_parts", "value": 0, "op": "<=", "goal": 0}]


def test_a_part_that_takes_too_long_is_one_row_with_the_reason():
    [row] = played("sampler", True, limit_s=0.1)
    assert (row["part"], row["error"]) == ("sampler", "not finished within 0 s")
