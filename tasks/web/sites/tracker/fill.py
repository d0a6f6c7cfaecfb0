"""The tracker's initial content: projects with milestones, issues with labels, comments and links, and people."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import yaml

from agentgym.tasks.web.sites.pages import folder_of
from agentgym.tasks.web.sites.site import Build

SCHEMA = """
CREATE TABLE person (id INTEGER PRIMARY KEY, username TEXT UNIQUE NOT NULL, name TEXT UNIQUE NOT NULL);
CREATE TABLE me (person_id INTEGER PRIMARY KEY REFERENCES person);
CREATE TABLE project (
    id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, name TEXT NOT NULL, about TEXT NOT NULL,
    lead_id INTEGER NOT NULL REFERENCES person);
CREATE TABLE milestone (
    id INTEGER PRIMARY KEY, project_id INTEGER NOT NULL REFERENCES project, name TEXT NOT NULL, due_on TEXT NOT NULL,
    closed INTEGER NOT NULL, UNIQUE (project_id, name));
CREATE TABLE label (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE issue (
    id INTEGER PRIMARY KEY, project_id INTEGER NOT NULL REFERENCES project, number INTEGER NOT NULL,
    title TEXT NOT NULL, body TEXT NOT NULL, status TEXT NOT NULL, priority TEXT NOT NULL,
    assignee_id INTEGER REFERENCES person, reporter_id INTEGER NOT NULL REFERENCES person,
    milestone_id INTEGER REFERENCES milestone, due_on TEXT, created_at TEXT NOT NULL, closed_at TEXT,
    duplicate_of INTEGER REFERENCES issue, UNIQUE (project_id, number));
CREATE TABLE issue_label (
    issue_id INTEGER NOT NULL REFERENCES issue, label_id INTEGER NOT NULL REFERENCES label,
    PRIMARY KEY (issue_id, label_id));
CREATE TABLE comment (
    id INTEGER PRIMARY KEY, issue_id INTEGER NOT NULL REFERENCES issue, author_id INTEGER NOT NULL REFERENCES person,
    body TEXT NOT NULL, written_at TEXT NOT NULL, edited_at TEXT);
CREATE TABLE blocking (
    blocker_id INTEGER NOT NULL REFERENCES issue, blocked_id INTEGER NOT NULL REFERENCES issue,
    PRIMARY KEY (blocker_id, blocked_id));
CREATE TABLE watching (issue_id INTEGER PRIMARY KEY REFERENCES issue);
CREATE TABLE saved_filter (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, query TEXT NOT NULL);
CREATE INDEX comment_issue ON comment (issue_id)
"""
OPEN = ("Open", "In progress", "In review")
CLOSED = ("Done", "Won't fix", "Duplicate")
STATUSES = OPEN + CLOSED
PRIORITIES = ("Critical", "High", "Medium", "Low")


@cache
def work() -> dict[str, Any]:
    """Return the content of `data/tracker.yaml`."""
    return yaml.safe_load((folder_of("tracker") / "tracker.yaml").read_text(encoding="utf-8"))


def fill(build: Build) -> None:
    """Fill the tracker for a seed."""
    texts, rng = work(), build.rng
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
