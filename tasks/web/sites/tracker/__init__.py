"""The tracker, http://tracker.test/: projects, issues with comments and links, milestones, bulk edits, saved "
"filters."""

from __future__ import annotations

from agentgym.tasks.web.sites.site import Routes, Site
from agentgym.tasks.web.sites.tracker import edit, issue, listing
from agentgym.tasks.web.sites.tracker.fill import fill
from agentgym.tasks.web.sites.visit import Visit


def _context(visit: Visit) -> dict[str, object]:
    return {
        "me": visit.row("SELECT person.* FROM person JOIN me ON person_id = id"),
        "projects": visit.rows("SELECT * FROM project ORDER BY id"),
    }


SITE = Site(
    name="tracker",
    title="Trailhead",
    fill=fill,
    routes=Routes([*listing.routes, *issue.routes, *edit.routes]),
    context=_context,
)
