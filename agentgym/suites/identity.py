"""Identifies suites. Results can be compared if they have the same suite, version and content."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from agentgym.errors import UsageError
from agentgym.records.fields import Rules, check_fields, is_count, is_text, required_fields


class Identified(Protocol):
    """A suite, or the identity of one in recorded results."""

    @property
    def name(self) -> str:
        """The suite's name."""
        ...

    @property
    def version(self) -> int:
        """The suite's version."""
        ...

    @property
    def content_hash(self) -> str:
        """Hash of the tasks and of how they are played (hex SHA-256)."""
        ...


@dataclass(frozen=True)
class SuiteId:
    """The identity of a suite, stored with results."""

    name: str
    version: int
    content_hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> SuiteId:
        """Rebuild it from the output of `to_dict`. Raises `UsageError` if a field is missing, unknown or wrong."""
        check_fields(data, _FIELDS, _REQUIRED, "a suite's identity")
        return cls(**data)


_FIELDS: Rules = {"name": (is_text, "text"), "version": (is_count, "a whole number"), "content_hash": (is_text, "text")}
_REQUIRED = required_fields(SuiteId)


def comparable(suite: Identified, other: Identified) -> None:
    """Raise `UsageError` with the reason unless results on the two suites can be compared."""
    if suite.name != other.name:
        raise UsageError(
            f"results on the suite {suite.name!r} cannot be compared with results on {other.name!r}: their tasks "
            "differ; evaluate both policies on one suite"
        )
    if suite.version != other.version:
        raise UsageError(
            f"results on versions {suite.version} and {other.version} of the suite {suite.name!r} cannot be compared: "
            "its tasks, or how they are played, have changed; evaluate both policies on one version"
        )
    if suite.content_hash != other.content_hash:
        raise UsageError(
            f"both results are on version {suite.version} of the suite {suite.name!r}, but its content differs "
            f"({suite.content_hash[:12]} and {other.content_hash[:12]}): the suite was changed without a new version; "
            "evaluate both policies on one of the two"
        )
