"""Creates Docker images from local files, without a registry and without a build."""

from __future__ import annotations

import json
import os
import re
import tarfile
import tempfile
from pathlib import Path

from agentgym.errors import InfrastructureError, UsageError
from agentgym.tools.sandbox.containers.daemon import Daemon, docker_errors


def image_from_rootfs(path: Path | str, name: str | None = None, *, daemon: Daemon | None = None) -> str:
    """Create an image from a root file system and return its name.

    Args:
        path: A folder with `bin`, `usr`, … or a tar file of one.
        name: The image's name; by default derived from the file name.
        daemon: The daemon; by default Docker's default.
    """
    path = Path(path)
    if not path.exists():
        raise UsageError(f"the root file system {str(path)!r} does not exist")
    repository, _, tag = (name or _name_for(path)).partition(":")
    tag = tag or "latest"
    daemon = daemon or Daemon()
    if path.is_file():
        _import(daemon, path, repository, tag)
    else:
        with tempfile.NamedTemporaryFile(suffix=".tar") as packed:
            _pack(path, Path(packed.name))
            _import(daemon, Path(packed.name), repository, tag)
    return f"{repository}:{tag}"


def has_image(daemon: Daemon, image: str) -> bool:
    """Return whether the daemon has this image."""
    from docker.errors import NotFound

    with docker_errors(f"cannot look up image {image!r}"):
        try:
            daemon.api.inspect_image(image)
        except NotFound:
            return False
    return True


def environment_of(daemon: Daemon, image: str) -> dict[str, str]:
    """Return the environment variables that an image sets."""
    with docker_errors(f"cannot look up image {image!r}"):
        variables = daemon.api.inspect_image(image)["Config"].get("Env") or []
    return dict(variable.split("=", 1) for variable in variables if "=" in variable)


def _name_for(path: Path) -> str:
    stem = path.resolve().name.removesuffix(".gz").removesuffix(".tar")
    return "agentgym-" + (re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "rootfs")


def _import(daemon: Daemon, packed: Path, repository: str, tag: str) -> None:
    what = f"cannot import {repository}:{tag}"
    changes = ["ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    with docker_errors(what):
        answer = daemon.maker.import_image_from_file(str(packed), repository=repository, tag=tag, changes=changes)
    # The status is 200 even if the import fails later.
    for line in filter(None, answer.splitlines()):
        problem = json.loads(line).get("error")
        if problem:
            raise InfrastructureError(f"{what}: {problem}")


def _pack(folder: Path, into: Path) -> None:
    """Pack a folder. Unless we are root, files on disk belong to whoever unpacked them; in the image, to root."""

    def owned(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if os.geteuid() != 0:
            entry.uid = entry.gid = 0
        return entry

    with tarfile.open(into, "w") as archive:
        archive.add(folder, arcname=".", filter=owned)
