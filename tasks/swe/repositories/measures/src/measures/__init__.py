"""Quantities with units."""

from measures.errors import DimensionError, MeasureError, UnitError
from measures.formatting import humanize, significant
from measures.quantity import Quantity
from measures.registry import DEFAULT, Registry
from measures.stats import mean, total, within
from measures.temperature import convert_temperature
from measures.units import Unit

__all__ = [
    "DEFAULT",
    "DimensionError",
    "MeasureError",
    "Quantity",
    "Registry",
    "Unit",
    "UnitError",
    "convert_temperature",
    "humanize",
    "mean",
    "significant",
    "total",
    "within",
]
__version__ = "1.2.0"
