"""The report of a build, per package and in total: counts by verdict, operators, difficulties, minutes."""

from __future__ import annotations

import gzip
import io
import json
import math
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.envs.swe.building.draw import BugCandidate, all_sites, combined_bugs, every_bug_matters, single_bugs
from agentgym.envs.swe.building.instance import make_instance
from agentgym.envs.swe.building.runner import TestRunner
from agentgym.envs.swe.building.steady import Unfit
from agentgym.envs.swe.building.validation import Baseline, CandidateVerdict, Validation, measure_baseline, validate
from agentgym.tasks.swe.instance import Instance, write_instances
from agentgym.tasks.swe.mutation.model import Located
from agentgym.tasks.swe.package import Package, read_package
from agentgym.tools.patches import apply_patch


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


@dataclass(frozen=True)
class BuildOptions:
    """How to build tasks from one package."""

    count: int = 20
    """Number of instances to make."""
    seed: int = 0
    workers: int = 1
    """Candidates that are validated concurrently. The instances do not depend on it."""
    combined_share: float = 0.25
    """Share of instances with several bugs."""
    max_tries: int = 5
    """Candidates to try per requested instance before giving up."""
    hide_tests: bool = True
    """Remove the failing tests from the tree that the policy sees."""
    check: Callable[[Instance, Mapping[str, bytes]], str] = field(default=lambda instance, files: "")
    """Returns why an instance with the files that the policy sees cannot be graded, or an empty text."""
    on_progress: Callable[[str], None] = field(default=lambda line: None)
    """Receives lines about the progress, for people."""


def build(
    source: str | Path | Package,
    run_tests: TestRunner,
    options: BuildOptions | None = None,
    *,
    archive: str | None = None,
) -> PackageReport:
    """Make instances of one package.

    Args:
        source: Folder or archive of the package, or the package as read.
        run_tests: Runs its tests; see `SubprocessRunner`'s warning.
        options: The number of instances, the seed, and so on.
        archive: Path of the archive of the package, relative to the file of the instances.

    Raises:
        UsageError: The package has no modules, no tests or no test that passes.
    """
    options = options or BuildOptions()
    package = source if isinstance(source, Package) else read_package(source)
    started = time.monotonic()
    baseline = measure_baseline(package, run_tests)
    located = all_sites(package, baseline)
    maker = _Maker(package, baseline, run_tests, options, archive)
    seed = f"{options.seed}:{package.name}:{package.version}"
    single = math.ceil(options.count * (1 - options.combined_share))
    maker.make(single_bugs(located, seed), single, options.max_tries * single)
    combined = combined_bugs(maker.valid, package, seed, tries=50 * options.count, limit=baseline.limit)
    maker.make(combined, options.count, options.max_tries * (options.count - single))
    # Too few combinations: single bugs fill the rest.
    maker.make(single_bugs(located, f"{seed}:more"), options.count, options.max_tries * (options.count - single))
    return PackageReport(
        package=package.name,
        version=package.version,
        tests=len(baseline.passing),
        dropped=Counter(baseline.dropped.values()),
        missing_modules=baseline.missing_modules,
        sites=len(located),
        verdicts=maker.verdicts,
        rejected=maker.rejected,
        instances=tuple(maker.instances),
        minutes=(time.monotonic() - started) / 60,
    )


@dataclass(frozen=True)
class _CandidateResult:
    """The result of a candidate, apart from its relation to other candidates."""

    validation: Validation
    instance: Instance | None = None
    complaint: str = ""
    """Why the instance cannot be graded."""


