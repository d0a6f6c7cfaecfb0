"""Tasks of the SWE environment as Harbor task folders: a repository, judged by the environment's own grader."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import PurePosixPath

from agentgym.base.errors import UsageError
from agentgym.core.task import Task
from agentgym.envs.swe.repository import Repository
from agentgym.tasks.exporting import ANSWERS, HarborFolder, here_document, packed_tree
from agentgym.tasks.swe.pytest_folder import pytest_folder

_FILES, _PYTEST = "repository.tar.gz", "pytest.tar.gz"
_TOOLS = "/opt/pytest"
_TIMEOUT_S = 900.0
_HOW = f"""The repository is in {ANSWERS}. Change its code there, and keep everything else working; changes to tests and
test settings are discarded. Run its tests with: python3 -m pytest"""


def swe_folder(task: Task, repository: Repository) -> HarborFolder:
    """Return what a task of the SWE environment becomes.

    Args:
        task: The task.
        repository: Its repository, whose tests need only Python and pytest.

    Raises:
        UsageError: Its tests need an image or a Python environment of their own.
    """
    instance = repository.instance
    if instance.image is not None or instance.python is not None:
        raise UsageError(
            f"the tests of task {task.id!r} need {instance.image or instance.python}; only tasks whose tests need "
            "nothing but Python and pytest can be written, such as the bundled ones"
        )
    packed = packed_tree(repository.files)
    roots = [str(PurePosixPath(ANSWERS, root)) for root in instance.python_path or (".",)]
    return HarborFolder(
        instruction=f"Repository: {instance.repo}\n\n{task.prompt.rstrip()}\n\n{_HOW}",
        judge="agentgym.envs.swe.judging_exported",
        settings={"instance": instance.to_dict()},
        dockerfile=(
            f"ADD {_FILES} {ANSWERS}/\nADD {_PYTEST} {_TOOLS}/\n"
            f"ENV PYTHONPATH={':'.join([*roots, _TOOLS])} PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1\n"
        ),
        context={_FILES: packed, _PYTEST: _packed_pytest()},
        tests={_FILES: packed, _PYTEST: _packed_pytest()},
        solve=f"#!/bin/bash\nset -e\ncd {ANSWERS}\n{_changes(repository)}",
        stand_ins={
            "agentgym.envs.swe.by_log": "agentgym.envs.swe.by_log_exported",
            "agentgym.envs.swe.sandboxes": "agentgym.envs.swe.sandboxes_exported",
            "agentgym.tasks.swe.pytest_folder": "agentgym.envs.swe.pytest_exported",
        },
        timeout_s=_TIMEOUT_S,
    )


def _changes(repository: Repository) -> str:
    """Return the shell commands that make the gold solution's changes."""
    before, after = repository.files, repository.gold
    removed = [f"rm {shlex.quote(path)}\n" for path in sorted(before.keys() - after.keys())]
    written = [
        f"mkdir -p {shlex.quote(str(PurePosixPath(path).parent))}\n{here_document(path, data.decode('utf-8'))}"
        for path, data in sorted(after.items())
        if before.get(path) != data
    ]
    return "".join([*removed, *written])


@cache
def _packed_pytest() -> bytes:
    """Return pytest and what it requires, without compiled modules, which other Pythons could not read."""
    folder = pytest_folder()
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return packed_tree({path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
