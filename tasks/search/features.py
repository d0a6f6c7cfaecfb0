"""The features that questions test, carried by families and, as tags, by their tasks."""

from __future__ import annotations

from enum import StrEnum


class Feature(StrEnum):
    """The ability that the questions of a family test."""

    LOOKUP = "lookup"
    CHAIN = "chain"
    COMPARISON = "comparison"
    AGGREGATION = "aggregation"
    TEMPORAL = "temporal"
    NAMESAKE = "namesake"
    ALIAS = "alias"
    STALE = "stale"
    INJECTION = "injection"
    UNANSWERABLE = "unanswerable"
    NO_SEARCH = "no_search"
    MASKED = "masked"
