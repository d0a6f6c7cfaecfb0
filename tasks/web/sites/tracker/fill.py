"""The tracker's initial content: projects with milestones, issues with labels, comments and links, and people."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from agentgym.tasks.data_files import read_data
from agentgym.tasks.web.sites.site import Build

OPEN = ("Open", "In progress", "In review")
CLOSED = ("Done", "Won't fix", "Duplicate")
STATUSES = OPEN + CLOSED
PRIORITIES = ("Critical", "High", "Medium", "Low")


def fill(build: Build) -> None:
    """Fill the tracker for a seed."""
    texts, rng = read_data("web/sites/tracker", "tracker"), build.rng
    for person in build.words.people(12):
        build.insert("person", username=person.username, name=person.name)
    build.insert("me", person_id=1)
    for name in texts["labels"]:
        build.insert("label", name=name)
    for project in rng.sample(build.words.part(texts["projects"]), 3):
        project_id = build.insert("project", lead_id=rng.randint(1, 12), **project)
        _fill_project(build, texts, project_id)
    _fill_links(build)
    build.insert("saved_filter", name="Urgent and open", query="status=open&priority=Critical")


def _fill_project(build: Build, texts: dict[str, Any], project_id: int) -> None:
    rng = build.rng
    milestones = [
        build.insert("milestone", project_id=project_id, name=name, due_on=build.day(rng.randint(-60, 200)), closed=0)
        for name in rng.sample(texts["milestones"], 4)
    ]
    parts = rng.sample(texts["parts"], 9)
    titles: dict[str, tuple[str, str]] = {}
    while len(titles) < 38:
        part, other = rng.sample(parts, 2)
        text, label = rng.choice(texts["titles"])
        title = text.format(part=part, other=other)
        titles.setdefault(title[0].upper() + title[1:], (part, label))
    staff = rng.sample(range(1, 13), 7)
    for number, (title, (part, label)) in enumerate(titles.items(), 1):
        age = (39 - number) * 6
        issue_id = _fill_issue(build, project_id, number, title, age, staff, milestones)
        body = rng.choice(texts["bodies"]).format(part=part)
        build.db.execute("UPDATE issue SET body = ? WHERE id = ?", (body, issue_id))
        labels = {label, *rng.sample(texts["labels"], rng.choice((0, 0, 1)))}
        for name in sorted(labels):
            build.db.execute("INSERT INTO issue_label SELECT ?, id FROM label WHERE name = ?", (issue_id, name))
        _fill_comments(build, texts, issue_id, part, age, staff)


def _fill_issue(
    build: Build, project_id: int, number: int, title: str, age: int, staff: list[int], milestones: list[int]
) -> int:
    rng = build.rng
    status = rng.choices(STATUSES, (8, 4, 2, 6, 1, 0))[0]
    # All issues of the last milestone are closed; those of the first one are not.
    milestone = rng.choice([*milestones, None])
    if milestone == milestones[-1]:
        status = "Done"
    return build.insert(
        "issue",
        project_id=project_id,
        number=number,
        title=title,
        body="",
        status=status,
        priority=rng.choices(PRIORITIES, (1, 3, 5, 3))[0],
        assignee_id=rng.choice(staff) if rng.random() < 0.75 else None,
        reporter_id=rng.randint(1, 12),
        milestone_id=milestone,
        due_on=build.day(rng.randint(-20, 120)) if rng.random() < 0.4 else None,
        created_at=build.before(age, 2.5),
        closed_at=build.before(age / 2, age / 3) if status in CLOSED else None,
        duplicate_of=None,
    )


def _fill_comments(build: Build, texts: dict[str, Any], issue: int, part: str, age: float, staff: list[int]) -> None:
    count = min(int(build.rng.expovariate(1 / 1.6)), 7)
    for text in build.rng.sample(texts["comments"], count):
        age *= build.rng.uniform(0.4, 0.95)
        build.insert(
            "comment",
            issue_id=issue,
            author_id=build.rng.choice([1, *staff]),
            body=text.format(part=part),
            written_at=build.before(age),
        )


def _fill_links(build: Build) -> None:
    open_issues = build.db.execute(
        "SELECT project_id, id FROM issue WHERE closed_at IS NULL ORDER BY project_id, id"
    ).fetchall()
    for project_id in (1, 2, 3):
        candidates = [issue for project, issue in open_issues if project == project_id]
        chain = build.rng.sample(candidates, 4)
        for blocker, blocked in pairwise(chain):
            build.insert("blocking", blocker_id=blocker, blocked_id=blocked)
    for issue in build.rng.sample([issue for _, issue in open_issues], 5):
        build.insert("watching", issue_id=issue)
