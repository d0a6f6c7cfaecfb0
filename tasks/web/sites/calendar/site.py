"""The calendar site: the visitor's own day, week and month, and the bookings of a house's rooms and people.

All times are local times of the house, which is open from Monday to Friday.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from agentgym.tasks.web.sites.calendar.booking import ROUTES as BOOKING_ROUTES
from agentgym.tasks.web.sites.calendar.fill import fill_calendar
from agentgym.tasks.web.sites.calendar.find import ROUTES as FIND_ROUTES
from agentgym.tasks.web.sites.calendar.store import asked_day, me, of_person, week_of, weeks_of_month
from agentgym.tasks.web.sites.office import MONTHS, WEEKDAYS, long_date
from agentgym.tasks.web.sites.site import Routes, Site, SiteReply
from agentgym.tasks.web.sites.visit import Visit

ROUTES = Routes()


@ROUTES.get("/")
def start(visit: Visit) -> SiteReply:
    """Show the current week, the calendar's first page."""
    return visit.redirect("/week")


@ROUTES.get("/day")
def show_day(visit: Visit) -> SiteReply:
    """Show one's own bookings of a day."""
    day = asked_day(visit)
    step = timedelta(days=1)
    return visit.page(
        "calendar/day.html", day=day, rows=of_person(visit, me(visit), day, day), before=day - step, after=day + step
    )


@ROUTES.get("/week")
def show_week(visit: Visit) -> SiteReply:
    """Show one's own bookings of a week."""
    days = week_of(asked_day(visit))
    rows = of_person(visit, me(visit), days[0], days[-1])
    grouped = [(day, [row for row in rows if row["day"] == str(day)]) for day in days]
    week = timedelta(days=7)
    return visit.page("calendar/week.html", days=grouped, before=days[0] - week, after=days[0] + week)


@ROUTES.get("/month")
def show_month(visit: Visit) -> SiteReply:
    """Show the number of one's own bookings on each day of a month."""
    day = asked_day(visit)
    weeks = weeks_of_month(day)
    rows = of_person(visit, me(visit), weeks[0][0], weeks[-1][-1])
    counts = {str(date_): sum(row["day"] == str(date_) for row in rows) for week in weeks for date_ in week}
    first = day.replace(day=1)
    return visit.page(
        "calendar/month.html",
        day=day,
        title=f"{MONTHS[day.month - 1]} {day.year}",
        weeks=weeks,
        counts=counts,
        before=(first - timedelta(days=1)).replace(day=1),
        after=(first + timedelta(days=32)).replace(day=1),
    )


def _context(visit: Visit) -> dict[str, Any]:
    person = me(visit)
    sql = (
        "SELECT count(*) FROM attendees a JOIN bookings b ON b.id = a.booking WHERE a.person = ? AND a.answer = 'open'"
    )
    return {
        "person_name": visit.value("SELECT name FROM people WHERE id = ?", person),
        "me": person,
        "open_invitations": visit.value(f"{sql} AND b.day >= ?", person, f"{visit.now:%Y-%m-%d}"),
        "weekdays": WEEKDAYS,
        "long_date": lambda day: long_date(date.fromisoformat(day) if isinstance(day, str) else day),
    }


SITE = Site(
    name="calendar",
    title="Calendar",
    fill=fill_calendar,
    routes=Routes([*ROUTES, *BOOKING_ROUTES, *FIND_ROUTES]),
    context=_context,
)
