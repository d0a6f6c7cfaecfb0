"""Sets of intervals."""

from bisect import bisect_right

from spanset.parsing import format_spans, parse_spans
from spanset.span import Span


def _as_span(item):
    if isinstance(item, Span):
        return item
    start, end = item
    return Span(start, end)


def normalize(spans):
    """Return spans in order, with those joined that overlap or touch."""
    joined = []
    for span in sorted(spans):
        if joined and joined[-1].touches(span):
            joined[-1] = joined[-1].hull(span)
        else:
            joined.append(span)
    return tuple(joined)


class SpanSet:
    """An immutable set of numbers, held as the fewest possible spans in order."""

    __slots__ = ("_spans", "_starts")

    def __init__(self, spans=()):
        self._spans = normalize(_as_span(item) for item in spans)
        self._starts = [span.start for span in self._spans]

    @classmethod
    def parse(cls, text):
        """Read a set such as `1-3, 5-8`."""
        return cls(parse_spans(text))

    @property
    def spans(self):
        """The spans, in order."""
        return self._spans

    @property
    def total(self):
        """Length of all spans together."""
        return sum(span.length for span in self._spans)

    @property
    def hull(self):
        """The smallest span that covers everything, or `None` for the empty set."""
        if not self._spans:
            return None
        return Span(self._spans[0].start, self._spans[-1].end)

    def find(self, number):
        """Return the span that holds the number, or `None`."""
        place = bisect_right(self._starts, number) - 1
        if place < 0:
            return None
        span = self._spans[place]
        return span if number in span else None

    def __contains__(self, number):
        return self.find(number) is not None

    def union(self, other):
        """Return what is in one or the other."""
        return SpanSet([*self._spans, *other.spans])

    def intersection(self, other):
        """Return what is in both."""
        found = []
        mine, theirs = 0, 0
        while mine < len(self._spans) and theirs < len(other.spans):
            one, two = self._spans[mine], other.spans[theirs]
            common = one.intersect(two)
            if common is not None:
                found.append(common)
            if one.end <= two.end:
                mine += 1
            else:
                theirs += 1
        return SpanSet(found)

    def difference(self, other):
        """Return what is in this set and not in the other."""
        left = list(self._spans)
        for hole in other.spans:
            left = [piece for span in left for piece in span.subtract(hole)]
        return SpanSet(left)

    def symmetric_difference(self, other):
        """Return what is in exactly one of the two."""
        return self.union(other).difference(self.intersection(other))

    def gaps(self, within=None):
        """Return what is missing between the spans, or within a given span."""
        frame = _as_span(within) if within is not None else self.hull
        if frame is None:
            return SpanSet()
        return SpanSet([frame]).difference(self)

    def first_fit(self, length, earliest=None):
        """Return the first span of a length that lies in the set, not before `earliest`; `None` if there is none."""
        for span in self._spans:
            start = span.start if earliest is None else max(span.start, earliest)
            if start + length <= span.end:
                return Span(start, start + length)
        return None

    def isdisjoint(self, other):
        """Whether the two have nothing in common."""
        return not self.intersection(other)

    def issubset(self, other):
        """Whether the other has all of this."""
        return not self.difference(other)

    __or__ = union
    __and__ = intersection
    __sub__ = difference
    __xor__ = symmetric_difference

    def __iter__(self):
        return iter(self._spans)

    def __len__(self):
        return len(self._spans)

    def __bool__(self):
        return bool(self._spans)

    def __eq__(self, other):
        if not isinstance(other, SpanSet):
            return NotImplemented
        return self._spans == other.spans

    def __hash__(self):
        return hash(self._spans)

    def __repr__(self):
        return f"SpanSet.parse({format_spans(self._spans)!r})"
