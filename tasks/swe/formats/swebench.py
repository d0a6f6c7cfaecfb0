"""SWE-bench (with Verified, Lite and Multilingual), SWE-Gym, SWE-rebench and SWE-rebench V2: one set of fields."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any

from agentgym.tasks.swe.formats.row import DataSetRow, language_of, parser_of, targets, tidy_lists
from agentgym.tasks.swe.instance import TEST_TARGETS, Instance

_ACTIVATE = "source /opt/miniconda3/bin/activate testbed"
PYTEST = ("pytest", "-rA", "-p", "no:cacheprovider")
_COMMANDS = {
    "django/django": ("./tests/runtests.py", "--verbosity", "2", "--settings=test_sqlite", "--parallel", "1"),
    "sympy/sympy": ("bin/test", "-C", "--verbose"),
    "sphinx-doc/sphinx": ("tox", "--current-env", "-epy39", "-v", "--"),
    "astropy/astropy": (*PYTEST, "-vv", "-o", "console_output_style=classic", "--tb=no"),
}
_PARSERS = {
    "django/django": "django",
    "sympy/sympy": "sympy",
    "pydicom/pydicom": "pytest-options",
    "psf/requests": "pytest-options",
    "pylint-dev/pylint": "pytest-options",
    "matplotlib/matplotlib": "pytest-matplotlib",
}
_TIMES = {"<15 min fix": 1, "15 min - 1 hour": 2, "1-4 hours": 3, ">4 hours": 4}
_LEVELS = {"easy": 1, "medium": 2, "hard": 3}
_KEPT = ("version", "created_at", "environment_setup_commit", "license_name", "FAIL_TO_FAIL", "PASS_TO_FAIL")
_SHELL = re.compile(r"[|&;<>$`\n]|^\s*\w+=")


def read_swebench(row: DataSetRow) -> Instance:
    """Read a row of SWE-bench, Verified, Lite or Multilingual."""
    return _read(row, "swe-bench", _image(row, "swebench", "_1776_"))


def read_swegym(row: DataSetRow) -> Instance:
    """Read a row of SWE-Gym."""
    return _read(row, "swe-gym", _image(row, "xingyaoww", "_s_"))


def read_rebench(row: DataSetRow) -> Instance:
    """Read a row of SWE-rebench: the install config names the test command and the log parser."""
    config = row.mapping("install_config")
    instance = _read(row, "swe-rebench", _image(row, "swerebench", "_1776_"), str(config.get("log_parser") or "pytest"))
    command = _commands(row, config.get("test_cmd"))
    return replace(instance, test_command=in_conda(command)) if command else instance


def read_rebench_v2(row: DataSetRow) -> Instance:
    """Read a row of SWE-rebench V2: twenty languages, the repository in a folder of its name."""
    config = row.mapping("install_config")
    name = config.get("log_parser")
    instance = _read(row, "swe-rebench-v2", row.text("image_name", "docker_image"), str(name) if name else None)
    command = _commands(row, config.get("test_cmd"))
    if not command:
        raise row.error("install_config has no 'test_cmd'")
    interface = row.text("interface", default="").strip()
    prompt = f"{instance.prompt}\n\nInterface:\n{interface}" if interface else instance.prompt
    workdir = f"/{instance.repo.rpartition('/')[2]}"
    level = _LEVELS.get(str(_annotation(row).get("difficulty")), instance.difficulty)
    return replace(instance, prompt=prompt, test_command=command, workdir=workdir, difficulty=level)


def in_conda(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command run in the conda environment of SWE-bench's images; arguments may be appended."""
    return ("bash", "-c", f'{_ACTIVATE} && exec "$@"', "tests", *command)


def without_conda(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command without the wrapper of `in_conda`."""
    wrapper = in_conda(())
    return command[len(wrapper) :] if command[: len(wrapper)] == wrapper else command


def _read(row: DataSetRow, source: str, image: str, log_parser: str | None = None) -> Instance:
    repo, test_patch, gold = row.text("repo"), row.text("test_patch", default=""), row.text("patch")
    language = language_of(row, test_patch, gold)
    parser, meta = parser_of(log_parser or _PARSERS.get(repo), language)
    if log_parser is None and language == "python":
        meta = {}
    tests = tidy_lists(row.strings("FAIL_TO_PASS"), row.strings("PASS_TO_PASS"), parser)
    places = targets(test_patch)
    extra_fields = {name: row.fields[name] for name in _KEPT if row.fields.get(name) not in (None, "", [])}
    return Instance(
        id=row.text("instance_id"),
        source=source,
        repo=repo,
        base_ref=row.text("base_commit"),
        prompt=row.text("problem_statement"),
        gold_patch=gold,
        fail_to_pass=tests.fail_to_pass,
        pass_to_pass=tests.pass_to_pass,
        test_patch=test_patch,
        test_command=in_conda(_COMMANDS.get(repo, PYTEST)),
        parser=parser,
        image=image,
        workdir="/testbed",
        difficulty=_TIMES.get(row.text("difficulty", default=""), 1),
        tags=tuple(tag for tag in (repo, language) if tag),
        hints=row.text("hints_text", default=""),
        meta=_jsonable(
            {
                TEST_TARGETS: list(_django(places) if parser == "django" else places),
                **extra_fields,
                **tests.meta,
                **meta,
            }
        ),
    )


def _image(row: DataSetRow, owner: str, joiner: str) -> str:
    """Return the image that the row names, or the one that the data set derives from its id."""
    named = row.text("image_name", "docker_image", default="")
    return named or f"{owner}/sweb.eval.x86_64.{row.text('instance_id').replace('__', joiner)}:latest".lower()


def _django(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the labels that Django's runner expects for test files."""
    return tuple(path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in paths)


def _commands(row: DataSetRow, value: Any) -> tuple[str, ...]:
    """Return one command from the install config, which has a command line or a list of them."""
    lines = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(line, str) for line in lines):
        raise row.error(f"'test_cmd' must hold command lines, not {str(value)[:60]!r}")
    lines = [line.strip() for line in lines if line.strip()]
    if len(lines) == 1 and not _SHELL.search(lines[0]):
        try:
            return tuple(shlex.split(lines[0]))
        except ValueError as error:
            raise row.error(f"'test_cmd' cannot be split: {error}: {lines[0][:60]!r}") from error
    return ("bash", "-c", "\n".join(lines)) if lines else ()


def _annotation(row: DataSetRow) -> dict[str, Any]:
    """Return the annotation that a model wrote about a row of V2, if there is one."""
    annotations = row.mapping("meta").get("llm_metadata")
    first = annotations[0] if isinstance(annotations, list) and annotations else annotations
    return first if isinstance(first, dict) else {}


def _jsonable(meta: dict[str, Any]) -> dict[str, Any]:
    """Return meta with values that are not JSON (times from Parquet files) as text."""
    return {
        key: value if isinstance(value, str | int | float | list | bool) else str(value) for key, value in meta.items()
    }
