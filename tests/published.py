"""Small data sets in the layouts of seven public ones, with invented content."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from agentgym.tasks.swe.pytest_folder import pytest_folder
from agentgym.tools.patches import diff_trees


def spider(folder: Path) -> None:
    """`spider_data/`: questions in three files, tables, gold queries as text, and a folder for each database."""
    root = folder / "spider_data"
    _database(root / "database" / "concert_hall" / "concert_hall.sqlite", CONCERTS)
    _database(root / "database" / "bakery" / "bakery.sqlite", BAKERY)
    _json(root / "train_spider.json", [_asked("bakery", *pair) for pair in BREAD])
    _json(root / "train_others.json", [_asked("bakery", "What do all breads cost?", "SELECT sum(price) FROM bread")])
    _json(root / "dev.json", [_asked("concert_hall", *pair) for pair in MUSIC])
    _json(root / "tables.json", [{"db_id": name, "table_names": []} for name in ("concert_hall", "bakery")])
    (root / "dev_gold.sql").write_text("".join(f"{sql}\tconcert_hall\n" for _, sql in MUSIC))
    (root / "README.txt").write_text("Questions and databases.\n")


def kaggle_dbqa(folder: Path) -> None:
    """`examples/NAME.json` with all questions, `_fewshot` and `_test` with parts of them, and `databases/`."""
    root = folder / "KaggleDBQA"
    _database(root / "databases" / "Bakery" / "Bakery.sqlite", BAKERY)
    questions = [_asked("Bakery", *pair) for pair in BREAD]
    for name, entries in (("Bakery", questions), ("Bakery_fewshot", questions[:1]), ("Bakery_test", questions[1:])):
        _json(root / "examples" / f"{name}.json", entries)
    _json(root / "KaggleDBQA_tables.json", [{"db_id": "Bakery", "column_descriptions": ["*"]}])


def mbpp(folder: Path) -> None:
    """`mbpp.jsonl`, and `sanitized-mbpp.json`, which repeats some of its problems."""
    entries: list[dict[str, Any]] = []
    for number, (text, code, tests) in PROBLEMS.items():
        entries.append({"text": text, "code": code, "task_id": number, "test_setup_code": "", "test_list": tests})
        entries[-1]["challenge_test_list"] = []
    _lines(folder / "mbpp" / "mbpp.jsonl", entries)
    text, code, tests = PROBLEMS[11]
    again = {
        "source_file": "made up",
        "task_id": 11,
        "prompt": text,
        "code": code,
        "test_imports": [],
        "test_list": tests,
    }
    _json(folder / "mbpp" / "sanitized-mbpp.json", [again | {"test_list": tests}])


def hotpotqa(folder: Path) -> None:
    """One JSON list: ten titled paragraphs per question, with supporting facts in two of them."""
    entries = []
    for number, (question, answer, titles) in enumerate(CHAINS):
        context = [[title, [f"{sentence} " for sentence in PAGES[title]]] for title in [*titles, *_others(titles)]]
        facts = [[title, 0] for title in titles]
        entries.append(
            {"_id": f"5a{number}", "question": question, "answer": answer, "type": "bridge", "level": "hard"}
        )
        entries[-1] |= {"supporting_facts": facts, "context": context}
    _json(folder / "hotpot_dev_distractor_v1.json", entries)


def musique(folder: Path) -> None:
    """JSON lines: numbered paragraphs, and the steps of each question with the paragraph that each needs."""
    entries = []
    for number, (question, answer, titles) in enumerate(CHAINS):
        paragraphs = [
            {"idx": index, "title": title, "paragraph_text": " ".join(PAGES[title]), "is_supporting": title in titles}
            for index, title in enumerate(PAGES)
        ]
        steps = [
            {
                "id": index,
                "question": f"{title} >> place",
                "answer": answer,
                "paragraph_support_idx": [*PAGES].index(title),
            }
            for index, title in enumerate(titles)
        ]
        entries.append({"id": f"2hop__{number}", "paragraphs": paragraphs, "question": question, "answer": answer})
        entries[-1] |= {"question_decomposition": steps, "answer_aliases": [], "answerable": True}
    _lines(folder / "musique_ans_v1.0_dev.jsonl", entries)


def squad(folder: Path) -> None:
    """One JSON object: articles of paragraphs with questions, some unanswerable."""
    articles = [
        {
            "title": title.replace(" ", "_"),
            "paragraphs": [
                {
                    "context": " ".join(sentences),
                    "qas": [
                        {
                            "id": f"{number}a",
                            "question": f"What does the page {title} say first?",
                            "is_impossible": False,
                        }
                        | {"answers": [{"text": sentences[0].rstrip("."), "answer_start": 0}]},
                        {"id": f"{number}b", "question": f"Who wrote the page {title}?", "is_impossible": True}
                        | {"answers": [], "plausible_answers": []},
                    ],
                }
            ],
        }
        for number, (title, sentences) in enumerate(PAGES.items())
    ]
    _json(folder / "dev-v2.0.json", {"version": "v2.0", "data": articles})


def swe_bench(folder: Path) -> None:
    """A Parquet file of rows, with a clone of the repository and a Python environment with its own pytest."""
    before = {"sums/__init__.py": b"def add(a, b):\n    return a - b\n", "tests/test_sums.py": SUMS_TESTS.encode()}
    after = before | {"sums/__init__.py": b"def add(a, b):\n    return a + b\n"}
    tested = before | {"tests/test_sums.py": (SUMS_TESTS + "\n\ndef test_add():\n    assert add(2, 3) == 5\n").encode()}
    clone = folder / "repositories" / "made__sums"
    for name, data in before.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes(data)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        _git(clone, *arguments)
    commit = _git(clone, "rev-parse", "HEAD")
    row = {
        "repo": "made/sums",
        "instance_id": "made__sums-1",
        "base_commit": commit,
        "patch": diff_trees(before, after),
        "test_patch": diff_trees(before, tested),
        "problem_statement": "Sums are wrong.",
        "hints_text": "",
        "created_at": "2020-01-01T00:00:00Z",
        "version": "1.0",
        "FAIL_TO_PASS": '["tests/test_sums.py::test_add"]',
        "PASS_TO_PASS": '["tests/test_sums.py::test_zero"]',
        "environment_setup_commit": commit,
    }
    environment = folder / "environments" / "made__sums-1.0"
    venv.create(environment, symlinks=True)
    packages = environment / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    shutil.copytree(pytest_folder(), packages, dirs_exist_ok=True)
    # The user of a sandbox must be able to enter the folder.
    for place in (folder, folder / "environments", environment, *environment.rglob("*")):
        if not place.is_symlink():
            place.chmod(place.stat().st_mode | (0o555 if place.is_dir() else 0o444))
    (folder / "data").mkdir()
    table = import_module("pyarrow").Table.from_pylist([row])
    import_module("pyarrow.parquet").write_table(table, folder / "data" / "test-00000-of-00001.parquet")


WRITERS: Mapping[str, Callable[[Path], None]] = {
    "Spider": spider,
    "KaggleDBQA": kaggle_dbqa,
    "MBPP": mbpp,
    "HotpotQA": hotpotqa,
    "MuSiQue": musique,
    "SQuAD": squad,
    "SWE-bench Lite": swe_bench,
}
"""The function that writes each data set into a folder."""

CONCERTS = """
    CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, country TEXT, age INTEGER);
    CREATE TABLE show (id INTEGER PRIMARY KEY, title TEXT, singer_id INTEGER REFERENCES singer (id), seats INTEGER);
    INSERT INTO singer VALUES (1, 'Ada Brook', 'Norland', 41), (2, 'Bo Carr', 'Sudland', 29);
    INSERT INTO singer VALUES (3, 'Cy Dorn', 'Norland', 35);
    INSERT INTO show VALUES (1, 'Spring', 1, 300), (2, 'Summer', 1, 500), (3, 'Autumn', 2, 120);
