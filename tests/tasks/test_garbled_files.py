"""Files of tasks with arbitrary content are read, or refused in one line without a traceback."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym.core.task import TaskList
from agentgym.envs.swe.source import InstanceTasks
from agentgym.tasks.code.files import CodeFileTasks
from agentgym.tasks.search.files import SearchFileTasks
from agentgym.tasks.sql.files import SpiderTasks
from agentgym.tasks.web.files import WebFileTasks
from tests.refusals import refusal
from tests.tasks.entries import GSM8K, HOTPOT, HUMAN_EVAL, MBPP, MUSIQUE, OPEN, QUIXBUGS, SANITIZED, every_task

URLS = {"shopping": "http://127.0.0.1:9"}
QAS = [{"id": "1", "question": "q", "answers": [{"text": "a"}]}]
SQUAD = {"title": "T", "paragraphs": [{"context": "One.", "qas": QAS}]}
SQUAD_ROW = {"id": "1", "title": "T", "context": "One.", "question": "q"} | {
    "answers": {"text": ["a"], "answer_start": [0]}
}
SPIDER = {"db_id": "d", "question": "q", "query": "SELECT x FROM t", "evidence": "e", "difficulty": "hard"} | {
    "order_matters": True,
    "id": 3,
}
WEB = {
    "task_id": 1,
    "sites": ["shopping"],
    "intent": "look",
    "start_url": "__SHOPPING__",
    "eval": {
        "eval_types": ["string_match", "url_match", "program_html"],
        "reference_answers": {"must_include": ["x"]},
        "reference_url": "__SHOPPING__/x",
        "program_html": [{"url": "last", "locator": "", "required_contents": {"must_include": ["x"]}}],
    },
}
SWE_BENCH = {
    "instance_id": "kit__textkit-1",
    "repo": "kit/textkit",
    "base_commit": "1",
    "patch": "--- a/words.py\n+++ b/words.py\n@@ -1 +1 @@\n-old\n+new\n",
    "test_patch": "--- /dev/null\n+++ b/tests/test_words.py\n@@ -0,0 +1 @@\n+def test_words(): pass\n",
    "problem_statement": "Words are wrong.",
    "version": "1.0",
    "FAIL_TO_PASS": '["tests/test_words.py::test_words"]',
    "PASS_TO_PASS": "[]",
    "archive": "d.sqlite",
}
SHOP = {"instruction": "buy", "asin": "B1", "options": {"color": "red"}}


web: Callable[[Path], TaskList] = partial(WebFileTasks, urls=URLS)
squad: Callable[[Path], TaskList] = partial(SearchFileTasks, format="squad")
FORMS: Mapping[str, tuple[Any, Callable[[Path], TaskList]]] = {
    "humaneval": (HUMAN_EVAL, CodeFileTasks),
    "mbpp": (MBPP, CodeFileTasks),
    "sanitized": (SANITIZED, CodeFileTasks),
    "gsm8k": (GSM8K, CodeFileTasks),
    "quixbugs": (QUIXBUGS, CodeFileTasks),
    "hotpotqa": (HOTPOT, SearchFileTasks),
    "musique": (MUSIQUE, SearchFileTasks),
    "open": (OPEN, SearchFileTasks),
    "squad": ({"version": "v2.0", "data": [SQUAD]}, squad),
    "squad rows": (SQUAD_ROW, squad),
    "spider": (SPIDER, SpiderTasks),
    "swe-bench": (SWE_BENCH, InstanceTasks),
    "webarena": (WEB, web),
    "webshop": (SHOP, web),
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


@cache
def _folder() -> Path:
    """A folder with a database, built once for all examples of hypothesis."""
    folder = Path(tempfile.mkdtemp(prefix="garbled-"))
    with closing(sqlite3.connect(folder / "d.sqlite")) as database:
        database.executescript("CREATE TABLE t (x); INSERT INTO t VALUES (5), (6);")
    return folder


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_at_any_path_is_read_or_refused_in_one_line(form: str, data: st.DataObject):
    entry, read = FORMS[form]
    garbled = replaced(entry, data.draw(st.sampled_from(places(entry))), data.draw(JUNK))
    content = json.dumps(garbled if form == "squad" else [garbled, entry])
    file = _folder() / "train.json"
    file.write_text(content, encoding="utf-8")

    def load() -> str:
        source = read(file.parent if form == "spider" else file)
        return json.dumps([task.to_dict() for task in every_task(source)])

    message = refusal(load)
    assert "\n" not in message
    assert not message or str(file.parent) in message


@given(content=st.binary(max_size=40) | st.text(alphabet="[]{}:,\"'0a\n \ufeff", max_size=20).map(str.encode))
@settings(max_examples=20, deadline=None)
def test_any_bytes_are_refused_in_one_line(content: bytes):
    file = _folder() / "bytes.json"
    file.write_bytes(content)
    for form in FORMS.keys() - {"spider"}:
        message = refusal(FORMS[form][1], file)
        assert "bytes.json" in message, form
        assert "\n" not in message, form
