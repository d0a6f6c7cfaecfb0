"""The mail, admin and calendar sites: invalid input is refused, and their rules hold."""

from __future__ import annotations

from datetime import date

import pytest

pytest.importorskip("starlette", reason="needs the [web] extra")
pytest.importorskip("jinja2", reason="needs the [web] extra")
pytest.importorskip("uvicorn", reason="needs the [web] extra")
pytest.importorskip("httpx", reason="needs httpx")

from agentgym.tasks.web.sites import SiteServer, SiteState, find_site
from agentgym.tasks.web.sites.calendar.store import free_spans, minutes, repeated, weeks_of_month
from agentgym.tasks.web.sites.mail.compose import receivers
from agentgym.tasks.web.sites.office import fold, same_site
from tests.tasks.web.sites_driver import Driver

PAGES = {
    "mail": (
        *("/folder/1", "/search?q=draft", "/message/20", "/compose?kind=all&message=20", "/contacts", "/contacts/3"),
        *("/organise", "/filters", "/vacation", "/folder/1?show=unread&sort=subject&page=2"),
    ),
    "admin": (
        *("/", "/customers?sort=-name&segment=Retail", "/customers/5", "/customers/new", "/invoices?edit=3"),
        *("/invoices/9", "/staff?department=Sales", "/staff/7", "/roles", "/audit", "/customers/export"),
        "/invoices/export?status=paid",
    ),
    "calendar": (
        *("/week", "/day", "/month", "/agenda?q=re&page=2", "/booking/9", "/booking/new", "/invitations", "/rooms"),
        *("/rooms/2", "/people", "/people/4", "/free?minutes=90&seats=4"),
    ),
}
FORMS = {
    "mail": (
        *("/messages", "/compose", "/contacts/new", "/contacts/2", "/filters", "/vacation", "/draft/20/discard"),
        *("/organise/folder/2/delete", "/organise/secret/new", "/folder/1/empty", "/filters/99/delete"),
    ),
    "admin": (
        *("/customers/new", "/customers/4", "/customers/bulk", "/invoices/new", "/invoices/3", "/invoices/3/status"),
        *("/invoices/bulk", "/staff/new", "/staff/3", "/staff/bulk"),
    ),
    "calendar": ("/booking/new", "/booking/999/edit", "/booking/999/answer", "/booking/3/answer"),
}
QUERY_NAMES = ("page", "q", "sort", "date", "day", "since", "room", "message", "seats", "minutes", "edit", "label")
FORM_NAMES = ("message", "action", "to", "kind", "name", "email", "row", "status", "amount", "day", "answer", "part")
HOSTILE = (
    *("<script>alert(1)</script>", "' OR 1=1 --", "%00", "\u202eabc", "a" * 600, "-1", "99999999999999999999"),
    "../../etc",
)


def visit(site: str, seed: int = 3) -> Driver:
    return Driver(SiteServer.shared().open(site, seed))


def post(driver: Driver, path: str, **fields: str) -> int:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return driver.client.post(path, data=fields, headers=headers).status_code


@pytest.mark.parametrize("site", PAGES)
def test_hostile_queries_and_forms_change_nothing(site: str):
    episode = SiteServer.shared().open(site, 3)
    before = episode.digest()
    with Driver(episode) as driver:
        for number, path in enumerate(PAGES[site]):
            assert driver.client.get(path).status_code == 200
            for place, name in enumerate(QUERY_NAMES):
                text = HOSTILE[(number + place) % len(HOSTILE)]
                response = driver.client.get(path.partition("?")[0], params={name: text})
                assert response.status_code in (200, 400, 404), (path, name, text)
                assert "<script>alert" not in response.text
        for path in FORMS[site]:
            for text in HOSTILE:
                assert post(driver, path, **dict.fromkeys(FORM_NAMES, text)) < 500, (path, text)
    assert episode.digest() == before


LETTER = {"kind": "new", "to": "amy@a.test", "subject": "Hi", "body": "Text", "action": "send"}
MEETING = {"title": "T", "room": "1", "day": "2030-01-07", "starts": "10:00", "ends": "11:00", "every": "once"}
REFUSED = [
    *(
        ("mail", "/compose", LETTER | mistake, words)
        for mistake, words in (
            ({"to": "nobody"}, "is not an e-mail address"),
            ({"subject": ""}, "fill in"),
            ({"body": ""}, "fill in"),
        )
    ),
    *(
        ("calendar", "/booking/new", MEETING | mistake, words)
        for mistake, words in (
            ({"starts": "07:00"}, "The house is open from 08:00 to 18:00."),
            ({"ends": "10:00"}, "The end must be after the start."),
            ({"ends": "10:50"}, "Please use steps of 15 minutes."),
            ({"day": "2030-01-05"}, "from Monday to Friday"),
            ({"people": "Nobody Atall"}, "Nobody here is called “Nobody Atall”."),
            ({"room": "77"}, "Please choose one of the options."),
        )
    ),
]
UNCHANGED = (
    ("mail", "/contacts/3", "Save contact"),
    ("admin", "/customers/5", "Save customer"),
    ("admin", "/invoices/9", "Save invoice"),
    ("admin", "/staff/9", "Save person"),
)


