"""The tracker, http://tracker.test/: projects, issues with comments and links, milestones, bulk edits, saved "
"filters."""

from __future__ import annotations

from agentgym.tools.sites import tracker_bulk, tracker_edit, tracker_issue, tracker_list
from agentgym.tools.sites.site import Routes, Site
from agentgym.tools.sites.tracker_fill import SCHEMA, fill
from agentgym.tools.sites.visit import Visit


def _context(visit: Visit) -> dict[str, object]:
    return {
        "me": visit.row("SELECT person.* FROM person JOIN me ON person_id = id"),
        "projects": visit.rows("SELECT * FROM project ORDER BY id"),
    }


SITE = Site(
    name="tracker",
    title="Trailhead",
    schema=SCHEMA,
    fill=fill,
    routes=Routes([*tracker_list.routes, *tracker_issue.routes, *tracker_edit.routes, *tracker_bulk.routes]),
    context=_context,
)
