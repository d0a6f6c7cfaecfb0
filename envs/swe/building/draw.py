"""Chooses the bugs to try, and their order: candidates drawn from a seed, balanced over operators."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentgym.base.errors import UsageError
from agentgym.core.task import split_of
from agentgym.envs.swe.building.validation import Baseline
from agentgym.tasks.swe.bundled import SHARES
from agentgym.tasks.swe.mutation import Mutation, apply_all, combinations, operator_named, sites
from agentgym.tasks.swe.mutation.model import Located
from agentgym.tasks.swe.package import Package


@dataclass(frozen=True)
class BugCandidate:
    """One or several bugs of a package that are tried together."""

    located: tuple[Located, ...]

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """(path, qualified name) of the changed functions."""
        return tuple(dict.fromkeys((path, mutation.function) for path, mutation in self.located))

    @property
    def paths(self) -> tuple[str, ...]:
        """The changed files."""
        return tuple(dict.fromkeys(path for path, _ in self.located))

    @property
    def mutations(self) -> tuple[Mutation, ...]:
        """The bugs."""
        return tuple(mutation for _, mutation in self.located)

    @property
    def families(self) -> frozenset[tuple[str, str, str]]:
        """(path, function, family) of each bug; candidates with equal families are the same task."""
        return frozenset((path, item.function, operator_named(item.operator).family) for path, item in self.located)

    @property
    def digest(self) -> str:
        """Eight hex digits that identify the candidate without revealing anything about it."""
        content = repr([(path, mutation.edits) for path, mutation in self.located])
        return hashlib.sha256(content.encode()).hexdigest()[:8]

    def tree(self, package: Package) -> dict[str, bytes]:
        """Return the package's files with the bugs. Raises `UsageError` if the bugs overlap or do not compile."""
        sources = {path: package.source(path) for path in self.paths}
        changed = apply_all(sources, self.located)
        for path, text in changed.items():
            try:
                compile(text, path, "exec", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise UsageError(f"{path!r} with the bug does not compile: {error}") from error
        return {**package.files, **{path: text.encode() for path, text in changed.items()}}


def all_sites(package: Package, baseline: Baseline) -> list[Located]:
    """Return every mutation of functions that some stable test runs, in the order of paths and text."""
    located: list[Located] = []
    for path in package.modules:
        try:
            mutations = sites(package.source(path))
        except (SyntaxError, UnicodeDecodeError, RecursionError):
            continue
        located += [(path, item) for item in mutations if _is_run(path, item.function, baseline)]
    return located


def single_bugs(located: Sequence[Located], seed: str) -> Iterator[BugCandidate]:
    """Yield every site once: operators take turns, so that common ones do not crowd out rare ones."""
    rng = random.Random(f"{seed}:single")
    piles: dict[str, list[Located]] = {}
    for item in located:
        piles.setdefault(item[1].operator, []).append(item)
    for pile in piles.values():
        rng.shuffle(pile)
    while piles:
        for name in rng.sample(sorted(piles), len(piles)):
            yield BugCandidate((piles[name].pop(),))
            if not piles[name]:
                del piles[name]


def combined_bugs(
    valid: Mapping[Located, frozenset[str]], package: Package, seed: str, *, tries: int, limit: int
) -> Iterator[BugCandidate]:
    """Yield sets of bugs that are each valid alone, of one split, and together below the limit of failing tests.

    Args:
        valid: Each bug with the tests that it breaks alone.
        package: The package with the bugs.
        seed: Seed of all draws.
        tries: Most sets to draw.
        limit: Most tests that they may break together.
    """
    rng = random.Random(f"{seed}:combined")
    yielded: set[tuple[Located, ...]] = set()
    drawing = [combinations([item for item in valid if split_for(package, item) == split], rng) for split in SHARES]
    turns = (next(drawing[rng.choices(range(len(SHARES)), list(SHARES.values()))[0]], ()) for _ in range(tries))
    for combination in filter(None, turns):
        together = frozenset[str]().union(*(valid[item] for item in combination))
        if combination not in yielded and len(together) <= limit:
            yielded.add(combination)
            yield BugCandidate(combination)


def split_for(package: Package, located: Located) -> str:
    """Return the split of a bug: bugs of one function are always in the same one."""
    path, mutation = located
    return split_of(f"{package.name}:{path}:{mutation.function}", SHARES)


def every_bug_matters(
    candidate: BugCandidate, valid: Mapping[Located, frozenset[str]], failing: frozenset[str]
) -> bool:
    """Whether each bug alone breaks a test that is also broken now: then no partial fix is enough."""
    return all(valid[item] & failing for item in candidate.located)


def _is_run(path: str, function: str, baseline: Baseline) -> bool:
    return not baseline.covering or not function or bool(baseline.covering.get((path, function)))
