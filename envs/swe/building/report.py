"""The report of a build, per package and in total: counts by verdict, operators, difficulties, minutes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.envs.swe.building.steady import Unfit
from agentgym.envs.swe.building.validation import CandidateVerdict
from agentgym.tasks.swe.instance import Instance


@dataclass(frozen=True)
class PackageReport:
    """The result of one package."""

    package: str
    version: str = ""
    tests: int = 0
    """Number of reliable tests."""
    dropped: Counter[Unfit] = field(default_factory=Counter)
    """The other tests, by reason."""
    missing_modules: tuple[str, ...] = ()
    """Modules that tests could not import; installing them may add tests."""
    sites: int = 0
    """Places where a bug could be injected into code that some test runs."""
    verdicts: Counter[CandidateVerdict] = field(default_factory=Counter)
    rejected: Mapping[str, str] = field(default_factory=dict)
    """Instances that cannot be graded, and the reasons."""
    instances: tuple[Instance, ...] = ()
    minutes: float = 0.0
    error: str = ""
    """Why the package is unusable, if it is."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        candidates = sum(self.verdicts.values())
        return {
            "package": self.package,
            "version": self.version,
            "tests": self.tests,
            "dropped_tests": {reason.value: self.dropped[reason] for reason in Unfit if self.dropped[reason]},
            "missing_modules": list(self.missing_modules),
            "sites": self.sites,
            "tried": candidates,
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in CandidateVerdict},
            "yield": round(self.verdicts[CandidateVerdict.VALID] / candidates, 3) if candidates else 0.0,
            "rejected": dict(self.rejected),
            "instances": len(self.instances),
            "operators": dict(sorted(_operators(self.instances).items())),
            "difficulties": dict(sorted(_difficulties(self.instances).items())),
            "minutes": round(self.minutes, 2),
            "error": self.error,
        }


def summary(reports: Sequence[PackageReport]) -> dict[str, Any]:
    """Return the reports of all packages and their totals as JSON data."""
    verdicts = sum((report.verdicts for report in reports), Counter[CandidateVerdict]())
    instances = [instance for report in reports for instance in report.instances]
    candidates = sum(verdicts.values())
    return {
        "instances": len(instances),
        "tried": candidates,
        "verdicts": {verdict.value: verdicts[verdict] for verdict in CandidateVerdict},
        "yield": round(verdicts[CandidateVerdict.VALID] / candidates, 3) if candidates else 0.0,
        "operators": dict(sorted(_operators(instances).items())),
        "difficulties": dict(sorted(_difficulties(instances).items())),
        "minutes": round(sum(report.minutes for report in reports), 2),
        "packages": [report.to_dict() for report in reports],
    }


def _operators(instances: Iterable[Instance]) -> Counter[str]:
    return Counter(name for instance in instances for name in instance.meta["operators"])


def _difficulties(instances: Iterable[Instance]) -> Counter[str]:
    return Counter(str(instance.difficulty) for instance in instances)
