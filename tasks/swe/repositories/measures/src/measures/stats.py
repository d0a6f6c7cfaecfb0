"""Sums and means of quantities."""

from measures.errors import MeasureError


def total(quantities, unit=None):
    """Return the sum, in the unit of the first one or in another. Raises `MeasureError` if there are none."""
    items = list(quantities)
    if not items:
        raise MeasureError("there is nothing to add up")
    result = items[0]
    for item in items[1:]:
        result = result + item
    return result if unit is None else result.to(unit)


def mean(quantities, weights=None, unit=None):
    """Return the mean, which may be weighted. Raises `MeasureError` if that cannot be."""
    items = list(quantities)
    weights = [1] * len(items) if weights is None else list(weights)
    if len(weights) != len(items):
        raise MeasureError(f"{len(items)} quantities, but {len(weights)} weights")
    if sum(weights) <= 0:
        raise MeasureError("weights must add up to more than 0")
    summed = total((item * weight for item, weight in zip(items, weights)), unit)
    return summed / sum(weights)


def within(quantity, expected, *, percent=None, absolute=None):
    """Whether a quantity is as far from the expected one as allowed, or nearer; both limits must hold."""
    distance = abs(quantity - expected)
    if percent is not None and distance.value > abs(expected.to(quantity.unit).value) * percent / 100:
        return False
    return absolute is None or distance <= absolute
