"""Tracker: families that change one issue at a time."""

from __future__ import annotations

from datetime import date, timedelta

from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.plan import button, fill, link, select, tick
from agentgym.tasks.web.sites.tracker.fill import PRIORITIES
from agentgym.tasks.web.tracker.steps import (
    ME,
    NOW,
    SENTENCES,
    comment_change,
    issues,
    open_issue,
    status_change,
)

_TITLES = (
    "Login page forgets the language",
    "Add a “copy link” button",
    "Export fails for names with an apostrophe",
    "Sort by last change",
    "Überschriften werden abgeschnitten",
    "Warn before closing unsaved work",
)
_BODIES = (
    "Reported by phone today.",
    "It happens about once a day.",
    "A customer is waiting for this.",
    "See the notes of the last meeting.",
)


@family(
    "tracker.watch",
    1,
    "Watch the issue {issue}.",
    "I want to be told about changes of {issue}: start watching it.",
    "I'd like to follow {issue}. Please watch it for me.",
)
def watch(scene: WebScene) -> WebDraft:
    """Watch an issue."""
    issue = scene.choice(issues(scene, "id NOT IN (SELECT issue_id FROM watching)"))
    return WebDraft(
        words={"issue": issue["name"]},
        plan=[*open_issue(issue["name"]), button("Watch")],
        effect=[("INSERT INTO watching VALUES (?)", [issue["id"]])],
        checks=[exists("watched", "watching WHERE issue_id = ?", issue["id"])],
    )


@family(
    "tracker.close",
    1,
    "Close {issue} as done.",
    "The work on {issue} is finished. Please close it as done.",
    "Please close {issue}; it is done.",
)
def close(scene: WebScene) -> WebDraft:
    """Close an issue."""
    issue = scene.choice(issues(scene, "closed_at IS NULL"))
    return WebDraft(
        words={"issue": issue["name"]},
        plan=[*open_issue(issue["name"]), button("Close as done")],
        effect=[status_change(issue["id"], "Done")],
        checks=[check("closed", "SELECT status = 'Done' FROM issue WHERE id = ?", issue["id"])],
    )


@family(
    "tracker.comment",
    2,
    "Comment on {issue}: {body}",
    "Write this comment, word for word, on the issue {issue}: {body}",
    "Please add exactly this comment to {issue}: {body}",
)
def comment(scene: WebScene) -> WebDraft:
    """Comment on an issue."""
    issue, body = scene.choice(issues(scene)), scene.choice(SENTENCES)
    where = f"comment WHERE issue_id = ? AND author_id = {ME} AND written_at = {NOW}"
    return WebDraft(
        words={"issue": issue["name"], "body": body},
        plan=[*open_issue(issue["name"]), fill("Your comment", body), button("Add comment")],
        effect=[comment_change(issue["id"], body)],
        checks=[exists("commented", where, issue["id"])],
    )


@family(
    "tracker.assign",
    2,
    "Assign {issue} to {person} and set its priority to {priority}.",
    "{person} will take care of {issue}. Make that person the assignee, and set the priority to {priority}.",
    "Please give {issue} to {person} and make its priority {priority}.",
)
def assign(scene: WebScene) -> WebDraft:
    """Change the assignee and priority of an issue."""
    issue = scene.choice(issues(scene))
    person = scene.pick("SELECT * FROM person WHERE id IS NOT ? ORDER BY id", issue["assignee_id"])
    priority = scene.choice([name for name in PRIORITIES if name != issue["priority"]])
    plan = [
        *open_issue(issue["name"]),
        link("Edit issue"),
        select("Priority", priority),
        select("Assignee", person["name"]),
    ]
    return WebDraft(
        words={"issue": issue["name"], "person": person["name"], "priority": priority},
        plan=[*plan, button("Save issue")],
        effect=[("UPDATE issue SET assignee_id = ?, priority = ? WHERE id = ?", [person["id"], priority, issue["id"]])],
        checks=[
            check("assignee", "SELECT assignee_id = ? FROM issue WHERE id = ?", person["id"], issue["id"]),
            check("priority", "SELECT priority = ? FROM issue WHERE id = ?", priority, issue["id"]),
        ],
    )


@family(
    "tracker.create",
    3,
    "Create an issue in {project}: title “{title}”, description “{body}”, priority {priority}, assigned to "
    "{person}, due on "
    "{due}, labels {first} and {second}.",
    "Open a new issue in the project {project} called “{title}” with the description “{body}”. It is {priority}, "
    "has the "
    "labels {first} and {second}, is due on {due}, and {person} will work on it.",
    "Please file an issue in {project}: “{title}”. The description is “{body}”, the priority {priority}, the "
    "assignee {person} and the due date {due}; give it the labels {first} and {second}.",
)
def create(scene: WebScene) -> WebDraft:
    """Create an issue with most fields filled in."""
    project, person = scene.pick("SELECT * FROM project ORDER BY id"), scene.pick("SELECT * FROM person ORDER BY id")
    title, body = scene.choice(_TITLES), scene.choice(_BODIES)
    priority = scene.choice([name for name in PRIORITIES if name != "Medium"])
    due = str(date.fromisoformat(scene.today) + timedelta(days=scene.rng.randint(3, 60)))
    labels = scene.rng.sample(scene.rows("SELECT * FROM label ORDER BY id"), 2)
    plan = [link(project["name"]), link("New issue"), fill("Title", title), fill("Description", body)]
    plan += [select("Priority", priority), select("Assignee", person["name"]), fill("Due date", due)]
    plan += [tick(label["name"]) for label in labels]
    created = (
        "INSERT INTO issue (project_id, number, title, body, status, priority, assignee_id, reporter_id, due_on, "
        "created_at) "
        "VALUES (?, (SELECT max(number) + 1 FROM issue WHERE project_id = ?), ?, ?, 'Open', ?, ?, "
        f"{ME}, ?, {NOW})",
        [project["id"], project["id"], title, body, priority, person["id"], due],
    )
    labelled = "INSERT INTO issue_label VALUES ((SELECT max(id) FROM issue), ?)"
    new = f"issue WHERE project_id = ? AND created_at = {NOW} AND title = ?"
    return WebDraft(
        words={"project": project["name"], "title": title, "body": body, "priority": priority, "due": due}
        | {"person": person["name"], "first": labels[0]["name"], "second": labels[1]["name"]},
        plan=[*plan, button("Create issue")],
        effect=[created, *[(labelled, [label["id"]]) for label in labels]],
        checks=[
            exists("created", new, project["id"], title),
            exists("assignee", f"{new} AND assignee_id = ?", project["id"], title, person["id"]),
            exists("due", f"{new} AND due_on = ?", project["id"], title, due),
        ],
    )


