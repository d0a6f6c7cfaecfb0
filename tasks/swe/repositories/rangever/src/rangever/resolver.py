"""Finding versions that go together."""

from rangever.errors import ResolutionError
from rangever.ranges import Range
from rangever.select import sort_versions
from rangever.version import Version


class Catalog:
    """The packages there are, with what each version needs."""

    def __init__(self):
        self._packages = {}

    def add(self, name, version, needs=None):
        """Add a version of a package, with what it needs as a mapping of names to range texts."""
        parsed = Version.parse(version) if isinstance(version, str) else version
        self._packages.setdefault(name, {})[parsed] = dict(needs or {})

    def versions(self, name):
        """Return the versions of a package, newest first."""
        return sort_versions(self._packages.get(name, ()), newest_first=True)

    def needs(self, name, version):
        """Return what a version of a package needs."""
        return self._packages[name][version]


def resolve(catalog, wanted):
    """Return a version for each package that is needed, as new as possible in the order of need.

    Args:
        catalog: What there is.
        wanted: Names of packages to range texts.

    Raises:
        ResolutionError: There is no solution; names the last package that could not be had.
    """
    demands = [(name, "you", text) for name, text in wanted.items()]
    chosen, failure = _search(catalog, demands, {})
    if chosen is None:
        raise failure
    return dict(sorted(chosen.items()))


def _search(catalog, demands, chosen):
    """Choose a version for the first package without one; go back where that leads nowhere."""
    for name, version in chosen.items():
        if not _fits(name, version, demands):
            return None, _failure(name, demands)
    open_names = [name for name, _, _ in demands if name not in chosen]
    if not open_names:
        return chosen, None
    name = open_names[0]
    failure = _failure(name, demands)
    for version in catalog.versions(name):
        if not _fits(name, version, demands):
            continue
        more = [(need, f"{name} {version}", text) for need, text in catalog.needs(name, version).items()]
        found, problem = _search(catalog, demands + more, {**chosen, name: version})
        if found is not None:
            return found, None
        failure = problem
    return None, failure


def _fits(name, version, demands):
    return all(version in Range.parse(text) for wanted, _, text in demands if wanted == name)


def _failure(name, demands):
    return ResolutionError(name, [(who, text) for wanted, who, text in demands if wanted == name])
