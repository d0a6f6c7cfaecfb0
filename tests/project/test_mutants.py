"""The mutation benchmark: mutants are sampled fairly, run in a copy, and classified by the tests' outcome."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="needs the [dev] extra")

from benchmarks._equivalent_mutants import EQUIVALENT
from benchmarks._mutant_runs import ROOT, Copies, Outcome
from benchmarks._mutant_targets import TARGETS
from benchmarks._mutations import draw
from benchmarks.mutants import UNUSABLE, Log, claims_of

SOURCE = '''"""Counts 1 and 2."""
from __future__ import annotations

LIMIT: int | None = 3


def count(values: list[int | float], *, most: int = 9) -> int:
    """Return 4 of 5."""
    found = 0
    for value in values:
        if value < most and value is not None:
            found += 1
    if found > LIMIT:
        raise ValueError(f"{found - LIMIT} too many")
    return found
'''


def drawn(sample: int, seed: int = 0) -> list[tuple[str, str]]:
    return [(mutant.line, mutant.becomes) for mutant in draw({"a.py": SOURCE}, sample, seed)]


def test_a_sample_depends_on_its_seed_and_extends_smaller_ones():
    assert drawn(8) == drawn(8) != drawn(8, seed=1)
    assert drawn(8)[:3] == drawn(3)


def test_every_mutable_place_is_drawn_once_but_no_annotation_or_docstring():
    everything = draw({"a.py": SOURCE}, 1_000, 0)
    lines = Counter(mutant.line for mutant in everything)
    assert lines == {
        "LIMIT: int | None = 3": 1,
        "def count(values: list[int | float], *, most: int = 9) -> int:": 1,
        "found = 0": 1,
        "for value in values:": 1,
        "if value < most and value is not None:": 4,  # both comparisons, `and`, the condition
        "found += 1": 1,
        "if found > LIMIT:": 2,
    }


def test_every_mutant_is_a_program_with_one_changed_line():
    before = SOURCE.splitlines()
    for mutant in [mutant for seed in range(5) for mutant in draw({"a.py": SOURCE}, 1_000, seed)]:
        ast.parse(mutant.source)
        after = mutant.source.splitlines()
        assert [number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]] == [
            mutant.number
        ]
        assert before[mutant.number - 1].strip() == mutant.line != mutant.becomes


def test_the_files_and_their_tests_exist():
    assert [file for file, tests in TARGETS.items() if not tests] == []
    paths = {path for file, tests in TARGETS.items() for path in (file, *tests)}
    assert [path for path in sorted(paths) if not (ROOT / path).is_file()] == []


def test_an_equivalent_mutant_is_listed_once_with_its_reason_and_line():
    keys = [(e.file, e.line, e.becomes) for e in EQUIVALENT]
    assert len(set(keys)) == len(keys)
    assert all(e.why and e.file in TARGETS and e.line != e.becomes for e in EQUIVALENT)
    lines = {mutant.file: (ROOT / mutant.file).read_text(encoding="utf-8").splitlines() for mutant in EQUIVALENT}
    stripped = {file: {line.strip() for line in text} for file, text in lines.items()}
    assert [
        (mutant.file, mutant.line) for mutant in EQUIVALENT if mutant.line.strip() not in stripped[mutant.file]
    ] == []


def test_only_survivors_are_run_again(tmp_path: Path):
    killed, survived, new = draw({"a.py": SOURCE}, 3, 0)
    log = Log(tmp_path / "log.jsonl")
    log.add(killed, {"outcome": "killed"})
    log.add(survived, {"outcome": "survived"})
    again = Log(tmp_path / "log.jsonl")
    assert again.known(killed) is not None
    assert again.known(survived) is None
    assert again.known(new) is None
    as_logged = Log(tmp_path / "log.jsonl", again=False)
    assert [as_logged.known(mutant) is not None for mutant in (killed, survived, new)] == [True, True, False]


def test_equivalent_mutants_count_neither_way_and_timeouts_are_kills():
    outcomes = ["killed"] * 7 + ["timeout", "survived", "equivalent", "equivalent"]
    [claim] = claims_of([{"outcome": outcome} for outcome in outcomes])
    assert (claim.claim, claim.value, claim.holds) == ("mutants_killed", 0.8889, False)
    assert claims_of([])[0].value == 0.0


@pytest.fixture(scope="module")
def copies() -> Iterator[Copies]:
    """One copy, whose process has loaded what tests load."""
    with Copies(1) as copies:
        yield copies


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_mutants_run_in_a_copy_and_leave_the_tree_unchanged(copies: Copies):
    file, tests = "agentgym/base/choices.py", ("tests/core/test_choices.py",)
    source = (ROOT / file).read_text(encoding="utf-8")
    assert copies.test(tests, 200).outcome is Outcome.SURVIVED
    assert copies.test(tests, 200, (file, UNUSABLE)).outcome is Outcome.KILLED
    # Of the same length and within the same second: Python must not take the compiled one.
    spoiled = source.replace("if value not in", "if value     in")
    assert len(spoiled) == len(source)
    assert copies.test(tests, 200, (file, spoiled)).outcome is Outcome.KILLED
    assert copies.test(tests, 1, (file, "while True: pass\n")).outcome is Outcome.TIMEOUT
    assert copies.test(tests, 200).outcome is Outcome.SURVIVED
    assert (ROOT / file).read_text(encoding="utf-8") == source


KEEPS = """
from agentgym.base.cache import cache_folder

def test_nothing_was_kept():
    assert not any(cache_folder().iterdir())
    (cache_folder() / "kept").write_text("by another run")
"""


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_runs_do_not_share_caches(copies: Copies):
    file = "tests/core/test_choices.py"
    runs = [copies.test((file,), 200, (file, KEEPS)) for _ in range(2)]
    assert [run.outcome for run in runs] == [Outcome.SURVIVED] * 2, runs[-1].output
