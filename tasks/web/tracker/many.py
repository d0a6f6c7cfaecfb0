"""Tracker: families about several issues, milestones and filters."""

from __future__ import annotations

from datetime import date, timedelta

from agentgym.tasks.web.checks import check, exists
from agentgym.tasks.web.family import IMPOSSIBLE, WebDraft, WebScene, family
from agentgym.tasks.web.plan import answer, button, fill, link, select, tick
from agentgym.tasks.web.sites.tracker.fill import PRIORITIES
from agentgym.tasks.web.tracker.steps import ME, NOW, comment_change, issues, marks, open_issue, status_change

_LABELLED = "id IN (SELECT issue_id FROM issue_label JOIN label ON label.id = label_id WHERE label.name = ?)"


@family(
    "tracker.save_filter",
    3,
    "Save a filter called “{name}” for the open issues of {project} with the priority {priority}.",
    "I often look for all open issues of {project} that have the priority {priority}. Save that as the filter "
    "“{name}”.",
    "Please make a filter that shows the open issues of {project} with the priority {priority}, and save it "
    "as “{name}”.",
)
def save_filter(scene: WebScene) -> WebDraft:
    """Save a filter."""
    project, priority = scene.pick("SELECT * FROM project ORDER BY id"), scene.choice(PRIORITIES)
    name = scene.choice(("My Monday list", "To discuss", "Before the release", "Für das Team"))
    plan = [link(project["name"]), select("Status", "All open"), select("Priority", priority), button("Apply filters")]
    plan += [fill("Save these filters as", name), button("Save filter")]
    query = f"project={project['key']}&status=open&priority={priority}"
    return WebDraft(
        words={"name": name, "project": project["name"], "priority": priority},
        plan=plan,
        effect=[("INSERT INTO saved_filter (name, query) VALUES (?, ?)", [name, query])],
        checks=[exists("saved", "saved_filter WHERE name = ?", name)],
    )


@family(
    "tracker.bulk",
    4,
    "Assign all open issues of {project} that have the label “{label}” and no assignee to {person}.",
    "In {project}, every open issue with the label “{label}” that is assigned to nobody should get {person} as its "
    "assignee.",
    "Please make {person} the assignee of those open issues in {project} that have the label “{label}” and "
    "no assignee yet.",
)
def bulk(scene: WebScene) -> WebDraft:
    """Assign several issues at once."""
    group = scene.pick(
        "SELECT project_id, label.name AS label FROM issue JOIN issue_label ON issue_id = issue.id JOIN label "
        "ON label.id = label_id WHERE closed_at IS NULL AND assignee_id IS NULL GROUP BY 1, 2 "
        "HAVING count(*) BETWEEN 2 AND 9 ORDER BY 1, 2"
    )
    project = scene.only("SELECT * FROM project WHERE id = ?", group["project_id"])
    label, person = group["label"], scene.pick("SELECT * FROM person ORDER BY id")
    matches = issues(
        scene, f"project_id = ? AND closed_at IS NULL AND assignee_id IS NULL AND {_LABELLED}", project["id"], label
    )
    ids = [row["id"] for row in matches]
    plan = [link(project["name"]), select("Status", "All open"), select("Assignee", "Nobody"), select("Label", label)]
    plan += [button("Apply filters"), *[tick(f"Select {row['name']}") for row in matches]]
    plan += [button("Change selected issues"), select("Set assignee", person["name"]), button("Change issues")]
    query = "SELECT assignee_id = ? FROM issue WHERE id = ?"
    return WebDraft(
        words={"project": project["name"], "label": label, "person": person["name"]},
        plan=plan,
        effect=[(f"UPDATE issue SET assignee_id = ? WHERE id IN ({marks(ids)})", [person["id"], *ids])],
        checks=[check(f"assigned {number}", query, person["id"], id) for number, id in enumerate(ids, 1)],
    )


