"""The content of a task folder, independent of its format, and the reading of files in untrusted folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentgym.base.strict_json import json_kind
from agentgym.core.task_files import Unusable

REWARD_FILES = ("/logs/verifier/reward.json", "/logs/verifier/reward.txt")
"""Files that a verifier may write its reward to; the first that exists counts."""
TESTS_PLACE, SOLUTION_PLACE = "/tests", "/solution"
LOG_FOLDERS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")


Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00-\x1f]*$")]
"""A path, a user or an image: no control characters."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Health(_Data):
    """A command that must succeed before the agent starts."""

    command: str
    interval_s: Amount = 5.0
    timeout_s: Amount = 30.0
    start_period_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    retries: Annotated[int, Field(ge=0)] = 3


class MachineNeeds(_Data):
    """The container of a task."""

    image: Name | None = None
    """A prebuilt image; `None` builds one from the folder's Dockerfile."""
    build_timeout_s: Amount = 600.0
    workdir: Name | None = None
    environment: Mapping[str, str] = Field(default_factory=dict)
    cpus: Amount | None = None
    memory_mb: Annotated[int, Field(gt=0, lt=2**31)] | None = None
    network: str = "none"
    health: Health | None = None


class AgentSpec(_Data):
    """How the agent works."""

    user: Name = ""
    timeout_s: Amount | None = None


class VerifierSpec(_Data):
    """How the work is judged."""

    script: str = "test.sh"
    user: Name = ""
    timeout_s: Amount = 600.0
    environment: Mapping[str, str] = Field(default_factory=dict)
    verdict: Literal["file", "exit_code"] = "file"
    machine: MachineNeeds | None = None
    """The verifier's own container; `None` runs it in the agent's."""
    owns_tests: bool = False
    """Whether the verifier's own image already contains the tests."""
    artifacts: tuple[str, ...] = ()
    """Paths to copy from the agent's container into the verifier's own."""


@dataclass(frozen=True)
class TaskFolder:
    """A parsed task folder."""

    name: str
    instruction: str
    machine: MachineNeeds
    agent: AgentSpec
    verifier: VerifierSpec
    context: Path
    """The folder with the Dockerfile."""
    tests: Path
    solution: Path | None
    """The folder with `solution_script`; `None` if the task has no solution."""
    solution_script: str = "solve.sh"
    solution_environment: Mapping[str, str] = field(default_factory=dict)
    difficulty: int = 1
    tags: tuple[str, ...] = ()
    apart: frozenset[str] = frozenset()
    """Top-level names in `context` to exclude from the image: the tests and the solution."""
    tests_extra: tuple[Path, ...] = ()
    """Further files that belong to the tests."""


MAX_BYTES = 1_000_000


def read_text(path: Path, what: str = "") -> str:
    """Return the text of a file, without a byte order mark.

    Args:
        path: The file.
        what: Its name in messages; by default the file name.

    Raises:
        Unusable: The file is missing, not a regular file, not UTF-8, or larger than `MAX_BYTES`.
    """
    what = what or path.name
    try:
        if not path.is_file():
            raise Unusable(f"{what} is {'not a file' if path.exists() else 'missing'}")
        if path.stat().st_size > MAX_BYTES:
            raise Unusable(f"{what} has more than {MAX_BYTES} bytes")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unusable(f"{what} is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise Unusable(f"{what} cannot be read: {error.strerror or error}") from error
    return text.replace("\r\n", "\n")


def refuse_links_out(folder: Path, paths: Iterable[Path]) -> None:
    """Refuse links out of a task folder, which would disclose other files of this machine to the agent.

    Args:
        folder: The folder of the task.
        paths: The paths in it whose content is read.

    Raises:
        Unusable: A path is, or lies below, a link to outside the folder.
    """
    inside = folder.resolve()
    for path in paths:
        try:
            is_inside = path.resolve().is_relative_to(inside)
        except (OSError, RuntimeError) as error:  # a link to itself
            raise Unusable(f"{path.relative_to(folder)} cannot be followed: {error}") from error
        if not is_inside:
            raise Unusable(
                f"{path.relative_to(folder)} is a link to outside the folder; replace it with a copy of its target"
            )


def as_texts(value: Any, what: str) -> tuple[str, ...]:
    """Return a list of texts or numbers as texts; empty for null. Raises `Unusable` for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str | int | float) for item in value):
        raise Unusable(f"{what} must be a list of texts, not {json_kind(value)}: {value!r:.60}")
    return tuple(map(str, value))
