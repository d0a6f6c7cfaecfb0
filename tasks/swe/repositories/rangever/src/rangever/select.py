"""Choosing among versions."""

from rangever.errors import VersionSyntaxError
from rangever.ranges import Range
from rangever.version import Version


def _versions(items, strict=True):
    for item in items:
        if isinstance(item, Version):
            yield item
            continue
        try:
            yield Version.parse(item)
        except VersionSyntaxError:
            if strict:
                raise


def sort_versions(items, *, newest_first=False, strict=True):
    """Return versions in order; with `strict=False` what is not a version is left out."""
    return sorted(_versions(items, strict), reverse=newest_first)


def _fitting(items, wanted):
    if isinstance(wanted, str):
        wanted = Range.parse(wanted)
    return [version for version in _versions(items) if version in wanted]


def max_satisfying(items, wanted):
    """Return the newest version in a range, or `None`."""
    return max(_fitting(items, wanted), default=None)


def min_satisfying(items, wanted):
    """Return the oldest version in a range, or `None`."""
    return min(_fitting(items, wanted), default=None)


def group_by_major(items, *, prereleases=False):
    """Return the newest version of each major, by major; prereleases count only if asked for."""
    newest = {}
    for version in _versions(items):
        if version.is_prerelease and not prereleases:
            continue
        known = newest.get(version.major)
        if known is None or version > known:
            newest[version.major] = version
    return dict(sorted(newest.items()))
