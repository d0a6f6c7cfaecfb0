"""Sets of numbers made of half-open intervals."""

from spanset.parsing import SpanSyntaxError, format_spans, parse_spans
from spanset.span import Span, SpanError
from spanset.spans import SpanSet
from spanset.sweep import busiest, coverage

__all__ = [
    "Span",
    "SpanError",
    "SpanSet",
    "SpanSyntaxError",
    "busiest",
    "coverage",
    "format_spans",
    "parse_spans",
]
__version__ = "0.9.2"
