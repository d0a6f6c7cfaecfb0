"""Tracker: families that find something out."""

from __future__ import annotations

from agentgym.tasks.web.checks import check
from agentgym.tasks.web.family import WebDraft, WebScene, family
from agentgym.tasks.web.plan import answer, button, fill, link, select
from agentgym.tasks.web.tracker.steps import issues, open_issue


@family(
    "tracker.detail",
    1,
    "What is the {what} of {issue}? Answer as the tracker shows it.",
    "Look at issue {issue} and tell me its {what}.",
    "I'd like to know the {what} of {issue}, just as the tracker shows it.",
)
def detail(scene: WebScene) -> WebDraft:
    """Ask for one field of an issue."""
    issue = scene.choice(issues(scene, "assignee IS NOT NULL AND milestone IS NOT NULL"))
    what = scene.choice(("priority", "status", "assignee", "reporter", "milestone"))
    plan = [*open_issue(issue["name"]), answer(issue[what])]
    return WebDraft(words={"what": what, "issue": issue["name"]}, plan=plan, answer=issue[what])


@family(
    "tracker.title",
    1,
    "Which issue of {project} is called “{title}”? Answer with its number, such as ABC-12.",
    "Find the issue “{title}” in the project {project}. What is its number (as in ABC-12)?",
    "What is the number (such as ABC-12) of the issue “{title}” in {project}?",
)
def title(scene: WebScene) -> WebDraft:
    """Ask for the number of an issue by its title."""
    issue = scene.choice(issues(scene))
    project = scene.only("SELECT name FROM project WHERE id = ?", issue["project_id"])["name"]
    scene.only("SELECT 1 FROM issue WHERE project_id = ? AND title = ?", issue["project_id"], issue["title"])
    plan = [link(project), fill("Text", issue["title"]), button("Apply filters"), answer(issue["name"])]
    return WebDraft(words={"project": project, "title": issue["title"]}, plan=plan, answer=issue["name"])


@family(
    "tracker.count",
    2,
    "How many {state} issues with the label “{label}” are there in {project}? Answer with the number.",
    "Count the {state} issues of {project} that have the label “{label}”.",
    "In {project}, how many issues are {state} and have the label “{label}”? Answer with the number.",
)
def count(scene: WebScene) -> WebDraft:
    """Ask how many issues have a label."""
    project = scene.pick("SELECT * FROM project ORDER BY id")
    label = scene.pick("SELECT name FROM label ORDER BY id")["name"]
    state, condition = scene.choice((("open", "closed_at IS NULL"), ("closed", "closed_at IS NOT NULL")))
    labelled = "id IN (SELECT issue_id FROM issue_label JOIN label ON label.id = label_id WHERE label.name = ?)"
    matches = issues(scene, f"project_id = ? AND {condition} AND {labelled}", project["id"], label)
    scene.need(matches)
    plan = [link(project["name"]), select("Status", f"All {state}"), select("Label", label), button("Apply filters")]
    return WebDraft(
        words={"project": project["name"], "label": label, "state": state},
        plan=[*plan, answer(str(len(matches)))],
        answer=str(len(matches)),
    )


@family(
    "tracker.next_due",
    2,
    "Which open issue of {project} has the earliest due date? Answer with its number, such as ABC-12.",
    "In {project}, what is the number of the open issue that is due first?",
    "Of the open issues in {project}, which one is due next, that is, has the earliest due date? Answer with "
    "its number, such as ABC-12.",
)
def next_due(scene: WebScene) -> WebDraft:
    """Ask for the open issue that is due first."""
    project = scene.pick("SELECT * FROM project ORDER BY id")
    matches = issues(scene, "project_id = ? AND closed_at IS NULL AND due_on IS NOT NULL", project["id"])
    first, second = [*sorted(matches, key=lambda row: row["due_on"]), None, None][:2]
    scene.need(first and second and first["due_on"] < second["due_on"])
    name = "" if first is None else first["name"]
    plan = [link(project["name"]), select("Status", "All open"), select("Sort by", "Due date"), button("Apply filters")]
    return WebDraft(words={"project": project["name"]}, plan=[*plan, answer(name)], answer=name)


@family(
    "tracker.blocker",
    5,
    "{issue} cannot go on because another issue blocks it, and that one may itself be blocked, and so on. Find the "
    "issue "
    "at the beginning of this chain, which nothing blocks, set its priority to Critical, and answer with its number.",
    "Follow the “Blocked by” links from {issue} to the issue that is not blocked by anything. Make that one Critical, "
    "and tell me its number (as in ABC-12).",
    "Something is blocking {issue}, and that may in turn be blocked by something else. Follow the chain to "
    "the issue that nothing blocks, change its priority to Critical, and tell me its number.",
)
def blocker(scene: WebScene) -> WebDraft:
    """Follow a chain of links to its start."""
    chain = [scene.pick("SELECT blocked_id FROM blocking ORDER BY 1")["blocked_id"]]
    while above := scene.rows("SELECT blocker_id FROM blocking WHERE blocked_id = ?", chain[-1]):
        scene.need(len(above) == 1 and len(chain) < 8)
        chain.append(above[0]["blocker_id"])
    scene.need(len(chain) >= 3)
    names = [issues(scene, "id = ?", number)[0] for number in chain]
    first = names[-1]
    scene.need(first["priority"] != "Critical")
    plan = [*open_issue(names[0]["name"]), *[link(row["name"]) for row in names[1:]], link("Edit issue")]
    plan += [select("Priority", "Critical"), button("Save issue"), answer(first["name"])]
    return WebDraft(
        words={"issue": names[0]["name"]},
        plan=plan,
        effect=[("UPDATE issue SET priority = 'Critical' WHERE id = ?", [first["id"]])],
        answer=first["name"],
        checks=[check("critical", "SELECT priority = 'Critical' FROM issue WHERE id = ?", first["id"])],
    )


@family(
    "tracker.busiest",
    5,
    "Who has the most open issues with the priority High across all projects? Answer with the name.",
    "Looking at all projects together: to whom are more open issues with the priority High assigned than to anyone "
    "else? Answer with the name.",
    "Across all projects, who is assigned the largest number of open issues with the priority High? Answer "
    "with the name.",
)
def busiest(scene: WebScene) -> WebDraft:
    """Ask who has the most urgent work."""
    matches = issues(scene, "closed_at IS NULL AND priority = 'High'")
    counts: dict[str, int] = {}
    for row in matches:
        if row["assignee"]:
            counts[row["assignee"]] = counts.get(row["assignee"], 0) + 1
    ranked = sorted(counts, key=lambda name: -counts[name])
    scene.need(len(ranked) > 1 and counts[ranked[0]] > counts[ranked[1]])
    plan = [link("All issues"), select("Status", "All open"), select("Priority", "High"), button("Apply filters")]
    plan += [link("Next page")] * ((len(matches) - 1) // 10)
    return WebDraft(plan=[*plan, answer(ranked[0])], answer=ranked[0])
