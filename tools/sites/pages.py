"""Rendering: Jinja templates of `data/` with escaping always on, and what all of them can use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import require

if TYPE_CHECKING:
    from jinja2 import Environment

DATA = Path(__file__).parent / "data"
ASSETS = {"site.css": "text/css; charset=utf-8", "site.js": "text/javascript; charset=utf-8"}
"""Files that all sites share, with their media types."""


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return the HTML of one page."""
    return environment().get_template(template).render(context)


@cache
def environment() -> Environment:
    """Return the template environment of this process."""
    require("jinja2", "web")
    import jinja2

    loader = jinja2.FileSystemLoader(DATA)
    made = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"money": money, "day": day, "moment": moment, "plural": plural, "zip": zip}
    made.globals["asset_version"] = hashlib.sha256(b"".join(map(asset, ASSETS))).hexdigest()[:8]
    return made


@cache
def asset(name: str) -> bytes:
    """Return one of `ASSETS`."""
    return (DATA / name).read_bytes()


def money(cents: int) -> str:
    """Show an amount of cents: `$1,234.50`."""
    sign = "-" if cents < 0 else ""
    return f"{sign}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def day(stamp: str | date) -> str:
    """Show a stored date or moment as a day: `6 January 2025`."""
    when = date.fromisoformat(stamp[:10]) if isinstance(stamp, str) else stamp
    return f"{when.day} {when:%B %Y}"


def moment(stamp: str | datetime) -> str:
    """Show a stored moment: `6 January 2025, 14:05`."""
    when = datetime.strptime(stamp, "%Y-%m-%d %H:%M") if isinstance(stamp, str) else stamp
    return f"{when.day} {when:%B %Y, %H:%M}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Show a count with its noun: `1 item`, `3 items`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