def test_input_with_a_mistake_is_refused_and_unchanged_input_changes_nothing():
    for site, path, fields, words in REFUSED:
        with visit(site) as driver:
            response = driver.client.post(path, data=fields)
            assert (response.status_code, words in response.text) == (422, True), fields
    for site, path, name in UNCHANGED:
        episode = SiteServer.shared().open(site, 3)
        before = episode.digest()
        with Driver(episode) as driver:
            driver.goto(path)
            driver.take({"do": "click", "role": "button", "name": name})
            assert driver.status == 200
        assert episode.digest() == before


def test_recipients_are_normalised_and_replies_omit_oneself():
    episode = SiteServer.shared().open("mail", 3)
    with Driver(episode) as driver:
        assert post(driver, "/compose", **LETTER | {"to": "Zed Z <zed@z.test>; amy@a.test,ZED@z.test"}) == 200
    assert episode.query("SELECT recipients FROM messages ORDER BY id DESC LIMIT 1") == [("amy@a.test, zed@z.test",)]
    reply = receivers("ann@a.test", "me@a.test", "bob@a.test, me@a.test", "me@a.test", everybody=False)
    assert reply == ("ann@a.test", "")
    everybody = receivers("ann@a.test", "cy@a.test, me@a.test", "ann@a.test, bob@a.test", "me@a.test", everybody=True)
    assert everybody == ("ann@a.test, cy@a.test", "bob@a.test")


def test_a_refused_bulk_change_is_undone_and_the_audit_log_is_not_state():
    episode = SiteServer.shared().open("admin", 3)
    before = episode.digest()
    rows = [
        str(episode.query(f"SELECT max(id) FROM invoices WHERE status = '{status}'")[0][0])
        for status in ("draft", "paid")
    ]
    (status,) = episode.query("SELECT status FROM invoices WHERE id = 3")[0]
    with Driver(episode) as driver:
        assert driver.client.post("/invoices/bulk", data={"row": rows, "action": "delete"}).status_code == 409
        assert post(driver, "/invoices/3/status", status=status) == 200
    assert episode.query("SELECT count(*) FROM audit") == [(2,)]
    assert episode.digest() == before


def test_bookings_do_not_overlap_and_only_the_organiser_changes_them():
    episode = SiteServer.shared().open("calendar", 3)
    (number,) = episode.query("SELECT min(id) FROM bookings WHERE organiser <> 1")[0]
    with Driver(episode) as driver:
        assert post(driver, "/booking/new", **MEETING) == 200
        assert post(driver, "/booking/new", **MEETING | {"starts": "10:45", "ends": "12:00"}) == 422
        assert post(driver, "/booking/new", **MEETING | {"starts": "11:00", "ends": "12:00"}) == 200
        assert driver.client.get(f"/booking/{number}/edit").status_code == 403
        assert post(driver, f"/booking/{number}/cancel") == 403
    overlapping = (
        "SELECT count(*) FROM bookings a JOIN bookings b ON a.room = b.room AND a.day = b.day AND a.id < b.id "
        "AND a.starts < b.ends AND b.starts < a.ends"
    )
    for seed in range(12):
        assert SiteState(find_site("calendar"), seed).query(overlapping) == [(0,)]


def test_free_spans_repeated_days_and_months_follow_the_calendar():
    busy = [(minutes("09:00"), minutes("10:00")), (minutes("09:30"), minutes("11:15"))]
    assert free_spans(busy, 60) == [(480, 540), (675, 1080)]
    assert free_spans(busy, 61) == [(675, 1080)]
    assert free_spans([(480, 1080)], 15) == []
    assert repeated(date(2025, 1, 3), "day", 3) == [date(2025, 1, 3), date(2025, 1, 6), date(2025, 1, 7)]
    assert repeated(date(2025, 1, 3), "fortnight", 2)[-1] == date(2025, 1, 17)
    days = [day for week in weeks_of_month(date(2025, 2, 15)) for day in week if day.month == 2]
    assert (days[0].day, days[-1].day, len(days)) == (1, 28, 28)


def test_search_ignores_case_and_accents_and_redirects_stay_on_the_site():
    assert fold("Zoë SØRENSEN") == "zoe sorensen"
    assert same_site("/folder/1?page=2", "/") == "/folder/1?page=2"
    assert {same_site(path, "/") for path in ("//evil.test", "http://evil.test", "/\\evil.test", "", "/a\nb")} == {"/"}
