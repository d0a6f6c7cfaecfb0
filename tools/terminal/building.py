"""Builds images from folders with a Dockerfile, each once: an image is named after the folder's content."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.containers.daemon import Daemon, docker_errors, has_image

_REPOSITORY = "agentgym-task"
_SHOWN_LINES = 15
_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def packed(
    folder: Path, *, under: str = "", skip: frozenset[str] = frozenset(), executable: frozenset[str] = frozenset()
) -> bytes:
    """Return a folder as a tar file without times, owned by root.

    Args:
        folder: The folder. Links in it stay links.
        under: A path in the tar file to put everything under.
        skip: Names at the top of the folder to leave out.
        executable: Paths of files to make executable.
    """
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if name.parts[0] not in skip:
                entry = archive.gettarinfo(path, arcname=f"{under}/{name}" if under else str(name))
                if entry is None:  # a socket, which no archive can hold
                    continue
                entry.mode |= 0o111 if str(name) in executable else 0
                with path.open("rb") if entry.isreg() else nullcontext() as content:
                    archive.addfile(_plain(entry), content)
    return data.getvalue()


def packed_files(files: Mapping[str, bytes], mode: int = 0o755) -> bytes:
    """Return files, by path, as a tar file."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def content_hash(folder: Path, skip: frozenset[str] = frozenset()) -> str:
    """Return a hash of the names, modes and contents of a folder."""
    return hashlib.sha256(packed(folder, skip=skip)).hexdigest()


def build_image(daemon: Daemon, folder: Path, *, timeout_s: float, skip: frozenset[str] = frozenset()) -> str:
    """Return the image of a folder with a Dockerfile; build it if it does not exist yet.

    Docker pulls a missing base image of the Dockerfile.

    Args:
        daemon: The daemon.
        folder: The folder, which is the context of the build.
        timeout_s: Seconds that Docker may take for one step without a sign of life.
        skip: Names at the top of the folder that do not belong to the context.

    Raises:
        UsageError: The folder has no Dockerfile.
        InfrastructureError: The build failed; the message ends with its last lines.
    """
    if not (folder / "Dockerfile").is_file():
        raise UsageError(f"{str(folder)!r} has no Dockerfile to build an image from")
    context = packed(folder, skip=skip)
    name = f"{_REPOSITORY}:{hashlib.sha256(context).hexdigest()[:24]}"
    with _locks[name]:
        if not has_image(daemon, name):
            _build(daemon, context, name, folder, timeout_s)
    return name


def _build(daemon: Daemon, context: bytes, name: str, folder: Path, timeout_s: float) -> None:
    log: list[str] = []
    builder = Daemon(daemon.host, call_s=timeout_s)
    try:
        with docker_errors(f"cannot build the image of {str(folder)!r}"):
            answers: Any = builder.api.build(
                fileobj=io.BytesIO(context), custom_context=True, tag=name, rm=True, forcerm=True, decode=True
            )
            for answer in answers:
                log += str(answer.get("stream", "")).splitlines()
                if "error" in answer:
                    raise InfrastructureError(_failure(folder, str(answer["error"]), log))
    finally:
        builder.close()


def _failure(folder: Path, error: str, log: list[str]) -> str:
    lines = [line for line in log if line.strip()][-_SHOWN_LINES:]
    return "\n".join([f"the image of {str(folder)!r} cannot be built: {error.strip()}", *lines])


def image_workdir(daemon: Daemon, image: str) -> str:
    """Return the folder that an image's programs start in."""
    with docker_errors(f"cannot look up image {image!r}"):
        return daemon.api.inspect_image(image)["Config"].get("WorkingDir") or "/"


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry
