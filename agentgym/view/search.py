"""Full-text search over the contents of a collection. `data/texts.js` says the same of what is searched."""

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


class Search:
    """Finds trajectories by a text, whatever its case. Later searches for the same text read only what is new."""

    def __init__(self, collection: Collection):
        self._collection = collection
        self._known: OrderedDict[str, tuple[set[str], set[str]]] = OrderedDict()  # keys that were read, and found
        self._lock = threading.Lock()

    def find(self, text: str) -> frozenset[str]:
        """Return the keys of the trajectories that contain a text."""
        wanted = text.lower()
        with self._lock:
            read, found = self._known.setdefault(wanted, (set(), set()))
            self._known.move_to_end(wanted)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            left = [row["key"] for row in self._collection.rows if row["key"] not in read]
            for key, line in self._collection.raw_all(left):
                read.add(key)
                if _contains(line, wanted):
                    found.add(key)
            return frozenset(found)


def _contains(line: bytes, wanted: str) -> bool:
    lowered = line.lower()
    # JSON writes ASCII letters and digits as they are: most lines need no parsing.
    if not all(word in lowered for word in _WORD.findall(wanted.encode("ascii", "replace"))):
        return False
    return any(wanted in text.lower() for text in texts_of(parse_line(line)))


def texts_of(trajectory: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in the JSON data of a trajectory that people look for."""
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
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one)
