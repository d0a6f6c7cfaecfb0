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
CREATE INDEX comment_issue ON comment (issue_id);
