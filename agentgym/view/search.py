"""Full-text search over the contents of a collection. `data/texts.js` defines the same texts for the page."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.messages import text_of
from agentgym.records.json_lines import parse_line
from agentgym.view.collection import Collection

_REMEMBERED = 8
_WORD = re.compile(rb"[a-z0-9]+")


class TextSearch:
    """Finds trajectories by text, ignoring case. Repeated searches for a text read only new trajectories."""

    def __init__(self, collection: Collection):
        self._collection = collection
        self._known: OrderedDict[str, tuple[set[str], set[str]]] = OrderedDict()  # read and matching keys by text
        self._lock = threading.Lock()

    def find(self, text: str) -> frozenset[str]:
        """Return the keys of the trajectories that contain a text."""
        needle = text.lower()
        with self._lock:
            read, hits = self._known.setdefault(needle, (set(), set()))
            self._known.move_to_end(needle)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            unread = [row["key"] for row in self._collection.rows if row["key"] not in read]
            for key, line in self._collection.raw_all(unread):
                read.add(key)
                if _contains(line, needle):
                    hits.add(key)
            return frozenset(hits)


def _contains(line: bytes, needle: str) -> bool:
    lowered = line.lower()
    # JSON does not escape ASCII letters and digits, so most lines need not be parsed.
    if not all(word in lowered for word in _WORD.findall(needle.encode("ascii", "replace"))):
        return False
    return any(needle in text.lower() for text in texts_of(parse_line(line)))


def texts_of(trajectory: Mapping[str, Any]) -> Iterator[str]:
    """Yield the searchable texts in the JSON data of a trajectory."""
    yield trajectory["id"]
    yield trajectory.get("error") or ""
    yield from _leaves(trajectory.get("details"))
    yield from (text for message in trajectory["opening"] for text in _in_message(message))
    for turn in trajectory.get("turns", ()):
        action = turn["action"]
        if action is not None:
            yield from [action] if isinstance(action, str) else _in_message(action)
        yield from (text for message in turn["observation"] for text in _in_message(message))


def _in_message(message: Mapping[str, Any]) -> Iterator[str]:
    yield text_of(message)
    yield from _leaves(message.get("tool_calls"))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
