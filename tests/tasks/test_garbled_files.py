"""Files of tasks with arbitrary content are read, or refused in one line without a traceback."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.core.task import TaskList
from agentgym.tasks.code.files import CodeFileTasks
from agentgym.tasks.search.files import SearchFileTasks
from agentgym.tasks.web.files import WebFileTasks
from tests.refusals import refusal
from tests.tasks.entries import HOTPOT, HUMAN_EVAL, QUIXBUGS, every_task, write_entries
from tests.tasks.web.rows import arena

FORMS: Mapping[str, tuple[Any, Callable[[Path], TaskList]]] = {
    "humaneval": (HUMAN_EVAL, CodeFileTasks),
    "quixbugs": (QUIXBUGS, CodeFileTasks),
    "hotpotqa": (HOTPOT, SearchFileTasks),
    "webarena": (arena(), lambda file: WebFileTasks(file, {"shopping": "http://127.0.0.1:9"})),
}

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just("\ud800") | st.just("\0"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "text", "title"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in inner for place in places(part, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = replaced(value[path[0]], path[1:], new)
    return changed


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_at_any_path_is_read_or_refused_in_one_line(form: str, data: st.DataObject):
    entry, read = FORMS[form]
    garbled = replaced(entry, data.draw(st.sampled_from(places(entry))), data.draw(JUNK))
    with tempfile.TemporaryDirectory() as folder:
        file = write_entries(Path(folder), garbled, entry)
        message = refusal(lambda: json.dumps([task.to_dict() for task in every_task(read(file))]))
        assert "\n" not in message
        assert not message or str(file) in message
