"""Reading and writing sets of intervals as text, such as `1-3, 5-8.5, -4--2`."""

import re

from spanset.span import Span, SpanError

_NUMBER = r"-?\d+(?:\.\d+)?"
_SPAN = re.compile(rf"\s*({_NUMBER})\s*(?:-|\.\.|to)\s*({_NUMBER})\s*")


class SpanSyntaxError(SpanError):
    """Text that is not a set of intervals; tells where it stops being one."""

    def __init__(self, message, position):
        super().__init__(f"{message} at position {position}")
        self.position = position


def _number(text):
    value = float(text)
    return int(value) if value.is_integer() else value


def parse_spans(text):
    """Return the spans in a text, in the order in which they stand there."""
    spans = []
    position = 0
    if not text.strip():
        return spans
    while True:
        found = _SPAN.match(text, position)
        if found is None:
            raise SpanSyntaxError("expected an interval", position)
        start, end = _number(found[1]), _number(found[2])
        if start >= end:
            raise SpanSyntaxError(f"interval {start}-{end} is empty", position)
        spans.append(Span(start, end))
        position = found.end()
        if position == len(text):
            return spans
        if text[position] not in ",;":
            raise SpanSyntaxError("expected a comma", position)
        position += 1


def format_spans(spans, separator=", "):
    """Return spans as text that `parse_spans` reads back."""
    return separator.join(f"{_shown(span.start)}-{_shown(span.end)}" for span in spans)


def _shown(number):
    if isinstance(number, float) and number.is_integer():
        return str(int(number))
    return str(number)
