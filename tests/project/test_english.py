"""English: what `scripts/check-english` counts, and one meaning for each word of the vocabulary."""

from __future__ import annotations

import re
from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check-english"
MEASURE = run_path(str(ROOT / "scripts" / "measure.py"))
CLASSES = {
    "task": "Task", "suite": "Suite", "environment": "Env", "trajectory": "Trajectory", "turn": "Turn",
    "tool call": "ToolCall", "dialect": "Dialect", "reward channel": "Channel", "gate": "Gate", "scheme": "Scheme",
    "policy": "Policy", "seat": "Seat", "group": "Group",
}  # fmt: skip
"""Terms of the vocabulary that are classes."""
STAND_INS = {"NotPlain", "Sandbox", "Sandboxes"}
"""Classes that stand in for those of the same name where an exported task is judged."""
MODULE = '''"""A task is no article."""

def pick(found, left, right):
    """Return an item."""
    # What is left goes on.
    if not found:
        raise ValueError("a plain error")
    told, total = found, 1
    return told
'''
PAGE = """Those of the suite stand beside it, in a place in which nobody looks.

```sh
echo "One of these is none."
```
"""


def test_phrases_count_per_10_000_words_and_names_per_1_000_bindings():
    counts = run_path(str(SCRIPT))["count"]([(Path("a.py"), MODULE), (Path("b.md"), PAGE)])
    page = f"b.md:1: {PAGE.splitlines()[0]}"
    assert {kind: places for kind, (_, _, places) in counts.items() if places} == {
        "'is no X' for 'is not an X'": ["a.py:1: A task is no article."],
        "a sentence that opens with a clause of 'what'": ["a.py:5: What is left goes on."],
        "'go on' for 'continue'": ["a.py:5: What is left goes on."],
        "'one that' or 'those that' as a subject": [page],
        "'beside'": [page],
        "a preposition before 'which'": [page],
        "names": ["a.py:8: told", "a.py:3: found"],
    }
    assert (round(counts["'beside'"][0]), round(counts["names"][0])) == (333, 400), "of 30 words and 5 bindings"


def test_a_class_name_means_one_thing_and_the_vocabulary_defines_each_term_once():
    paths = [path for folder in MEASURE["PRODUCT"] for path in (ROOT / folder).rglob("*.py")]
    modules = {MEASURE["module_name"](path): path for path in paths}
    assert set(MEASURE["shared_class_names"](modules)) == STAND_INS
    page = (ROOT / "docs" / "style.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| ([a-z ]+) \|", page[page.index("## Vocabulary") :], flags=re.MULTILINE)
    assert len(terms) == len(set(terms))
    assert CLASSES.keys() <= set(terms)
    sources = "\n".join(path.read_text(encoding="utf-8") for path in modules.values())
    assert [
        name for name in CLASSES.values() if not re.search(rf"^(class )?{name}\b", sources, flags=re.MULTILINE)
    ] == []
