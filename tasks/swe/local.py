"""Instances without container images: repositories and Python environments on this machine.

A folder of repositories holds, for each instance, an archive or a checkout named after its id, or a Git repository
named after its `repo` that has its commit. A folder of environments holds, under the same names, Python
environments with the dependencies of the repository, including its own pytest.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from agentgym.base.cache import cache_folder
from agentgym.base.errors import BrokenTask
from agentgym.core.task_files import Unusable
from agentgym.tasks.swe.formats.swebench import PYTEST, without_conda
from agentgym.tasks.swe.instance import PYTHON, Instance
from agentgym.tasks.swe.package import read_tree
from agentgym.tools.sandbox import SandboxLimits, SandboxSpec

_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.xz", ".tar.bz2")
_WORKDIRS = ("/testbed", "/repository")
_ROOTS = (".", "src", "lib")
"""Where packages are imported from in nearly all repositories; missing folders do no harm."""
_GIT_TIMEOUT_S = 120
_NAME = re.compile(r"(?:\w[\w.:+@-]*(?:/\w[\w.:+@-]*)*)?")


@dataclass(frozen=True)
class Origin:
    """Location of the files of an instance."""

    path: Path
    commit: str | None = None
    """The commit of a Git repository; `None` for a folder or archive that is used as it is."""

    def tree(self) -> Mapping[str, bytes]:
        """Return the files. Raises `UsageError` if they cannot be read."""
        return read_tree(self.path if self.commit is None else self._archive(self.commit))

    def _archive(self, commit: str) -> Path:
        """Return an archive of a commit, from the cache or newly made."""
        archive = cache_folder() / "swe" / "commits" / f"{self.path.name.removesuffix('.git')}-{commit}.tar"
        if not archive.is_file():
            archive.parent.mkdir(parents=True, exist_ok=True)
            partial = archive.with_suffix(".making")
            done = _git(self.path, "archive", "--format=tar", f"--output={partial}", commit)
            if done.returncode:
                raise BrokenTask(f"git cannot read commit {commit} of {str(self.path)!r}: {done.stderr.strip()[:200]}")
            partial.replace(archive)
        return archive


def find_archive(folder: Path, instance: Instance) -> Origin:
    """Return the location of the archive that an instance names. Raises `Unusable` if it is not in the folder."""
    named = PurePosixPath(str(instance.archive))
    if named.is_absolute() or ".." in named.parts:
        raise Unusable(f"its archive {str(named)!r} is not in the folder of its file")
    if not (folder / named).exists():
        raise Unusable(f"its archive {str(folder / named)!r} does not exist")
    return Origin(folder / named)


def find_repository(folder: Path, instance: Instance) -> Origin:
    """Return the location of the files of an instance. Raises `Unusable` naming the places searched."""
    _check_names(instance)
    commit = instance.base_ref
    owner, _, name = instance.repo.rpartition("/")
    wholes = (instance.id, f"{owner}__{name}-{commit}", f"{name}-{commit}")
    for whole in wholes:
        for path in (folder / whole, *(folder / f"{whole}{ending}" for ending in _ARCHIVES)):
            if path.is_file() or (path.is_dir() and not _is_git(path)):
                return Origin(path)
            if path.is_dir() and _has(path, commit):
                return Origin(path, commit)
    checkouts = [path for path in _named(folder, owner, name) if _is_git(path)]
    checkout = next((path for path in checkouts if _has(path, commit)), None)
    if checkout is not None:
        return Origin(checkout, commit)
    if checkouts:
        raise Unusable(f"{str(checkouts[0])!r} has no commit {commit}; fetch it")
    raise Unusable(
        f"its repository is not in {str(folder)!r}: neither {wholes[0]}.tar.gz, a folder {wholes[0]}, "
        f"{wholes[2]}.tar.gz, nor a Git repository {owner}__{name}"
    )


def find_environment(folder: Path, instance: Instance) -> Path:
    """Return the Python environment of an instance. Raises `Unusable` naming the places searched."""
    _check_names(instance)
    owner, _, name = instance.repo.rpartition("/")
    version = str(instance.meta.get("version", ""))
    versioned = [f"{owner}__{name}-{version}", f"{name}-{version}"] if version else []
    places = [
        folder / instance.id,
        *(folder / folder_name for folder_name in versioned),
        *_named(folder, owner, name),
        folder,
    ]
    environment = next((path for path in places if (path / "bin" / "python").exists()), None)
    if environment is None:
        names = ", ".join(path.name for path in places[:-1])
        raise Unusable(f"its Python environment is not in {str(folder)!r}: none of {names} has bin/python")
    return environment.absolute()


def _check_names(instance: Instance) -> None:
    """Raise `Unusable` for names that would lead out of the folders that the user named, or that git would misread."""
    names = {"id": instance.id, "repo": instance.repo, "commit": instance.base_ref}
    names["version"] = str(instance.meta.get("version", ""))
    for what, name in names.items():
        if not _NAME.fullmatch(name) or ".." in name.split("/"):
            raise Unusable(f"its {what} {name[:80]!r} cannot be the name of a file")


def with_own_files(instance: Instance) -> Instance:
    """Return an instance whose files are on this machine, to be tested with pytest in the running interpreter.

    Raises:
        Unusable: Its tests are not run with pytest.
    """
    other = next((test for test in instance.fail_to_pass if ".py" not in test.partition("::")[0]), None)
    if other is not None:
        raise Unusable(
            f"its tests are not pytest ids ({other!r}), so its own test command has to run them: "
            "give it a Python environment (environments=...)"
        )
    return replace(instance, image=None)


def with_environment(instance: Instance, environment: Path) -> Instance:
    """Return an instance whose own command runs its tests in a Python environment of this machine."""
    readable = _readable(environment)
    workdir = next(
        (path for path in _WORKDIRS if not any(place.is_relative_to(path) for place in readable)), instance.workdir
    )
    return replace(
        instance,
        image=None,
        workdir=workdir,
        test_command=_local_command(instance.test_command),
        meta={**instance.meta, PYTHON: str(environment)},
    )


def spec_of(instance: Instance, limits: SandboxLimits) -> SandboxSpec:
    """Return the sandbox for work on and grading of an instance with a Python environment of its own."""
    environment = Path(str(instance.python))
    roots = [f"{instance.workdir}/{root}".removesuffix("/.") for root in instance.python_path or _ROOTS]
    variables = {
        "PATH": f"{environment}/bin:/usr/local/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": str(environment),
        "PYTHONPATH": ":".join(roots),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return SandboxSpec(limits=limits, workdir=instance.workdir, environment=variables, readable=_readable(environment))


def _readable(environment: Path) -> tuple[Path, ...]:
    """Return the folders of an environment: its own, and that of its base Python."""
    base = (environment / "bin" / "python").resolve().parents[1]
    visible = {Path("/usr"), Path(sys.base_prefix).resolve(), environment.resolve()}
    return (environment,) if base in visible else (environment, base)


def _local_command(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the local form of an image's test command.

    Files written into a sandbox are not executable, and `tox` would install packages.
    """
    program, *arguments = without_conda(command)
    if program == "tox":
        return ("python", "-m", *PYTEST)
    if program == "pytest":
        return ("python", "-m", program, *arguments)
    return ("python", program, *arguments) if "/" in program and not program.startswith("/") else (program, *arguments)


def _named(folder: Path, owner: str, name: str) -> Iterator[Path]:
    for path in (f"{owner}__{name}", f"{owner}/{name}", name):
        yield folder / path
        yield folder / f"{path}.git"


def _is_git(path: Path) -> bool:
    """Whether a folder is a Git repository, bare or with a checkout."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def _has(path: Path, commit: str) -> bool:
    return _git(path, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


def _git(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(path), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", f"git cannot be run: {error}")
