"""Describe the tasks of an environment in Markdown: splits, levels, families, files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentgym.cards.markdown import code, codes, folded, table
from agentgym.cards.playing import test_tasks
from agentgym.cards.subject import CardSubject
from agentgym.env import Env
from agentgym.procedural import ProceduralTasks
from agentgym.task import TaskSource
from agentgym.task_files.declaring import STRICT, STRICT_MEANS, TaskFiles

_COUNTED = 100


def tasks_text(subject: CardSubject, env: Env) -> str:
    """Return the splits with their sizes, the levels, the members of a family, and the accepted files."""
    parts = [_splits(env.tasks), _levels(env)]
    if subject.is_family:
        parts.append(folded(f"The {len(subject.ids)} ids: {code(_pattern(subject))}", codes(subject.members)))
    if env.files is not None:
        parts.append(_files(env.files))
    return "\n\n".join(parts)


def _pattern(subject: CardSubject) -> str:
    return subject.ids[0].replace(subject.members[0], "…", 1)


def size_text(size: int | None) -> str:
    """Return a split's size for a table."""
    return "endless" if size is None else f"{size}"


def _splits(source: TaskSource) -> str:
    return table(("split", "tasks"), [(code(split), size_text(source.size(split))) for split in source.splits])


def _levels(env: Env) -> str:
    if isinstance(env.tasks, ProceduralTasks):
        return _families(env.tasks)
    tasks = test_tasks(env, _COUNTED)
    (level, first), *others = sorted(Counter(task.difficulty for task in tasks).items())
    beginning = f"the first {len(tasks)} tasks of {code(tasks[0].split)}"
    if not others:
        return f"All of {beginning} are of difficulty {level}."
    return f"Of {beginning}, {first} are of difficulty {level}{_other_levels(others)}."


def _other_levels(counts: Sequence[tuple[int, int]]) -> str:
    return "".join(f", {count} of {level}" for level, count in counts)


def _families(source: ProceduralTasks) -> str:
    """Return a table of the families by level."""
    by_level: dict[int, list[str]] = {}
    for family in source.families:
        by_level.setdefault(family.level, []).append(code(family.name) + ("*" if family.held_out else ""))
    rows = [(str(level), str(len(names)), ", ".join(names)) for level, names in sorted(by_level.items())]
    note = "\n\n\\* only in `test_unseen`" if any(family.held_out for family in source.families) else ""
    return table(("difficulty", "families", "names"), rows) + note


def _files(files: TaskFiles) -> str:
    layouts = [(layout.name, layout.looks, code(f"--set {layout.settings}")) for layout in files.layouts]
    options = [(code(name), meaning) for name, meaning in {**files.options, STRICT: STRICT_MEANS}.items()]
    intro = f"Tasks can also come from files ({code(f'{files.argument}=PATH')}):"
    return "\n\n".join([intro, table(("layout", "files", "settings"), layouts), table(("option", "meaning"), options)])
