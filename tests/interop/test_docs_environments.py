"""The examples of `docs/interop/environments.md` run, each where its package is there."""

from __future__ import annotations

import io
import re
import shutil
from contextlib import ExitStack, redirect_stdout
from importlib.util import find_spec
from typing import Any

import pytest

from tests.doc_blocks import DOCS, Block, blocks_of
from tests.interop.openenv_serving import serving

PAGE = "interop/environments.md"
BLOCKS = [block for block in blocks_of(DOCS / PAGE) if block.language == "python"]
PACKAGES = {
    "interop.envs.gym ": "gymnasium",
    "interop.envs.reasoning_gym": "reasoning_gym",
    "interop.envs.textarena": "textarena",
    "interop.envs.openenv": "openenv",
    "interop.envs.verifiers": "verifiers",
    "interop.envs.browsergym": "browsergym",
}


def package_of(block: Block) -> str:
    return next(package for module, package in PACKAGES.items() if module in block.text)


def case(block: Block) -> Any:
    package = package_of(block)
    return pytest.param(block, id=package, marks=[] if package == "gymnasium" else [pytest.mark.peers])


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", [*map(case, BLOCKS)])
def test_the_example_of_a_package_runs(block: Block):
    package = package_of(block)
    if find_spec(package) is None:
        pytest.skip(f"{package}: not in this environment (see .ci/peers)")
    text = block.text.replace("my_env:load_environment", "tests.interop.calculator:load_environment")
    browser = shutil.which("chromium") or shutil.which("chromium-headless-shell")
    if package == "browsergym" and browser is None:
        pytest.skip("needs a Chromium")
    text = text.replace("/usr/bin/chromium", browser or "")
    printed = io.StringIO()
    with ExitStack() as stack:
        if package == "openenv":
            text = text.replace("http://127.0.0.1:8000", stack.enter_context(serving("hidden")))
        stack.enter_context(redirect_stdout(printed))
        exec(compile(text, f"docs/{PAGE}", "exec"), {})
    expected = re.findall(r"^# (.*)$", block.text, re.M)
    assert [line for line in expected if line not in printed.getvalue().splitlines()] == []
