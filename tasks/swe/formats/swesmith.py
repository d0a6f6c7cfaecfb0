"""SWE-smith: bugs injected into working repositories. The patch of a row makes the bug; its reverse fixes it."""

from __future__ import annotations

from agentgym.tasks.swe.formats.row import DataSetRow, parser_of, tidy_lists
from agentgym.tasks.swe.formats.swebench import PYTEST, in_conda
from agentgym.tasks.swe.instance import TEST_TARGETS, Instance
from agentgym.tools.patches import PatchError, reverse_patch

_ORGANISATION = "swesmith/"


def read_swesmith(row: DataSetRow) -> Instance:
    """Read a row of SWE-smith.

    The image has the repository without the bug; the branch named like the row has the bug in its last commit but
    one and removes the failing tests in its last.
    """
    instance_id, mirror = row.text("instance_id"), row.text("repo")
    bug = row.text("patch")
    try:
        gold = reverse_patch(bug if bug.endswith("\n") else f"{bug}\n")
    except PatchError as error:
        raise row.error(f"the patch of {instance_id!r} cannot be reversed: {error}") from error
    named = [*row.strings("FAIL_TO_PASS"), *row.strings("PASS_TO_PASS")]
    is_python = any(".py" in test_id.partition("::")[0] for test_id in named)
    parser, guessed = parser_of("pytest" if is_python else None, "")
    tests = tidy_lists(row.strings("FAIL_TO_PASS"), row.strings("PASS_TO_PASS"), parser)
    files = sorted({test_id.partition("::")[0] for test_id in named if "::" in test_id})
    repo = mirror.removeprefix(_ORGANISATION).rpartition(".")[0].replace("__", "/", 1) or mirror
    return Instance(
        id=instance_id,
        source="swe-smith",
        repo=repo,
        base_ref=row.text("base_commit", "branch", default=instance_id),
        prompt=row.text("problem_statement", default=""),
        gold_patch=gold,
        fail_to_pass=tests.fail_to_pass,
        pass_to_pass=tests.pass_to_pass,
        test_patch=row.text("test_patch", default=""),
        test_command=in_conda(PYTEST),
        parser=parser,
        image=_image(row.text("image_name", default=""), mirror),
        workdir="/testbed",
        tags=(repo,),
        meta={TEST_TARGETS: files, "bug_patch": bug, "branch": instance_id, **tests.meta, **guessed},
    )


def _image(named: str, mirror: str) -> str:
    """Return the image by the rule `swesmith.x86_64.OWNER_1776_REPO.COMMIT`, under its owner on Docker Hub."""
    name = named or f"swesmith.x86_64.{mirror.removeprefix(_ORGANISATION)}"
    owner, slash, rest = name.rpartition("/")
    return f"{owner or 'jyangballin'}{slash or '/'}{rest.replace('__', '_1776_')}".lower()
