"""The page: its modules as one script, its style, and the content security policy that blocks all other code.

The modules are plain JavaScript in `data/`. They are joined here, so that no build step is needed and the page is the
same whether it is served or opened from disk.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

DATA = Path(__file__).parent / "data"
TITLE = b"<title>agentgym</title>"
"""Part of the head of every page."""
_MAIN = "main"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)

# Allows requests to this page's own server only, and prevents text from becoming markup or code.
_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; connect-src {connect}; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
SERVED_POLICY = _POLICY.format(script="'self'", style="'self'", connect="'self'") + "; frame-ancestors 'none'"
"""The content security policy of the served page."""


@cache
def script() -> str:
    """Return the modules as one script: each becomes a function that returns its exports."""
    modules = {path.stem: path.read_text(encoding="utf-8") for path in DATA.glob("*.js")}
    needs = {name: {match[2] for match in _IMPORT.finditer(text)} for name, text in modules.items()}
    order = TopologicalSorter(needs).static_order()
    return '"use strict";\n' + "".join(_wrapped(name, modules[name]) for name in order)


@cache
def style() -> str:
    """Return the style sheet."""
    return (DATA / "style.css").read_text(encoding="utf-8")


def served_page() -> str:
    """Return the page for a server, which serves script and style separately."""
    head = '<link rel="stylesheet" href="viewer.css">\n<script src="viewer.js" defer></script>'
    return _page(head, ())


def whole_page(blocks: Iterable[str]) -> Iterable[str]:
    """Yield the parts of a self-contained page that needs no network.

    Args:
        blocks: Trusted HTML, such as the packed data; yielded as it comes.
    """
    policy = _POLICY.format(script=_hash(script()), style=_hash(style()), connect="'none'")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style()}</style>'
    before, after = _page(head, (_MARK,)).split(_MARK)
    yield before
    yield from blocks
    yield f"<script>{script()}</script>{after}"


_MARK = "<!--here-->"


def _page(head: str, data: Iterable[str]) -> str:
    page = (DATA / "index.html").read_text(encoding="utf-8")
    return page.replace("<!--HEAD-->", head).replace("<!--DATA-->", "".join(data))


def _wrapped(name: str, text: str) -> str:
    exported = ", ".join(match[1] for match in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(r"const {\1} = module_\2;\n", text))
    return f"const module_{name} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