class _Maker:
    """Tries candidates in order and keeps the valid ones."""

    def __init__(
        self, package: Package, baseline: Baseline, run_tests: TestRunner, options: BuildOptions, archive: str | None
    ):
        self._package, self._baseline, self._run_tests = package, baseline, run_tests
        self._options, self._archive = options, archive
        self.instances: list[Instance] = []
        self.verdicts: Counter[CandidateVerdict] = Counter()
        self.rejected: dict[str, str] = {}
        """Instances that cannot be graded, and the reasons."""
        self.valid: dict[Located, frozenset[str]] = {}
        """Valid single bugs, with the tests that each breaks."""
        self._families: set[frozenset[tuple[str, str, str]]] = set()
        self._effects: set[tuple[object, ...]] = set()
        self._attempted: set[BugCandidate] = set()

    def make(self, candidates: Iterator[BugCandidate], until: int, tries: int) -> None:
        """Try at most `tries` candidates until there are `until` instances."""
        tries_used = 0
        while len(self.instances) < until and tries_used < tries:
            # Duplicates are decided below, in order, so that the size of a batch changes nothing.
            new = (item for item in candidates if item.families not in self._families and item not in self._attempted)
            batch = list(islice(new, min(self._options.workers, tries - tries_used)))
            if not batch:
                return
            with ThreadPoolExecutor(self._options.workers) as pool:
                results = list(pool.map(self._try, batch))
            for candidate, result in zip(batch, results, strict=True):
                if len(self.instances) < until and candidate.families not in self._families:
                    tries_used += 1
                    self._attempted.add(candidate)
                    self._decide(candidate, result)

    def _try(self, candidate: BugCandidate) -> _CandidateResult:
        try:
            tree = candidate.tree(self._package)
        except UsageError:
            return _CandidateResult(Validation(CandidateVerdict.BREAKS_COLLECTION))
        validation = validate(self._package, tree, candidate.places, self._baseline, self._run_tests)
        if validation.verdict is not CandidateVerdict.VALID or not self._matters(
            candidate, frozenset(validation.fail_to_pass)
        ):
            return _CandidateResult(validation)
        instance = self._instance(candidate, validation)
        visible = apply_patch(self._package.files, instance.meta["bug_patch"])
        return _CandidateResult(validation, instance, self._options.check(instance, visible))

    def _decide(self, candidate: BugCandidate, result: _CandidateResult) -> None:
        verdict, instance = result.validation.verdict, result.instance
        failing = frozenset(result.validation.fail_to_pass)
        if verdict is CandidateVerdict.VALID and (instance is None or self._is_duplicate(candidate, failing)):
            verdict = CandidateVerdict.DUPLICATE
        elif instance is not None and result.complaint:
            verdict = CandidateVerdict.NOT_GRADABLE
            self.rejected[instance.id] = result.complaint
        self.verdicts[verdict] += 1
        self._options.on_progress(
            f"{self._package.name}: {verdict.value} ({', '.join(item.operator for item in candidate.mutations)}); "
            f"{len(self.instances) + (verdict is CandidateVerdict.VALID)} instances"
        )
        if verdict is CandidateVerdict.VALID and instance is not None:
            self._families.add(candidate.families)
            if len(candidate.located) == 1:
                self.valid[candidate.located[0]] = failing
            self.instances.append(instance)

    def _is_duplicate(self, candidate: BugCandidate, failing: frozenset[str]) -> bool:
        effect = (failing, *((path, item.line, item.last_line) for path, item in candidate.located))
        if effect in self._effects:
            return True
        self._effects.add(effect)
        return False

    def _matters(self, candidate: BugCandidate, failing: frozenset[str]) -> bool:
        return len(candidate.located) == 1 or every_bug_matters(candidate, self.valid, failing)

    def _instance(self, candidate: BugCandidate, validation: Validation) -> Instance:
        single = len(candidate.located) == 1
        instance = make_instance(
            self._package,
            candidate,
            validation,
            self._baseline,
            self._run_tests,
            alone=[validation.fail_to_pass] if single else [self.valid[item] for item in candidate.located],
            hide_tests=self._options.hide_tests,
            archive=self._archive,
            seed=str(self._options.seed),
        )
        check_patches(self._package.files, instance)
        return instance


def check_patches(original: Mapping[str, bytes], instance: Instance) -> None:
    """Raise `UsageError` unless the gold patch restores the original sources from the buggy ones, byte for byte."""
    visible = apply_patch(original, instance.meta["bug_patch"])
    restored = apply_patch(visible, instance.gold_patch)
    restored.update({path: text.encode() for path, text in instance.test_files.items()})
    if restored != dict(original):
        wrong = sorted(path for path in {*restored, *original} if restored.get(path) != original.get(path))
        raise UsageError(f"{instance.id}: the gold patch does not restore {wrong}")


def build_all(
    sources: Sequence[str | Path],
    out: str | Path,
    run_tests: TestRunner,
    *,
    count: int = 100,
    options: BuildOptions | None = None,
) -> list[PackageReport]:
    """Make about `count` instances of several packages and write them, their archives and a report to a folder.

    If one package yields too few, the later ones make up for it. An unusable package is reported and left out.

    Args:
        sources: Folders or archives of packages.
        out: Folder for `instances.jsonl`, `repos/NAME-VERSION.tar.gz` and `report.json`.
        run_tests: Runs the tests of the packages.
        count: Total number of instances.
        options: As for `build`; its `count` is not used.
    """
    if not sources:
        raise UsageError("name at least one package: a folder or an sdist (.tar.gz)")
    options = options or BuildOptions()
    out = Path(out)
    (out / "repos").mkdir(parents=True, exist_ok=True)
    reports: list[PackageReport] = []
    missing = count
    for number, source in enumerate(sources):
        share = math.ceil(missing / (len(sources) - number))
        report = _build_one(source, out, run_tests, _with_count(options, share))
        missing = max(0, missing - len(report.instances))
        reports.append(report)
        # After each package, so that an interrupted build keeps its results.
        write_instances(
            out / "instances.jsonl", (instance for package_report in reports for instance in package_report.instances)
        )
        (out / "report.json").write_text(json.dumps(summary(reports), indent=2) + "\n", encoding="utf-8")
    return reports


def _build_one(source: str | Path, out: Path, run_tests: TestRunner, options: BuildOptions) -> PackageReport:
    started = time.monotonic()
    try:
        package = read_package(source)
        archive = f"repos/{package.name}-{package.version}.tar.gz"
        (out / archive).write_bytes(archive_of(package.files))
        return build(package, run_tests, options, archive=archive)
    except UsageError as error:
        options.on_progress(f"{Path(source).name}: {error}")
        return PackageReport(Path(source).name, minutes=(time.monotonic() - started) / 60, error=str(error))


def archive_of(files: Mapping[str, bytes]) -> bytes:
    """Return files as a reproducible `.tar.gz`: the same files give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def _with_count(options: BuildOptions, count: int) -> BuildOptions:
    return replace(options, count=count)
