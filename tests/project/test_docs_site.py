"""The documentation site is complete, builds without warnings and loads nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentgym
from tests.doc_blocks import DOCS, ROOT
from tests.rows import each_row
from tests.waiting import HANG_S

pytestmark = pytest.mark.real

PAGES = sorted(DOCS.rglob("*.md"))
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]+)?\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="needs the [docs] extra")
    pytest.importorskip("mkdocstrings", reason="needs the [docs] extra")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_the_site_builds_without_warnings_and_has_every_page(site: Path):
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    names = {page.relative_to(DOCS).as_posix() for page in PAGES}
    assert {name.replace("README.md", "index.md").removesuffix(".md") + ".html" for name in names} <= pages


def test_every_public_name_is_in_the_api_pages():
    pages = "".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "api").glob("*.md")))
    documented = set(re.findall(r"^::: [\w.]*?(\w+)$", pages, re.M))
    assert {name for name in agentgym.__all__ if not name.startswith("__")} - documented == set()


@each_row("page", PAGES)
def test_links_point_to_existing_files_and_headings(page: Path):
    for link, anchor in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / link) if link else page
        assert target.is_file(), link
        if anchor:
            assert anchor.removeprefix("#") in headings(target), f"{link}{anchor}"


def headings(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub and MkDocs make them."""
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in lines}
