"""Sources of runs: files of trajectories, and policies in folders of results."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, starmap
from pathlib import Path
from typing import Any

from agentgym.choices import named
from agentgym.comparison.runs import Run, canonical, environment_names, read_run, recorded_in, run_of_recorded
from agentgym.errors import UsageError
from agentgym.results.folder import read_results
from agentgym.suites import SuiteId, comparable

_SIGN = "@"
"""Separates a folder and the policy in it."""


@dataclass(frozen=True)
class Source:
    """The source of a run.

    Args:
        name: As typed: a file, a folder of results of one policy, or `FOLDER@POLICY`.
    """

    name: str

    @property
    def folder(self) -> Path | None:
        """The folder of results, if it is one."""
        return self._parts[0]

    @property
    def _parts(self) -> tuple[Path | None, str]:
        """The folder and the policy. Both may contain the separator."""
        if not Path(self.name).is_file():
            for end in (len(self.name), *(at for at, letter in enumerate(self.name) if letter == _SIGN)):
                if (path := Path(self.name[:end])).is_dir():
                    return path, self.name[end + 1 :]
        return None, ""

    def run(self) -> Run:
        """Read the run.

        Raises:
            UsageError: It cannot be read, or the policy is unknown or ambiguous; the message lists the policies.
        """
        if self.folder is None:
            return read_run(Path(self.name))
        results = read_results(self.folder)
        rows: list[dict[str, Any]] = results["results"]
        policy = self._policy(self.folder, sorted({row["policy"] for row in rows}))
        mine = [row for row in rows if row["policy"] == policy]
        names = environment_names([(row["summary"]["env_id"], row["entry"], row["suite"]) for row in mine])
        files = zip((self.folder / row["trajectories"] for row in mine), names, strict=True)
        suites = canonical(results["suites"]) if results["suites"] else None
        return run_of_recorded(self.name, chain.from_iterable(starmap(recorded_in, files)), suites=suites)

    def suites(self) -> list[SuiteId]:
        """Return the suites of a folder of results."""
        if self.folder is None:
            return []
        return [SuiteId.from_dict(suite) for suite in read_results(self.folder)["suites"]]

    def _policy(self, folder: Path, policies: list[str]) -> str:
        if policy := self._parts[1]:
            return named("policy", policy, dict(zip(policies, policies, strict=True)))
        if len(policies) != 1:
            choices = " or ".join(f"{folder}{_SIGN}{policy}" for policy in policies) or "no policy is finished"
            raise UsageError(f"{str(folder)!r} holds the results of {len(policies)} policies; name one: {choices}")
        return policies[0]


def check_suites(a: Source, b: Source) -> None:
    """Raise `UsageError` with the reason if two folders hold results on suites that cannot be compared."""
    if a.folder is None or b.folder is None:
        return
    theirs = {suite.name: suite for suite in b.suites()}
    shared = [suite for suite in a.suites() if suite.name in theirs]
    for suite in shared:
        comparable(suite, theirs[suite.name])
    if not shared and a.suites() and theirs:
        comparable(a.suites()[0], b.suites()[0])
