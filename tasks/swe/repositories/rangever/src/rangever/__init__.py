"""Semantic versions, ranges and resolution."""

from rangever.errors import RangeSyntaxError, ResolutionError, VersionError, VersionSyntaxError
from rangever.ranges import Comparator, Range
from rangever.resolver import Catalog, resolve
from rangever.select import group_by_major, max_satisfying, min_satisfying, sort_versions
from rangever.version import Version

__all__ = [
    "Catalog",
    "Comparator",
    "Range",
    "RangeSyntaxError",
    "ResolutionError",
    "Version",
    "VersionError",
    "VersionSyntaxError",
    "group_by_major",
    "max_satisfying",
    "min_satisfying",
    "resolve",
    "sort_versions",
]
__version__ = "2.1.0"
