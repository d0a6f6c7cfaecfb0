"""A hook of MkDocs: files outside of docs/ that pages link to, such as results and the changelog, join the site.

So a link works both in the repository, where it leads to the file, and in the site, which holds a copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

FOLDER = "outside"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what those that are added link to."""
    waiting = [file for file in files.documentation_pages() if file.abs_src_path]
    while waiting:
        page = waiting.pop()
        for target in sorted(set(_targets(page, config))):
            place = _place(target, config)
            if files.get_file_from_path(place) is None:
                added = File.generated(config, place, abs_src_path=str(target))
                files.append(added)
                waiting += [added] if added.is_documentation_page() else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to where the files are in the site."""
    if page.file.abs_src_path is None:
        return markdown
    source = Path(page.file.abs_src_path)

    def moved(found: re.Match[str]) -> str:
        target = (source.parent / found[1]).resolve()
        if not target.is_file():
            return found[0]
        return os.path.relpath(_place(target, config), os.path.dirname(page.file.src_uri) or ".")

    return LINK.sub(moved, markdown)


def _targets(page: File, config: MkDocsConfig) -> Iterator[Path]:
    """Yield the files of the repository, outside of docs/, that a page links to."""
    source = Path(str(page.abs_src_path))
    root, docs = Path(config.config_file_path).parent.resolve(), Path(config.docs_dir).resolve()
    for link in LINK.findall(source.read_text(encoding="utf-8")):
        target = (source.parent / link).resolve()
        if target.is_file() and target.is_relative_to(root) and not target.is_relative_to(docs):
            yield target


def _place(target: Path, config: Any) -> str:
    """Return the path of a file in the site's sources."""
    docs = Path(config.docs_dir).resolve()
    if target.is_relative_to(docs):
        return target.relative_to(docs).as_posix()
    inside = target.relative_to(Path(config.config_file_path).parent.resolve()).as_posix()
    # Browsers show a text, and offer to save a program.
    return f"{FOLDER}/{inside}.txt" if target.suffix in (".py", "") else f"{FOLDER}/{inside}"
