"""Semantic versions as in semver.org 2.0."""

import re
from dataclasses import dataclass, replace
from functools import total_ordering

from rangever.errors import VersionSyntaxError

_PATTERN = re.compile(
    r"v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


def _identifier(text):
    return int(text) if text.isdigit() else text


@total_ordering
@dataclass(frozen=True, eq=False)
class Version:
    """A version; build metadata is kept, and ignored in comparisons."""

    major: int
    minor: int = 0
    patch: int = 0
    prerelease: tuple = ()
    build: tuple = ()

    @classmethod
    def parse(cls, text):
        """Read a version such as `1.4.0-beta.2+linux`. Raises `VersionSyntaxError`."""
        found = _PATTERN.fullmatch(text.strip())
        if found is None:
            raise VersionSyntaxError(f"not a version: {text!r}")
        major, minor, patch, prerelease, build = found.groups()
        parts = tuple(_identifier(part) for part in prerelease.split(".")) if prerelease else ()
        return cls(int(major), int(minor), int(patch), parts, tuple(build.split(".")) if build else ())

    @property
    def is_prerelease(self):
        """Whether it comes before a release."""
        return bool(self.prerelease)

    @property
    def release(self):
        """The version without prerelease and build."""
        return Version(self.major, self.minor, self.patch)

    def bump(self, part):
        """Return the next version of a part: `major`, `minor`, `patch` or `prerelease`."""
        if part == "major":
            return Version(self.major + 1)
        if part == "minor":
            return Version(self.major, self.minor + 1)
        if part == "patch":
            if self.is_prerelease:
                return self.release
            return Version(self.major, self.minor, self.patch + 1)
        if part == "prerelease":
            return self._bump_prerelease()
        raise ValueError(f"cannot bump {part!r}")

    def _bump_prerelease(self):
        if not self.prerelease:
            return replace(self, patch=self.patch + 1, prerelease=("rc", 1), build=())
        last = self.prerelease[-1]
        if isinstance(last, int):
            return replace(self, prerelease=(*self.prerelease[:-1], last + 1), build=())
        return replace(self, prerelease=(*self.prerelease, 1), build=())

    def _key(self):
        # A release comes after its prereleases; numbers come before words, longer lists after their beginnings.
        order = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, order)

    def __eq__(self, other):
        if not isinstance(other, Version):
            return NotImplemented
        return self._key() == other._key()

    def __lt__(self, other):
        if not isinstance(other, Version):
            return NotImplemented
        return self._key() < other._key()

    def __hash__(self):
        return hash(self._key())

    def __str__(self):
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.prerelease:
            text += "-" + ".".join(str(part) for part in self.prerelease)
        if self.build:
            text += "+" + ".".join(self.build)
        return text
