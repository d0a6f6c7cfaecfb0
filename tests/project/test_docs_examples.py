"""Every example of the documentation runs here, or the line before it gives the reason why not.

The Python blocks of a page share a namespace, and its commands a folder. Only the tutorial's `check` runs all checks;
`train` shows its settings instead of training; addresses are replaced by a fake endpoint's.
"""

from __future__ import annotations

import io
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.tools.sandbox.registry import automatic
from tests.doc_blocks import DOCS, ROOT, Block, blocks_of, pages
from tests.endpoints import Fake, completion

pytestmark = pytest.mark.real

IN_OWN_TEST = {
    "data.md": "tests/project/test_docs_data.py",
    "interop/serve.md": "tests/project/test_docs_serve.py",
    "suites.md": "tests/project/test_docs_suites.py",
    "interop/verifiers.md": "tests/interop/test_verifiers.py",
    "interop/openenv.md": "tests/interop/test_openenv.py",
    "interop/inspect.md": "tests/interop/test_inspect.py",
    "interop/environments.md": "tests/interop/test_docs_environments.py",
    "interop/mcp.md": "tests/interop/test_mcp_in.py",
    "interop/trl.md": "tests/interop/test_trl.py",
    "interop/skyrl.md": "tests/interop/test_skyrl.py",
    "interop/verl.md": "tests/interop/test_verl.py",
    "interop/nemo.md": "tests/interop/test_nemo.py",
    "interop/rllm.md": "tests/interop/test_rllm.py",
    "interop/gateway.md": "tests/interop/test_gateway.py",
}
"""Pages whose examples need data sets, a server or the packages of other projects, and the tests that have them."""
ADDRESSES = ("http://localhost:8000/v1", "https://example.com/v1")
CHECKED_WHOLLY = "meeting:MeetingEnv"
FEW = ["-n", "1", "-k", "1"]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def named(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


PAGES = [page for page in pages() if blocks_of(page) and named(page) not in IN_OWN_TEST]


def to_run(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.why_not is None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the environment of the README; its modules are unloaded afterwards."""
    before = set(sys.modules)
    for block in blocks_of(ROOT / "README.md"):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setenv("COLUMNS", "200")
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_examples_of_a_page_run_in_order(folder: Path, page: Path):
    names: dict[str, object] = {}
    for block in to_run(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            run_python(block, names, named(page))
        for words in block.commands if block.language == "sh" else ():
            run_command(words)


def run_python(block: Block, names: dict[str, object], page: str) -> None:
    """Run a block. A comment on its own line states the expected output."""
    if "open_sandbox" in block.text and automatic() is None:
        pytest.skip("no backend of the sandbox works here")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block.text, f"docs/{page}", "exec"), names)
    notes = [line.removeprefix("# ") for line in block.text.splitlines() if line.startswith("# ")]
    assert [line for line in notes if line not in (block.file, *printed.getvalue().splitlines())] == []


def run_command(words: list[str]) -> None:
    program, *rest = words
    if program == "agentgym":
        run_agentgym(rest)
    elif program == "pip":
        assert {extra for word in rest for extra in extras_in(word)} <= set(EXTRAS)
    else:
        assert program == "export", f"mark {words} as not run, with the reason"


def extras_in(word: str) -> list[str]:
    return word.partition("[")[2].rstrip("]").split(",") if word.startswith("agentgym-suite[") else []


def run_agentgym(words: list[str]) -> None:
    command, *rest = words
    if command == "export" and find_spec("pyarrow") is None:
        pytest.skip("needs the [data] extra")
    if command == "train":
        show_settings(rest)
    elif any(address in word for word in rest for address in ADDRESSES):
        ask_a_fake(words)
    elif command == "check" and CHECKED_WHOLLY not in rest and "--only" not in rest:
        invoke([*words, "--only", "makes"])
    elif command == "doctor":
        CliRunner().invoke(app, words)  # its exit code is about the machine
    else:
        invoke(words, typed=":quit\n" if command == "play" else None)


def invoke(words: list[str], typed: str | None = None) -> str:
    result = CliRunner().invoke(app, words, input=typed)
    assert result.exit_code == 0, f"{words}: {result.output}"
    return result.output


def show_settings(words: list[str]) -> None:
    if find_spec("torch") is None:
        pytest.skip("needs the [train] extra")
    words = [word for word in words if word != "--resume"]  # there is no run
    command = words if "--show-config" in words else [*words, "--show-config"]
    assert "group_size" in invoke(["train", *command])


def ask_a_fake(words: list[str]) -> None:
    """Play one episode with a model that makes no calls."""
    if find_spec("aiohttp") is None:
        pytest.skip("needs the [endpoint] extra")
    with Fake(lambda request, number: completion("I do not know.")).serving() as url:
        invoke([*(re.sub("|".join(ADDRESSES), url, word) for word in words), *FEW])


@pytest.mark.parametrize(("page", "test"), IN_OWN_TEST.items())
def test_pages_with_their_own_test_are_read_there(page: str, test: str):
    assert f'{Path(page).name}"' in (ROOT / test).read_text(encoding="utf-8")


def test_few_examples_are_not_run_and_each_has_a_reason():
    blocks = [block for page in pages() for block in blocks_of(page)]
    reasons = [block.why_not for block in blocks if block.why_not]
    assert all(len(reason.split()) > 2 for reason in reasons)
    run_by_none = [reason for reason in reasons if "tests/" not in reason]
    assert len(run_by_none) / len(blocks) < 0.16
