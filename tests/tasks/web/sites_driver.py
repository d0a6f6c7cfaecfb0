"""Plays the plans of web tasks over HTTP, without a browser: it reads pages as accessibility trees do, and sends forms.

Only what is in the HTML counts: scripts do not run, so a plan that can be played here needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin

import httpx

from agentgym.tasks.web.sites import SiteEpisode, SiteServer

VOID = {"input", "br", "meta", "link", "hr", "img"}
INPUT_ROLES = {"search": "searchbox", "number": "spinbutton", "checkbox": "checkbox", "radio": "radio"}


class Element:
    """One element of a page."""

    def __init__(self, tag: str, attributes: Mapping[str, str | None], parent: Element | None):
        self.tag, self.parent, self.children = tag, parent, list[Element | str]()
        self.attributes = {key: value or "" for key, value in attributes.items()}

    def __iter__(self) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child

    @property
    def text(self) -> str:
        """All text inside, with single spaces."""
        parts = (child if isinstance(child, str) else child.text for child in self.children)
        return " ".join("".join(parts).split()) if self.tag != "textarea" else "".join(parts)

    def within(self, tag: str) -> Element | None:
        """The nearest element around this one with a tag."""
        around = self.parent
        while around is not None and around.tag != tag:
            around = around.parent
        return around

    @property
    def role(self) -> str:
        """The role in the accessibility tree."""
        if self.tag == "input":
            return INPUT_ROLES.get(self.attributes.get("type", "text"), "textbox")
        if self.tag == "select":
            return "listbox" if "multiple" in self.attributes else "combobox"
        return {"a": "link", "button": "button", "textarea": "textbox", "summary": "button"}.get(self.tag, "")

    def name(self, page: Element) -> str:
        """The accessible name."""
        if "aria-label" in self.attributes:
            return self.attributes["aria-label"]
        if self.tag in ("a", "button", "summary"):
            return self.text
        for label in page:
            if label.tag == "label" and label.attributes.get("for") == self.attributes.get("id", "-"):
                return label.text
        around = self.within("label")
        return around.text if around else ""


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.at = Element("page", {}, None)

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs), self.at)
        self.at.children.append(element)
        if tag not in VOID:
            self.at = element

    def handle_endtag(self, tag):
        opened = self.at if self.at.tag == tag else self.at.within(tag)
        if opened is not None and opened.parent is not None:
            self.at = opened.parent

    def handle_data(self, data):
        self.at.children.append(data)


def parse(html: str) -> Element:
    """Read a page."""
    parser = _Parser()
    parser.feed(html)
    return parser.root


class Driver:
    """A visitor of one episode. `answer` is what a plan's last step said."""

    def __init__(self, episode: SiteEpisode):
        host = {"host": episode.site.host}
        base = f"http://127.0.0.1:{SiteServer.shared().port}"
        self.client = httpx.Client(base_url=base, headers=host | episode.headers, follow_redirects=True)
        self.path, self.page, self.answer = "/", Element("page", {}, None), None
        self.html, self.status = "", 0

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def play(self, plan: list[Mapping[str, Any]], start: str = "/") -> None:
        """Open the start page and take every step of a plan."""
        self.goto(start)
        for number, step in enumerate(plan):
            try:
                self.take(step)
            except LookupError as error:
                raise AssertionError(f"step {number}, {dict(step)}: {error}") from error
            assert self.status < 400, f"step {number}, {dict(step)}: {self.page.text}"

    def take(self, step: Mapping[str, Any]) -> None:
        """Take one step."""
        do = step["do"]
        if do == "goto":
            self.goto(step["path"])
        elif do == "answer":
            self.answer = step["text"]
        elif do != "dialog":
            element = self.find(step)
            {"click": self._click, "fill": self._fill, "select": self._select}[do](element, step)

    def goto(self, path: str) -> None:
        """Open an address of the site."""
        self._show(self.client.get(path))

    def _show(self, response: httpx.Response) -> None:
        self.path, self.html, self.status = str(response.url.raw_path.decode()), response.text, response.status_code
        self.page = parse(self.html)

    def find(self, step: Mapping[str, Any]) -> Element:
        """Return the element that a step names; two that fit need `nth`."""
        of_role = [element for element in self.page if element.role == step["role"]]
        named = [element for element in of_role if element.name(self.page) == step["name"]]
        if "nth" not in step and len(named) > 1 and len({element.attributes.get("href") for element in named}) > 1:
            raise LookupError(f"{len(named)} elements are called {step['name']!r} on {self.path}")
        if not named:
            names = sorted({element.name(self.page) for element in of_role})
            notices = [element.text for element in self.page if element.attributes.get("role") in ("alert", "status")]
            raise LookupError(f"no {step['role']} {step['name']!r} on {self.path}, but {names}: {notices}")
        return named[step.get("nth", 0)]

    def _fill(self, element: Element, step: Mapping[str, Any]) -> None:
        if element.tag == "textarea":
            element.children = [step["text"].replace("\n", "\r\n")]
        else:
            element.attributes["value"] = step["text"]

    def _select(self, element: Element, step: Mapping[str, Any]) -> None:
        options = [child for child in element if child.tag == "option"]
        matches = [option for option in options if option.text == step["value"]]
        if len(matches) != 1:
            raise LookupError(f"{step['name']!r} has no option {step['value']!r}, but {[o.text for o in options]}")
        for option in options:
            option.attributes.pop("selected", None)
        matches[0].attributes["selected"] = ""

    def _click(self, element: Element, step: Mapping[str, Any]) -> None:
        kind = element.attributes.get("type", "")
        if element.tag == "a":
            self.goto(urljoin(self.path, element.attributes["href"]))
        elif element.role == "checkbox":
            if element.attributes.pop("checked", None) is None:
                element.attributes["checked"] = ""
        elif element.role == "radio":
            for other in self.page:
                if other.role == "radio" and other.attributes.get("name") == element.attributes["name"]:
                    other.attributes.pop("checked", None)
            element.attributes["checked"] = ""
        elif element.tag == "button" and kind != "button":
            self._send(element)

    def _send(self, button: Element) -> None:
        form = self._form_of(button)
        if form is None:
            raise LookupError("this button is in no form")
        fields = [pair for field in self.page if self._form_of(field) is form for pair in _values(field)]
        if "name" in button.attributes:
            fields.append((button.attributes["name"], button.attributes.get("value", "")))
        action = button.attributes.get("formaction") or form.attributes.get("action") or self.path
        target = urljoin(self.path, action)
        if form.attributes.get("method", "get").lower() == "post":
            headers = {"content-type": "application/x-www-form-urlencoded"}
            self._show(self.client.post(target, content=urlencode(fields), headers=headers))
        else:
            self.goto(f"{target.partition('?')[0]}?{urlencode(fields)}")

    def _form_of(self, element: Element) -> Element | None:
        if "form" in element.attributes:
            return next((form for form in self.page if form.attributes.get("id") == element.attributes["form"]), None)
        return element.within("form")


def _values(element: Element) -> list[tuple[str, str]]:
    name = element.attributes.get("name")
    if not name or "disabled" in element.attributes:
        return []
    if element.tag == "input":
        ticked = element.role not in ("checkbox", "radio") or "checked" in element.attributes
        return (
            [(name, element.attributes.get("value", "on"))]
            if ticked and element.attributes.get("type") != "submit"
            else []
        )
    if element.tag == "textarea":
        return [(name, element.text.removeprefix("\n"))]
    if element.tag == "select":
        options = [child for child in element if child.tag == "option"]
        selected = [option for option in options if "selected" in option.attributes]
        if not selected and "multiple" not in element.attributes:
            selected = options[:1]
        return [(name, option.attributes.get("value", option.text)) for option in selected]
    return []
