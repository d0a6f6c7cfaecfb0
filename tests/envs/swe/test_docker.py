"""Instances with an image: the repository and the tools that test it come from the image."""

from __future__ import annotations

import dataclasses
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentgym.check.play import assistant_call
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.policy import steps
from agentgym.envs.swe import SWEEnv
from agentgym.tasks.swe.bundled import BundledSWETasks
from agentgym.tasks.swe.instance import TEST_TARGETS, from_task, write_instances
from agentgym.tasks.swe.pytest_folder import pytest_folder

pytestmark = [pytest.mark.nightly, pytest.mark.docker]
BASE = os.environ.get("AGENTGYM_TEST_IMAGE", "")
IMAGE = "agentgym-test:repository"
LIBRARY = "usr/local/lib/tools"


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return an archive with pytest and the files of a repository."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(pytest_folder(), LIBRARY)
        for path, data in files.items():
            entry = tarfile.TarInfo(f"testbed/{path}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a file with one instance, whose image holds a bundled repository, its bug and pytest."""
    docker = pytest.importorskip("docker")
    if not BASE:
        pytest.skip("AGENTGYM_TEST_IMAGE is not set")
    source = BundledSWETasks()
    task = source.get("train", 0)
    instance = from_task(task)
    client = docker.from_env()
    try:
        container = client.containers.create(BASE, ["true"])
        container.put_archive("/", packed(source.tree(task)))
        roots = [f"/testbed/{root}" for root in instance.python_path]
        container.commit(*IMAGE.split(":"), conf={"Env": [f"PYTHONPATH={':'.join([*roots, '/' + LIBRARY])}"]})
        container.remove()
    finally:
        client.close()
    targets = sorted({test.partition("::")[0] for test in (*instance.fail_to_pass, *instance.pass_to_pass)})
    meta = {key: value for key, value in instance.meta.items() if key != "bug_patch"} | {TEST_TARGETS: targets}
    command = ("python3", "-m", "pytest", "-rA", "-p", "no:cacheprovider")
    path = tmp_path_factory.mktemp("instances") / "instances.jsonl"
    changes = {"image": IMAGE, "archive": None, "workdir": "/testbed", "test_command": command, "meta": meta}
    write_instances(path, [dataclasses.replace(instance, **changes)])
    return path


def test_only_the_solution_is_paid_and_runs_on_the_files_of_the_image(instances: Path):
    env = SWEEnv(file=instances, solution_style="short")
    env.reset(options={"index": 0})
    output = text_of(env.step(assistant_call(ToolCall("run", {"command": "pwd; touch here && ls"}))).observation[-1])
    assert {"/testbed", "here"} <= set(output.split())
    *_, step = steps(env, env.solution(env.task))
    assert (step.info["is_success"], step.info["sandbox"]["tier"]) == (True, "docker")
    env.reset(options={"index": 0})
    step = env.step(assistant_call(ToolCall("submit", {})))
    assert (step.terminated, step.info["is_success"]) == (True, False)
    env.close()