@family(
    "tracker.milestone",
    4,
    "Add a milestone “{name}” to {project}, due on {due}, and put {first} and {second} into it.",
    "{project} needs a new milestone called “{name}” (due date {due}). Then let it be the milestone of {first} and "
    "{second}.",
    "Please create the milestone “{name}” in {project} with the due date {due}, and assign {first} and {second} to it.",
)
def milestone(scene: WebScene) -> WebDraft:
    """Add a milestone and put two issues into it."""
    project = scene.pick("SELECT * FROM project ORDER BY id")
    first, second = scene.rng.sample(issues(scene, "project_id = ?", project["id"]), 2)
    name = scene.choice(("3.0", "Hotfix", "Winter release", "Café edition"))
    due = str(date.fromisoformat(scene.today) + timedelta(days=scene.rng.randint(10, 150)))
    plan = [
        link(project["name"]),
        link("Milestones"),
        fill("Name", name),
        fill("Due date", due),
        button("Add milestone"),
    ]
    for issue in (first, second):
        plan += [*open_issue(issue["name"]), link("Edit issue"), select("Milestone", name), button("Save issue")]
    there = "SELECT milestone_id = (SELECT max(id) FROM milestone WHERE name = ?) FROM issue WHERE id = ?"
    put = "UPDATE issue SET milestone_id = (SELECT max(id) FROM milestone) WHERE id IN (?, ?)"
    return WebDraft(
        words={"project": project["name"], "name": name, "due": due, "first": first["name"], "second": second["name"]},
        plan=plan,
        effect=[
            (
                "INSERT INTO milestone (project_id, name, due_on, closed) VALUES (?, ?, ?, 0)",
                [project["id"], name, due],
            ),
            (put, [first["id"], second["id"]]),
        ],
        checks=[
            exists("added", "milestone WHERE project_id = ? AND name = ?", project["id"], name),
            check("first", there, name, first["id"]),
            check("second", there, name, second["id"]),
        ],
    )


@family(
    "tracker.close_milestone",
    4,
    "Close the milestone “{name}” of {project}. If that is not possible, change nothing and answer “impossible”.",
    "We want to be done with the milestone “{name}” in {project}: close it. Should the tracker refuse, do nothing else "
    "and answer “impossible”.",
    "Please close the milestone “{name}” in {project}, if the tracker lets you. If it does not, change "
    "nothing and answer “impossible”.",
)
def close_milestone(scene: WebScene) -> WebDraft:
    """Close a milestone, which is only possible if its issues are closed."""
    open_count = "(SELECT count(*) FROM issue WHERE milestone_id = milestone.id AND closed_at IS NULL)"
    comparison = "= 0" if scene.rng.random() < 0.5 else "> 0"
    milestone = scene.pick(
        "SELECT milestone.*, project.name AS project FROM milestone JOIN project ON project.id = project_id "
        f"WHERE {open_count} {comparison} ORDER BY milestone.id"
    )
    words = {"name": milestone["name"], "project": milestone["project"]}
    plan = [link(milestone["project"]), link("Milestones"), button(f"Close milestone {milestone['name']}")]
    if comparison == "> 0":
        return WebDraft(words=words, plan=[*plan, answer(IMPOSSIBLE)], answer=IMPOSSIBLE)
    return WebDraft(
        words=words,
        plan=plan,
        effect=[("UPDATE milestone SET closed = 1 WHERE id = ?", [milestone["id"]])],
        checks=[check("closed", "SELECT closed FROM milestone WHERE id = ?", milestone["id"])],
    )


@family(
    "tracker.hand_over",
    5,
    "{person} is leaving the project {project}. Give that person's open issues with the priority High or Critical to "
    "{heir}, and "
    "remove the assignee of the other open ones.",
    "In {project}, all open issues of {person} have to be handed over: those that are High or Critical go to "
    "{heir}, the "
    "rest to nobody.",
    "{person} is no longer available for {project}. Of the open issues assigned to {person} there, reassign "
    "those with the priority High or Critical to {heir}, and leave all the others without an assignee.",
)
def hand_over(scene: WebScene) -> WebDraft:
    """Reassign all issues of a person by priority."""
    group = scene.pick(
        "SELECT project_id, assignee_id FROM issue WHERE closed_at IS NULL AND assignee_id IS NOT NULL GROUP BY 1, 2 "
        "HAVING count(*) <= 10 AND count(*) > sum(priority IN ('High', 'Critical')) "
        "AND sum(priority IN ('High', 'Critical')) > 0 ORDER BY 1, 2"
    )
    project = scene.only("SELECT * FROM project WHERE id = ?", group["project_id"])
    person = scene.only("SELECT * FROM person WHERE id = ?", group["assignee_id"])
    heir = scene.pick("SELECT * FROM person WHERE id <> ? ORDER BY id", person["id"])
    matches = issues(scene, "project_id = ? AND closed_at IS NULL AND assignee_id = ?", project["id"], person["id"])
    urgent = [row for row in matches if row["priority"] in ("High", "Critical")]
    rest = [row for row in matches if row not in urgent]
    plan = []
    for rows, name in ((urgent, heir["name"]), (rest, "Nobody")):
        plan += [link(project["name"]), select("Status", "All open"), select("Assignee", person["name"])]
        plan += [button("Apply filters"), *[tick(f"Select {row['name']}") for row in rows]]
        plan += [button("Change selected issues"), select("Set assignee", name), button("Change issues")]
    ids, freed = [row["id"] for row in urgent], [row["id"] for row in rest]
    return WebDraft(
        words={"project": project["name"], "person": person["name"], "heir": heir["name"]},
        plan=plan,
        effect=[
            (f"UPDATE issue SET assignee_id = ? WHERE id IN ({marks(ids)})", [heir["id"], *ids]),
            (f"UPDATE issue SET assignee_id = NULL WHERE id IN ({marks(freed)})", freed),
        ],
        checks=[
            check("given", f"SELECT min(assignee_id IS {heir['id']}) FROM issue WHERE id IN ({marks(ids)})", *ids),
            check("freed", f"SELECT min(assignee_id IS NULL) FROM issue WHERE id IN ({marks(freed)})", *freed),
        ],
    )


