"""Errors of this package."""


class VersionError(ValueError):
    """Base of all errors of this package."""


class VersionSyntaxError(VersionError):
    """Text that is not a version."""


class RangeSyntaxError(VersionError):
    """Text that is not a range."""


class ResolutionError(VersionError):
    """No set of versions satisfies all requirements.

    Attributes:
        package: The package for which no version was left.
        wanted: The requirements on it, as (who, range text) pairs.
    """

    def __init__(self, package, wanted):
        lines = ", ".join(f"{who} needs {text}" for who, text in wanted)
        super().__init__(f"no version of {package!r} fits: {lines}")
        self.package = package
        self.wanted = list(wanted)