@family(
    "tracker.duplicate",
    3,
    "In {project}, “{title}” reports the same as {other}. Close it as a duplicate of {other}.",
    "Mark the issue “{title}” of {project} as a duplicate of {other}.",
    "“{title}” in {project} is the same problem as {other}. Please mark it as a duplicate of that issue.",
)
def duplicate(scene: WebScene) -> WebDraft:
    """Close an issue as a duplicate."""
    issue = scene.choice(issues(scene, "closed_at IS NULL"))
    scene.only("SELECT 1 FROM issue WHERE project_id = ? AND title = ?", issue["project_id"], issue["title"])
    other = scene.choice(issues(scene, "project_id = ? AND id <> ?", issue["project_id"], issue["id"]))
    project = scene.only("SELECT name FROM project WHERE id = ?", issue["project_id"])["name"]
    plan = [link(project), fill("Text", issue["title"]), button("Apply filters"), link(issue["name"])]
    plan += [link("Link to another issue"), fill("Duplicate of", other["name"]), button("Close as duplicate")]
    closed = f"UPDATE issue SET status = 'Duplicate', closed_at = {NOW}, duplicate_of = ? WHERE id = ?"
    return WebDraft(
        words={"project": project, "title": issue["title"], "other": other["name"]},
        plan=plan,
        effect=[(closed, [other["id"], issue["id"]])],
        checks=[check("duplicate", "SELECT duplicate_of = ? FROM issue WHERE id = ?", other["id"], issue["id"])],
    )


@family(
    "tracker.edit_comment",
    3,
    "Replace my comment on {issue} with: {body}",
    "I commented once on {issue}. Change that comment so that it only says: {body}",
    "Please edit the comment that I wrote on {issue}. Its new text is: {body}",
)
def edit_comment(scene: WebScene) -> WebDraft:
    """Edit one's own comment."""
    own = scene.pick(f"SELECT * FROM comment WHERE author_id = {ME} ORDER BY id")
    scene.only(f"SELECT 1 FROM comment WHERE author_id = {ME} AND issue_id = ?", own["issue_id"])
    issue = issues(scene, "id = ?", own["issue_id"])[0]
    place = scene.value("SELECT count(*) FROM comment WHERE issue_id = ? AND id <= ?", own["issue_id"], own["id"])
    body = scene.choice(SENTENCES)
    plan = [*open_issue(issue["name"]), link(f"Edit comment {place}"), fill("Comment", body), button("Save comment")]
    return WebDraft(
        words={"issue": issue["name"], "body": body},
        plan=plan,
        effect=[(f"UPDATE comment SET body = ?, edited_at = {NOW} WHERE id = ?", [body, own["id"]])],
        checks=[check("edited", "SELECT body = ? FROM comment WHERE id = ?", body, own["id"])],
    )


@family(
    "tracker.or_comment",
    4,
    "If {issue} is still open, set its status to {status}. If it was closed already, leave it closed and write the "
    "comment: "
    "{body}",
    "Set {issue} to {status}, but only if it has not been closed. If it has, just add this comment to it: {body}",
    "Has {issue} been closed already? If so, leave it closed and add the comment: {body} If not, change its "
    "status to {status}.",
)
def or_comment(scene: WebScene) -> WebDraft:
    """Change the status or comment, depending on the state."""
    closed = scene.rng.random() < 0.5
    issue = scene.choice(issues(scene, "closed_at IS NOT NULL" if closed else "closed_at IS NULL"))
    status = scene.choice([name for name in ("In progress", "In review", "Open") if name != issue["status"]])
    body = scene.choice(SENTENCES)
    words = {"issue": issue["name"], "status": status, "body": body}
    plan = open_issue(issue["name"])
    if closed:
        where = f"comment WHERE issue_id = ? AND author_id = {ME} AND written_at = {NOW}"
        return WebDraft(
            words=words,
            plan=[*plan, fill("Your comment", body), button("Add comment")],
            effect=[comment_change(issue["id"], body)],
            checks=[exists("commented", where, issue["id"])],
        )
    return WebDraft(
        words=words,
        plan=[*plan, link("Edit issue"), select("Status", status), button("Save issue")],
        effect=[status_change(issue["id"], status)],
        checks=[check("status", "SELECT status = ? FROM issue WHERE id = ?", status, issue["id"])],
    )