@family(
    "tracker.overdue",
    5,
    "Today is {today}. Comment “{body}” on the open issue of {project} that is most overdue, and raise all open "
    "issues of "
    "{project} whose due date has passed to the priority Critical.",
    "Today is {today}. In {project}, every open issue with a due date before today must become Critical. On the one "
    "that "
    "was due first, also write the comment: “{body}”",
    "Today is {today}. Every open issue of {project} whose due date has passed should become Critical. On "
    "the one with the earliest due date among them, also leave the comment “{body}”.",
)
def overdue(scene: WebScene) -> WebDraft:
    """Find the overdue issues and act on them."""
    group = scene.pick(
        "SELECT project_id FROM issue WHERE closed_at IS NULL AND due_on < ? GROUP BY 1 HAVING count(*) BETWEEN 2 "
        "AND 8 "
        "AND sum(priority <> 'Critical') > 0 ORDER BY 1",
        scene.today,
    )
    project = scene.only("SELECT * FROM project WHERE id = ?", group["project_id"])
    late = issues(scene, "project_id = ? AND closed_at IS NULL AND due_on < ?", project["id"], scene.today)
    ranked = sorted(late, key=lambda row: row["due_on"])
    scene.need(ranked[0]["due_on"] < ranked[1]["due_on"])
    body = scene.choice(("When can this be done?", "This is late – please give a new date.", "Do you need help?"))
    plan = [link(project["name"]), select("Status", "All open"), select("Sort by", "Due date"), button("Apply filters")]
    plan += [tick(f"Select {row['name']}") for row in late]
    plan += [button("Change selected issues"), select("Set priority", "Critical"), button("Change issues")]
    plan += [*open_issue(ranked[0]["name"]), fill("Your comment", body), button("Add comment")]
    ids = [row["id"] for row in late]
    where = f"comment WHERE issue_id = ? AND author_id = {ME} AND written_at = {NOW}"
    return WebDraft(
        words={"today": scene.today, "project": project["name"], "body": body},
        plan=plan,
        effect=[
            (f"UPDATE issue SET priority = 'Critical' WHERE id IN ({marks(ids)})", ids),
            comment_change(ranked[0]["id"], body),
        ],
        checks=[
            check("critical", f"SELECT min(priority = 'Critical') FROM issue WHERE id IN ({marks(ids)})", *ids),
            exists("commented", where, ranked[0]["id"]),
        ],
    )


@family(
    "tracker.close_label",
    3,
    "Set all open issues of {project} with the label “{label}” and the priority {priority} to “Won't fix”.",
    "We will not work on the open {priority} issues of {project} that have the label “{label}”: set them to “Won't "
    "fix”.",
    "In {project}, close the open issues that have the label “{label}” and the priority {priority}: their "
    "new status is “Won't fix”.",
)
def close_label(scene: WebScene) -> WebDraft:
    """Close the issues that match two filters."""
    group = scene.pick(
        "SELECT project_id, label.name AS label, priority FROM issue JOIN issue_label ON issue_id = issue.id JOIN "
        "label "
        "ON label.id = label_id WHERE closed_at IS NULL GROUP BY 1, 2, 3 HAVING count(*) BETWEEN 2 AND 6 ORDER BY "
        "1, 2, 3"
    )
    project = scene.only("SELECT * FROM project WHERE id = ?", group["project_id"])
    label, priority = group["label"], group["priority"]
    condition = f"project_id = ? AND closed_at IS NULL AND priority = ? AND {_LABELLED}"
    matches = issues(scene, condition, project["id"], priority, label)
    plan = [link(project["name"]), select("Status", "All open"), select("Priority", priority), select("Label", label)]
    plan += [button("Apply filters"), *[tick(f"Select {row['name']}") for row in matches]]
    plan += [button("Change selected issues"), select("Set status", "Won't fix"), button("Change issues")]
    ids = [row["id"] for row in matches]
    return WebDraft(
        words={"project": project["name"], "label": label, "priority": priority},
        plan=plan,
        effect=[status_change(number, "Won't fix") for number in ids],
        checks=[check("closed", f"SELECT min(status = 'Won''t fix') FROM issue WHERE id IN ({marks(ids)})", *ids)],
    )
