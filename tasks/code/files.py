"""Public code benchmarks as task sources, from files that the user names: HumanEval, MBPP, GSM8K and QuixBugs.

The first three are JSON lines, a JSON list or Parquet; QuixBugs is the folder of its repository, or JSON lines with
`id`, `buggy`, `fixed`, `pytest` and `json_cases` (with the helper files in a `support.json` next to it). Loading
never runs any code of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym.base.choices import one_of
from agentgym.base.errors import UsageError
from agentgym.core.task import Task, TaskList
from agentgym.core.task_files import LeftOut, Quarantine
from agentgym.tasks.code.formats import FORMATS, CodeEntry
from agentgym.tasks.read_tasks import Splitter, read_tasks, refuse_empty
from agentgym.tasks.records import existing, files_in, read_json, read_records, read_text

_SUPPORT = "support.json"


class CodeFileTasks(TaskList):
    """The tasks of a file or folder.

    Args:
        path: A file, a folder of such files, or the folder of the QuixBugs repository.
        format: `humaneval`, `mbpp`, `gsm8k` or `quixbugs`; `auto` detects it from the fields of the first entry.
        split_by: `file`: files named like train, dev and test are the splits (others count as train). `hash`: the
            content decides. `auto`: by file if a name says dev or test, else by the split of the data set itself (MBPP
            by its task ids), else by hash. Or the one split that all tasks belong to.
        strict: Raise `UsageError` for the first broken entry instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Entries without a usable task, each with the reason."""

    def __init__(self, path: str | Path, *, format: str = "auto", split_by: str = "auto", strict: bool = False):
        one_of("format", format, ("auto", *FORMATS))
        self.path = existing(path)
        quarantine = Quarantine(str(path), strict)
        entries = _entries(self.path, quarantine)
        self.format = _detect(entries) if format == "auto" and entries else format
        splitter = Splitter.of(split_by, {entry.file for entry in entries})
        published = split_by == "auto" and splitter.rule == "hash"
        tasks = read_tasks(entries, lambda entry: self._task(entry, splitter, published), quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(tasks))
        super().__init__(read.task for read in tasks)

    def _task(self, entry: CodeEntry, splitter: Splitter, published: bool) -> Task:
        code_format = FORMATS[self.format]
        content = code_format.read(entry)
        split = (code_format.split(entry) if published else None) or splitter.split(
            entry.file, f"{content.prompt}|{content.gold}"
        )
        return Task(
            id=f"{self.format}/{content.name or f'{entry.file.stem}/{entry.number}'}",
            split=split,
            prompt=content.prompt,
            difficulty=content.difficulty,
            data=content.data,
            gold=content.gold,
            tags=(content.data["kind"], self.format, content.area),
        )


def _entries(path: Path, quarantine: Quarantine) -> list[CodeEntry]:
    if path.is_dir() and (path / "python_programs").is_dir():
        return list(_quixbugs_folder(path))
    files = [file for file in files_in(path) if file.name != _SUPPORT] if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{str(path)!r} has no file of entries (.jsonl, .json or .parquet)")
    entries: list[CodeEntry] = []
    counts = dict.fromkeys(files, 0)
    for file in files:
        before = len(quarantine.entries)
        support = _support(file.parent / _SUPPORT)
        records = list(read_records(file, quarantine))
        counts[file] = len(records) + len(quarantine.entries) - before
        entries += (CodeEntry(record.where, record.fields, file, record.number, support) for record in records)
    refuse_empty(counts)
    return entries


def _quixbugs_folder(folder: Path) -> Iterator[CodeEntry]:
    """Read the layout of the QuixBugs repository; programs without a fixed version or tests are skipped."""
    helper = folder / "python_testcases" / "node.py"
    support = {"node.py": read_text(helper)} if helper.is_file() else {}
    for number, buggy in enumerate(sorted((folder / "python_programs").glob("*.py")), start=1):
        name = buggy.stem
        fixed = folder / "correct_python_programs" / buggy.name
        tests, cases = folder / "python_testcases" / f"test_{name}.py", folder / "json_testcases" / f"{name}.json"
        if fixed.is_file() and tests.is_file():
            fields: dict[str, Any] = {"id": name, "buggy": read_text(buggy), "fixed": read_text(fixed)}
            fields |= {"pytest": read_text(tests), "json_cases": read_text(cases) if cases.is_file() else None}
            # The repository has no splits, whatever its folder is called.
            yield CodeEntry(str(buggy), fields, Path(), number, support)


def _detect(entries: list[CodeEntry]) -> str:
    for entry in entries:
        for name, code_format in FORMATS.items():
            if all(field in entry.fields for field in code_format.fields):
                return name
    entry = entries[0]
    raise UsageError(
        f"{entry.where}: no known format has the fields {sorted(map(str, entry.fields))}; "
        f"pass format= one of: {', '.join(FORMATS)}"
    )


def _support(file: Path) -> Mapping[str, str]:
    if not file.is_file():
        return {}
    helpers = read_json(file)
    if not isinstance(helpers, dict) or not all(isinstance(text, str) for text in helpers.values()):
        raise UsageError(f"{file}: helper files must be an object that maps file names to texts")
    return helpers