"""
BAKERY = """
    CREATE TABLE bread (id INTEGER PRIMARY KEY, name TEXT, flour TEXT, price REAL);
    INSERT INTO bread VALUES (1, 'Rye loaf', 'rye', 3.5), (2, 'Roll', 'wheat', 0.6), (3, 'Baguette', 'wheat', 1.9);
"""
MUSIC = [
    ("How many singers are there?", "SELECT count(*) FROM singer"),
    ("Which singers are from Norland?", 'SELECT name FROM singer WHERE country = "Norland"'),
    ("Which singer has the most shows?", "SELECT T1.name FROM singer AS T1 JOIN show AS T2 ON T1.id = T2.singer_id "
     "GROUP BY T1.id ORDER BY count(*) DESC LIMIT 1"),
]  # fmt: skip
BREAD = [
    ("How many breads are there?", "SELECT count(*) FROM bread"),
    ("What is the dearest bread?", "SELECT name FROM bread ORDER BY price DESC LIMIT 1"),
    ("How many breads are of each flour?", "SELECT flour, count(*) FROM bread GROUP BY flour"),
]
PROBLEMS = {
    2: (
        "Write a function to double a number.",
        "def twice (x):\r\n    return 2 * x",
        ["assert twice(2) == 4", "assert twice(5) == 10"],
    ),
    11: (
        "Write a function to count the vowels of a text.",
        "def vowels(s):\n  return sum(c in 'aeiou' for c in s)",
        ["assert vowels('aloe') == 3", "assert vowels('') == 0"],
    ),
    602: (
        "Write a function to reverse a list.",
        "def flip(xs): return xs[::-1]",
        ["assert flip([1, 2]) == [2, 1]", "assert flip([]) == []"],
    ),
}
PAGES = {
    "The Tin Orchard": ["The Tin Orchard is a novel by Pella Strand.", "It came out in 1931."],
    "Pella Strand": ["Pella Strand was born in Hallow Quay.", "She wrote nine novels."],
    "Hallow Quay": ["Hallow Quay is a port of the island Venn.", "It has two lighthouses."],
    "The Glass Ferry": ["The Glass Ferry is a film by Orrin Tull.", "It runs for 94 minutes."],
    "Orrin Tull": ["Orrin Tull was born in Marrow Ford.", "He taught drawing."],
}
CHAINS = [
    ("Where was the author of The Tin Orchard born?", "Hallow Quay", ["The Tin Orchard", "Pella Strand"]),
    ("Where was the director of The Glass Ferry born?", "Marrow Ford", ["The Glass Ferry", "Orrin Tull"]),
]
SUMS_TESTS = "from sums import add\n\n\ndef test_zero():\n    assert add(2, 0) == 2\n"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _others(titles: list[str]) -> list[str]:
    return [title for title in PAGES if title not in titles]


def _asked(database: str, question: str, sql: str) -> dict[str, Any]:
    """One question in Spider's form, which also lists the tokens of the question and its query."""
    words = {"question_toks": question.split(), "query_toks": sql.split(), "sql": {}}
    return {"db_id": database, "query": sql, "question": question} | words


def _database(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)


def _json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _lines(path: Path, entries: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
