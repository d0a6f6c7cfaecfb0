"""Shows a page to a policy: the whole view or its changes, one part at a time, optionally with a picture."""

from __future__ import annotations

from agentgym.core.messages import Pictured
from agentgym.tools.browser import View, difference, page_of


def show_view(view: View, before: View | None, max_chars: int, part: int = 1) -> str:
    """Return a view as text.

    Args:
        view: The view to show.
        before: The view that the policy saw last; if given, only the changes are shown.
        max_chars: Characters of a part; a longer view states the number of parts.
        part: Number of the part, from 1.
    """
    if before is not None and before.text == view.text and before.url == view.url and not view.notices:
        return "Nothing changed."
    text = view.text if before is None else difference(before, view)
    return page_of(text, part, max_chars)


def with_picture(text: str, picture: bytes | None) -> str | Pictured:
    """Return `text` with a picture, if there is one."""
    return text if picture is None else Pictured(text, (picture,))
