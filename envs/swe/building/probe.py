"""Runs snippets on several trees of one package and compares their results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.envs.swe.building.runner import USUAL, Conditions, TestRunner

LONGEST = 200
"""Characters of a value, a message or an output; an issue shows nothing longer."""
PATIENT_S = 6.0
QUICK_S = 1.0
_TEST = "probe_inside.py"
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|\bid=\d{6,}")


@dataclass(frozen=True)
class SnippetResult:
    """The visible result of a snippet."""

    repr: str = ""
    """The value of its last expression; empty if that is long."""
    str: str = ""
    type: str = ""
    raised: str = ""
    """Name of the exception's class; empty if none was raised."""
    message: str = ""
    where: str = ""
    """Whether the exception came from the `setup` or from the `last` expression."""
    printed: str = ""
    calls: tuple[str, ...] = ()
    """Functions of the package that the last expression calls directly, such as `Calendar.previous`."""

    slow: bool = False
    """Whether it took much processor time."""

    @property
    def quiet(self) -> bool:
        """Whether the only visible result is the lack of an error."""
        return not self.raised and (self.type == "NoneType" or not self.repr)

    @property
    def looks(self) -> tuple[str, ...]:
        """The texts that a user sees."""
        return (self.raised, self.message, self.printed) if self.raised else (self.repr, self.str, self.printed)

    @property
    def steady(self) -> bool:
        """Whether a user sees something, and no address in it, which would change from run to run."""
        return any(self.looks) and not any(map(_ADDRESS.search, self.looks))


@dataclass(frozen=True)
class SnippetProbe:
    """Runs snippets on trees.

    Args:
        run_tests: Runs the probing module as it runs the package's tests: confined, if the package must be.
        trees: The files of each tree, without its tests.
        python_path: Folders to import from, relative to the root of each tree.
        imports: Modules that every snippet will import.
        seconds: Processor time that a snippet may take.
    """

    run_tests: TestRunner
    trees: Mapping[str, Mapping[str, bytes]]
    python_path: Sequence[str]
    imports: Sequence[str]
    seconds: float = PATIENT_S

    def __call__(
        self, snippets: Sequence[tuple[str, str]], conditions: Conditions = USUAL
    ) -> list[dict[str, SnippetResult | None]]:
        """Return the result of each snippet (`setup` and last expression) on each tree; `None` where it hangs."""
        if not snippets:
            return []
        request = {
            "snippets": list(snippets), "sides": list(self.trees), "python_path": list(self.python_path),
            "imports": list(self.imports), "seconds": self.seconds, "longest": LONGEST,
        }  # fmt: skip
        tree = {f"{side}/{path}": data for side, files in self.trees.items() for path, data in files.items()}
        tree |= {_TEST: Path(__file__).with_name(_TEST).read_bytes(), "probe.json": json.dumps(request).encode()}
        outcome = self.run_tests(tree, [_TEST], python_path=(".",), timeout_s=100.0, conditions=conditions)
        messages = {test: failure.message for test, failure in outcome.failures.items()}
        return [
            {side: _shown(messages.get(f"{_TEST}::test_probe[{len(snippets) * place + number}]")) for place, side in
             enumerate(self.trees)}
            for number in range(len(snippets))
        ]  # fmt: skip


def _shown(message: str | None) -> SnippetResult | None:
    try:
        data: dict[str, Any] | None = json.loads(message or "null")
    except json.JSONDecodeError:  # truncated
        return None
    return SnippetResult(**{**data, "calls": tuple(data["calls"])}) if data is not None else None
