"""`scripts/check-english` counts the phrases and names that docs/style.md advises against."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

SCRIPT = Path(__file__).parents[2] / "scripts" / "check-english"
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
