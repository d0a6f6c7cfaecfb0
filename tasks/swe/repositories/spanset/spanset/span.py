"""One half-open interval."""

from dataclasses import dataclass


class SpanError(ValueError):
    """An interval that cannot be."""


@dataclass(frozen=True, order=True)
class Span:
    """The numbers from `start` up to, and not including, `end`."""

    start: float
    end: float

    def __post_init__(self):
        if not self.start < self.end:
            raise SpanError(f"start must be below end: {self.start!r}, {self.end!r}")

    @property
    def length(self):
        """How long it is."""
        return self.end - self.start

    def __contains__(self, number):
        return self.start <= number < self.end

    def overlaps(self, other):
        """Whether the two have a number in common."""
        return self.start < other.end and other.start < self.end

    def touches(self, other):
        """Whether the two overlap or follow each other without a gap."""
        return self.start <= other.end and other.start <= self.end

    def covers(self, other):
        """Whether all of `other` lies in this one."""
        return self.start <= other.start and other.end <= self.end

    def intersect(self, other):
        """Return the common part, or `None` if there is none."""
        if not self.overlaps(other):
            return None
        return Span(max(self.start, other.start), min(self.end, other.end))

    def hull(self, other):
        """Return the smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))

    def subtract(self, other):
        """Return what is left of this one without the other: none, one or two spans."""
        if not self.overlaps(other):
            return [self]
        left = []
        if self.start < other.start:
            left.append(Span(self.start, other.start))
        if other.end < self.end:
            left.append(Span(other.end, self.end))
        return left

    def shift(self, distance):
        """Return the span moved by a distance."""
        return Span(self.start + distance, self.end + distance)

    def split(self, *points):
        """Return the pieces between points; points outside or at the ends are ignored."""
        inner = sorted({point for point in points if self.start < point < self.end})
        bounds = [self.start, *inner, self.end]
        return [Span(low, high) for low, high in zip(bounds, bounds[1:])]
