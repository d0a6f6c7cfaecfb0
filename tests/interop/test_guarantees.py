"""The measures of what adapters guarantee find what an adapter loses, and the page shows what they found."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.interop import probe_env
from tests.interop.guarantees import MEASURED, YES, Guarantee, Moves, Seen, measure, reference
from tests.interop.table import BY_HAND, PAGE, TABLES, pinned_peers, table, with_table
from tests.rows import each_row


class Faithful:
    """An adapter that loses nothing, but for what `fault` does to what it saw."""

    adapter = package = "faithful"

    def __init__(self, fault: Callable[[Seen], Any] = lambda result: None, *, shift: int = 0, workers: int = 8):
        self._fault, self._shift, self._workers = fault, shift, workers

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> list[list[Seen]]:
        def played(index: int) -> Seen:
            result = reference(episodes[index], seed + index + self._shift, index)
            self._fault(result)
            return result

        with ThreadPoolExecutor(self._workers) as pool:
            return [list(pool.map(played, [index] * attempts)) for index in range(len(episodes))] if attempts > 1 else [
                [result] for result in pool.map(played, range(len(episodes)))]  # fmt: skip


def forgets(name: str) -> Callable[[Seen], None]:
    return lambda result: setattr(result, name, None)


def pays_failures(result: Seen) -> None:
    result.error, result.reward = None, result.reward or 0.0


FAULTS = {
    Guarantee.SEEDS: (Faithful(shift=1), "no: other episodes than `Env` plays"),
    Guarantee.TURN_REWARDS: (Faithful(forgets("turn_rewards")), "their sum"),
    Guarantee.ENDINGS: (Faithful(forgets("ending")), "not solved, answered, declined, gave_up, max_turns"),
    Guarantee.ERRORS: (Faithful(pays_failures), "no: what broke is not an error"),
    Guarantee.PARALLEL: (Faithful(workers=1), "no: one after the other"),
    Guarantee.PICTURES: (Faithful(lambda result: result.pictures.clear()), "no"),
}


@each_row("guarantee", Guarantee)
def test_an_adapter_that_loses_nothing_guarantees_everything(guarantee: Guarantee):
    assert measure(Faithful(), guarantee) == YES


@each_row("guarantee", Guarantee)
def test_a_loss_is_measured(guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probe_env, "MEETING_S", 0.05)
    driver, result = FAULTS[guarantee]
    assert measure(driver, guarantee) == result


class Together(Faithful):
    """An adapter whose episodes all end with the first that breaks."""

    def play(self, episodes: Sequence[Moves], seed: int, attempts: int = 1) -> list[list[Seen]]:
        results = super().play(episodes, seed, attempts)
        if (broken := next((result for [result] in results if result.error), None)) is None:
            return results
        return [[Seen(error=broken.error)] for _ in results]


def test_an_error_that_ends_other_episodes_is_told_from_one_that_does_not():
    assert measure(Together(), Guarantee.ERRORS) == "yes, but other episodes end too"
    assert measure(Together(pays_failures), Guarantee.ERRORS) == "no: what broke is not an error"


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
