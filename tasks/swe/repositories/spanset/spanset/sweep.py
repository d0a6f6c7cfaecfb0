"""How many intervals lie over each other, and where."""

from spanset.span import Span


def coverage(spans):
    """Return (span, count) pairs: the stretches of constant count, in order, those without any left out."""
    changes = {}
    for span in spans:
        changes[span.start] = changes.get(span.start, 0) + 1
        changes[span.end] = changes.get(span.end, 0) - 1
    result = []
    count = 0
    previous = None
    for point in sorted(changes):
        if count > 0 and previous is not None:
            result.append((Span(previous, point), count))
        count += changes[point]
        previous = point
    return _joined(result)


def busiest(spans):
    """Return the first stretch with the most intervals and their number. Raises `ValueError` without intervals."""
    layers = coverage(spans)
    if not layers:
        raise ValueError("no intervals to compare")
    best = layers[0]
    for layer in layers[1:]:
        if layer[1] > best[1]:
            best = layer
    return best


def _joined(layers):
    """Join neighbours with the same count."""
    joined = []
    for span, count in layers:
        if joined and joined[-1][1] == count and joined[-1][0].end == span.start:
            joined[-1] = (joined[-1][0].hull(span), count)
        else:
            joined.append((span, count))
    return joined
