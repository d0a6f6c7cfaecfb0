"""A tiny template engine."""

from quillet.engine import Engine, Template
from quillet.errors import QuilletError, RenderError, TemplateSyntaxError
from quillet.filters import FILTERS

__all__ = ["FILTERS", "Engine", "QuilletError", "RenderError", "Template", "TemplateSyntaxError"]
__version__ = "0.5.1"
