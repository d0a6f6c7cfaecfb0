"""Reads task folders of Harbor and Terminal-Bench 2: `task.toml`, `instruction.md`, `environment`, `tests`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.core.task_files import Unusable, Why
from agentgym.tasks.folders.spec import (
    AgentSpec,
    Health,
    MachineNeeds,
    TaskFolder,
    VerifierSpec,
    as_texts,
    read_text,
    refuse_links_out,
)

_TEMPLATE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


def fill_in(values: Mapping[str, Any], user_variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with their templates filled in.

    Never reads the environment of this process, which may hold secrets.

    Args:
        values: The variables of the task.
        user_variables: Values from the user, by name.

    Raises:
        Unusable: The user gave no value for a variable without a default.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name not in user_variables and default is None:
            raise Unusable(f"it needs the variable {name}; pass variables={{{name!r}: ...}}", Why.UNSUPPORTED)
        return user_variables.get(name, default or "")

    return {str(name): _TEMPLATE.sub(value, str(text)) for name, text in values.items()}


CONFIG = "task.toml"
_CANARY = re.compile(r"(?:<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_SIZES = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
_READ = (
    CONFIG, "instruction.md", "environment", "environment/Dockerfile", "tests", "tests/test.sh", "tests/Dockerfile",
    "solution", "solution/solve.sh",
)  # fmt: skip
_PUBLISHED = "/logs/artifacts"
"""The folder of files that the agent leaves for a verifier in its own container."""


def read_harbor(folder: Path, user_variables: Mapping[str, str]) -> TaskFolder:
    """Return a Harbor task.

    Args:
        folder: The folder of the task.
        user_variables: Values from the user for environment variables of tasks.

    Raises:
        Unusable: A part is missing, invalid or unsupported.
    """
    refuse_links_out(folder, (folder / name for name in _READ))
    config = _config(folder / CONFIG)
    _refuse_unsupported(config, folder)
    environment, verifier = _table(config, "environment"), _table(config, "verifier")
    needs = _machine(environment, user_variables)
    if needs.image is None and not (folder / "environment" / "Dockerfile").is_file():
        raise Unusable("it has neither environment/Dockerfile nor docker_image")
    metadata = _table(config, "metadata")
    solution = folder / "solution"
    return TaskFolder(
        name=_name(config) or folder.name,
        instruction=_instruction(folder / "instruction.md"),
        machine=needs,
        agent=_agent(_table(config, "agent")),
        verifier=_verifier(verifier, config, needs, folder, user_variables),
        context=folder / "environment",
        tests=folder / "tests",
        solution=solution if (solution / "solve.sh").is_file() else None,
        solution_environment=fill_in(_table(_table(config, "solution"), "env"), user_variables),
        difficulty=_LEVELS.get(str(metadata.get("difficulty", "")).lower(), 1),
        tags=as_texts(metadata.get("tags"), "tags"),
    )


def _config(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"{CONFIG} cannot be read: {error}") from error


def _name(config: Mapping[str, Any]) -> str:
    name = _table(config, "task").get("name") or ""
    if not isinstance(name, str):
        raise Unusable(f"name in {CONFIG} must be text, not {name!r:.60}")
    return name


def _table(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = config.get(name) or {}
    if not isinstance(table, dict):
        raise Unusable(f"{name} in {CONFIG} must be a table, not {table!r:.60}")
    return table


def _refuse_unsupported(config: Mapping[str, Any], folder: Path) -> None:
    environment = _table(config, "environment")
    problems = {
        "it has several steps": config.get("steps"),
        "it needs Windows": str(environment.get("os", "linux")).lower() != "linux",
        "it needs a GPU": environment.get("gpus"),
        "it needs a TPU": environment.get("tpu"),
        "it needs MCP servers": environment.get("mcp_servers"),
        "it needs several containers (docker-compose.yaml)": (folder / "environment/docker-compose.yaml").exists(),
        "its verifier needs several containers": (folder / "tests/docker-compose.yaml").exists(),
        "its verifier has collect hooks": _table(config, "verifier").get("collect"),
        "it may reach only listed hosts, which Docker cannot enforce": "allowlist"
        in (environment.get("network_mode"), _table(config, "agent").get("network_mode")),
    }
    problem = next((problem for problem, holds in problems.items() if holds), None)
    if problem is not None:
        raise Unusable(f"{problem}, which is not supported", Why.UNSUPPORTED)


def _instruction(path: Path) -> str:
    """Return the instruction without the canary lines at its beginning."""
    lines = read_text(path, "its instruction").splitlines()
    while lines and (not lines[0].strip() or _CANARY.match(lines[0].strip())):
        del lines[0]
    if not lines:
        raise Unusable("its instruction is empty")
    return "\n".join(lines).rstrip()


def _machine(table: Mapping[str, Any], user_variables: Mapping[str, str]) -> MachineNeeds:
    if not isinstance(table.get("allow_internet"), bool | None):
        raise Unusable(f"allow_internet in {CONFIG} must be true or false, not {table['allow_internet']!r:.60}")
    if not isinstance(table.get("network_mode"), str | None):
        raise Unusable(f"network_mode in {CONFIG} must be text, not {table['network_mode']!r:.60}")
    offline = table.get("network_mode") == "no-network" or table.get("allow_internet") is False
    return _validated(
        MachineNeeds,
        image=table.get("docker_image"),
        build_timeout_s=table.get("build_timeout_sec", 600.0),
        workdir=table.get("workdir"),
        environment=fill_in(_table(table, "env"), user_variables),
        cpus=table.get("cpus"),
        memory_mb=table.get("memory_mb", _megabytes(table.get("memory"))),
        network="none" if offline else "bridge",
        health=_health(_table(table, "healthcheck")),
    )


def _health(table: Mapping[str, Any]) -> Health | None:
    if not table:
        return None
    names = {"interval_sec": "interval_s", "timeout_sec": "timeout_s", "start_period_sec": "start_period_s"}
    values = {names.get(name, name): value for name, value in table.items() if name != "start_interval_sec"}
    return _validated(Health, **values)


def _agent(table: Mapping[str, Any]) -> AgentSpec:
    return _validated(AgentSpec, user=_user(table), timeout_s=table.get("timeout_sec"))


def _verifier(
    table: Mapping[str, Any],
    config: Mapping[str, Any],
    agents: MachineNeeds,
    folder: Path,
    user_variables: Mapping[str, str],
) -> VerifierSpec:
    own = _table(table, "environment")
    separate = table.get("environment_mode", "separate" if own else "shared") == "separate"
    owns_tests = separate and bool(own.get("docker_image") or (folder / "tests" / "Dockerfile").is_file())
    if not (owns_tests or (folder / "tests" / "test.sh").is_file()):
        raise Unusable("it has no tests/test.sh")
    machine = None
    if separate:
        machine = _machine(own or _table(config, "environment"), user_variables)
        machine = machine.model_copy(update={"image": own.get("docker_image") if owns_tests else agents.image})
    return _validated(
        VerifierSpec,
        user=_user(table),
        timeout_s=table.get("timeout_sec", 600.0),
        environment=fill_in(_table(table, "env"), user_variables),
        machine=machine,
        owns_tests=owns_tests,
        artifacts=_artifacts(config.get("artifacts") or ()) if separate else (),
    )


def _artifacts(entries: Any) -> tuple[str, ...]:
    """Return the paths that a verifier in its own container needs."""
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str | dict) for entry in entries):
        raise Unusable(f"artifacts in {CONFIG} must be a list of paths or tables, not {entries!r:.60}")
    sources = [entry if isinstance(entry, str) else str(entry.get("source", "")) for entry in entries]
    for entry, source in zip(entries, sources, strict=True):
        if not source.startswith("/") or ".." in source.split("/"):
            raise Unusable(f"its artifact {source!r} is not an absolute path")
        if isinstance(entry, dict) and (entry.get("service", "main") != "main" or entry.get("exclude")):
            raise Unusable(f"its artifact {source!r} is of another container, or partly excluded", Why.UNSUPPORTED)
    return tuple(dict.fromkeys([_PUBLISHED, *(source.rstrip("/") for source in sources)]))


def _user(table: Mapping[str, Any]) -> str:
    user = table.get("user")
    if not isinstance(user, str | int | None) or isinstance(user, bool):
        raise Unusable(f"user in {CONFIG} must be a name or a number, not {user!r:.60}")
    return "" if user is None else str(user)


def _megabytes(size: Any) -> int | None:
    """Return a size in megabytes, from the older notation such as `2G`."""
    text = str(size or "").strip().upper()
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([GMK])B?", text)
    if match is None:
        raise Unusable(f"its memory {size!r} is no size such as '2G' or '512M'")
    return int(float(match[1]) * _SIZES[match[2]])


def _validated(kind: Any, **values: Any) -> Any:
    """Return a part of the task. Raises `Unusable` for an invalid value."""
    try:
        return kind(**values)
    except ValueError as error:
        raise Unusable(f"{CONFIG}: {' '.join(str(error).split())[:300]}") from error
