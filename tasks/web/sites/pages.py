"""Rendering: Jinja templates with escaping always on, and the helpers that all of them can use.

A site's own templates are in its folder and named after it (`shop/cart.html`); the templates that all sites share are
in `data/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.base.errors import require

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
DATA = _HERE / "data"
ASSETS = {"site.css": "text/css; charset=utf-8", "site.js": "text/javascript; charset=utf-8"}
"""Files shared by all sites, with their media types."""


def folder_of(site: str) -> Path:
    """Return the folder with the templates and data of one site."""
    return _HERE / site / "data"


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return the HTML of one page."""
    return environment().get_template(template).render(context)


@cache
def environment() -> Environment:
    """Return the template environment of this process."""
    require("jinja2", "web")
    import jinja2

    sites = [folder.parent.name for folder in sorted(_HERE.glob("*/data"))]
    own = jinja2.PrefixLoader({site: jinja2.FileSystemLoader(folder_of(site)) for site in sites})
    loader = jinja2.ChoiceLoader([jinja2.FileSystemLoader(DATA), own])
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"money": money, "day": day, "moment": moment, "plural": plural, "zip": zip}
    environment.filters["today"] = today
    environment.globals["asset_version"] = hashlib.sha256(b"".join(map(asset, ASSETS))).hexdigest()[:8]
    return environment


@cache
def asset(name: str) -> bytes:
    """Return one of `ASSETS`."""
    return (DATA / name).read_bytes()


def money(cents: int) -> str:
    """Format an amount of cents: `$1,234.50`."""
    sign = "-" if cents < 0 else ""
    return f"{sign}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def day(stamp: str | date) -> str:
    """Format a stored date or moment as a day: `6 January 2025`."""
    when = date.fromisoformat(stamp[:10]) if isinstance(stamp, str) else stamp
    return f"{when.day} {when:%B %Y}"


def moment(stamp: str | datetime) -> str:
    """Format a stored moment: `6 January 2025, 14:05`."""
    when = datetime.strptime(stamp, "%Y-%m-%d %H:%M") if isinstance(stamp, str) else stamp
    return f"{when.day} {when:%B %Y, %H:%M}"


def today(now: datetime) -> str:
    """Format the time of an episode's clock: `Monday, 6 January 2025, 14:05`."""
    return f"{now:%A}, {moment(now)}"


def plural(count: int, singular: str, many: str | None = None) -> str:
    """Format a count with its noun: `1 item`, `3 items`."""
    return f"{count:,} {singular if count == 1 else many or singular + 's'}"
